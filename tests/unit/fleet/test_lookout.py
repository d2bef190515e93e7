"""Looking for notices (F12); the calls that block here really do."""

from __future__ import annotations

import dataclasses
import http.client
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from longhaul.fleet.lookout import Lookout
from longhaul.fleet.machine import Notice, NoticeKind
from longhaul.fleet.runtime import real
from tests.unit.fleet.doubles import TERMINATE, NoticesDouble, eventually

Start = Callable[..., tuple[Lookout, threading.Event]]
SIGTERM = Notice(kind=NoticeKind.SIGTERM)


@pytest.fixture
def notices() -> NoticesDouble:
    """None yet."""
    return NoticesDouble()


class Started:
    """A lookout that looks often, what it wakes, and its thread."""

    def __init__(self, notices: NoticesDouble, seconds: float = 0.01) -> None:
        self.woken, self.threads = threading.Event(), list[threading.Thread]()

        def spawn(what: Callable[[], None]) -> None:
            self.threads.append(threading.Thread(target=what, daemon=True))
            self.threads[-1].start()

        self.lookout = Lookout(notices, dataclasses.replace(real(), spawn=spawn), seconds)
        self.lookout.start(self.woken.set)


@pytest.fixture
def start(notices: NoticesDouble) -> Iterator[Start]:
    """Start one; it is stopped after the test."""
    lookouts: list[Lookout] = []

    def begin(seconds: float = 0.01) -> tuple[Lookout, threading.Event]:
        one = Started(notices, seconds)
        lookouts.append(one.lookout)
        return one.lookout, one.woken

    yield begin
    for lookout in lookouts:
        lookout.stop()


def test_a_notice_is_found_and_stands(notices: NoticesDouble, start: Start) -> None:
    """F12: the first one, with its time; whoever waits is woken, the thread ends."""
    lookout, woken = start()
    eventually(lambda: notices.checks > 2)
    assert lookout.notice is None
    assert not woken.is_set()
    began = real().clock()
    notices.found = TERMINATE
    assert woken.wait(20)
    assert lookout.notice == TERMINATE
    assert began <= lookout.at <= real().clock()
    notices.found = SIGTERM
    lookout.hand_in(SIGTERM)
    lookout.poke()
    assert lookout.notice == TERMINATE


@pytest.mark.parametrize("error", [http.client.IncompleteRead(b"half"), OSError(), ValueError(), KeyError()])
def test_s14_no_error_ends_the_lookout(
    notices: NoticesDouble, start: Start, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """S14, L4: also one that is no OSError; it is told once, not every five seconds."""
    notices.error = error
    with caplog.at_level(logging.WARNING):
        lookout, woken = start()
        eventually(lambda: notices.checks > 3)
        assert len(caplog.records) == 1
    notices.error, notices.found = None, TERMINATE
    assert woken.wait(20)
    assert lookout.notice == TERMINATE


def test_a_notice_can_be_handed_in(notices: NoticesDouble, start: Start) -> None:
    """F13: SIGTERM, with the time at which it came; also while the notice service fails."""
    notices.error = OSError()
    lookout, woken = start(0.2)
    eventually(lambda: lookout.looks)
    lookout.hand_in(SIGTERM)
    at = real().clock()
    assert woken.wait(20)
    assert lookout.notice == SIGTERM
    assert lookout.at <= at


def test_it_looks_when_it_is_asked_to(notices: NoticesDouble, start: Start) -> None:
    """F10: once more before a run starts, without waiting for the next look."""
    lookout, woken = start(3600)
    eventually(lambda: lookout.looks == 1)
    assert not woken.is_set()
    lookout.poke()
    assert woken.wait(20)
    assert lookout.looks == 2


def test_it_ends_when_it_is_told_to(notices: NoticesDouble) -> None:
    """L4."""
    one = Started(notices, 3600)
    eventually(lambda: one.lookout.looks)
    one.lookout.stop()
    one.threads[0].join(20)
    assert not one.threads[0].is_alive()
