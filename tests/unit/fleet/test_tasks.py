"""Calls in threads of their own (L4, S37)."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial

import pytest

from longhaul.fleet.results import TransferError
from longhaul.fleet.runtime import real
from longhaul.fleet.tasks import Task, together


def test_what_a_call_returns_is_kept() -> None:
    """And whoever waits is woken."""
    woken = threading.Event()
    task = Task(real(), "adding", lambda: 1 + 1, woken.set)
    assert woken.wait(20)
    assert task.ended
    assert task.result == 2


@pytest.mark.parametrize(("error", "traced"), [(KeyError("x"), True), (TransferError("x"), False)])
def test_no_error_of_a_thread_is_silent(error: Exception, traced: bool, caplog: pytest.LogCaptureFixture) -> None:
    """L4, S14: logged, with its trace if nobody foresaw it, and raised where the result is asked for."""
    woken = threading.Event()

    def call() -> None:
        raise error

    with caplog.at_level(logging.WARNING):
        task = Task(real(), "uploading", call, woken.set)
        assert woken.wait(20)
    assert task.ended
    with pytest.raises(type(error)):
        _ = task.result
    assert [record.message.split(":")[0] for record in caplog.records] == ["uploading"]
    assert bool(caplog.records[0].exc_info) is traced


def test_whoever_asks_for_a_result_tells_of_its_error(caplog: pytest.LogCaptureFixture) -> None:
    """One line of one error, and not two; what nobody foresaw is logged in any case."""

    def call(error: Exception) -> None:
        raise error

    for error in (TransferError("x"), KeyError("x")):
        woken = threading.Event()
        Task(real(), "uploading", partial(call, error), woken.set, awaited=True)
        assert woken.wait(20)
    assert [record.message for record in caplog.records] == ["uploading: KeyError: 'x'"]


def test_a_call_that_hangs_is_waited_for_no_longer_than_allowed() -> None:
    """S37."""
    opened = threading.Event()
    began = time.monotonic()
    hanging, quick = together(real(), "waiting", [lambda: opened.wait(20), lambda: True], real().clock() + 0.2)
    assert time.monotonic() - began < 10
    assert quick.result is True
    assert not hanging.ended
    with pytest.raises(ValueError, match="not ended"):
        _ = hanging.result
    opened.set()
