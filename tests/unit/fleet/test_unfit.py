"""A host that can measure nothing, whoever else can (F14, F17, F21)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from longhaul.fleet.lease import State
from longhaul.fleet.results import TransferError
from longhaul.fleet.surroundings import Doing
from longhaul.fleet.worker import QUARANTINED, RETIRED
from tests.unit.fleet.virtual import QUEUE, StageProcess
from tests.unit.fleet.virtual_worker import Fleet


@pytest.fixture
def fleet() -> Fleet:
    """Two jobs that nobody began."""
    return Fleet()


@pytest.mark.parametrize("kept", [False, True])
def test_a_host_that_fails_two_attempts_takes_nothing_more(
    fleet: Fleet, kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """F17: no job is abandoned for what one host lacks. F16, F21: unprotected and on record, so that it is replaced."""
    fleet.work.error["run"] = OSError("No space left on device")
    fleet.machine.kept = kept
    assert fleet.works() == QUARANTINED
    assert [fleet.store.lease(QUEUE.claim(job)).state for job in ("a", "b")] == [State.RELEASED] * 2
    assert [fleet.store.lease(QUEUE.claim(job)).attempt for job in ("a", "b")] == [1, 1]
    assert not fleet.happened("quiesce"), "nothing ran"
    assert fleet.journal.kept is None
    assert fleet.happened("i-1 unprotected") is not kept
    assert not fleet.happened("i-1 retires")
    last = fleet.hosts.records[-1]
    assert (last.doing, last.why) == (Doing.QUARANTINED, "OSError: No space left on device")
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert said == (
        "2 attempts in a row ended for a fault of this host, i-1: OSError: No space left on device;"
        " mend it, then start the worker again"
    )


def test_records_that_the_disk_does_not_keep_are_the_hosts_fault(fleet: Fleet) -> None:
    """F17: the run's exit code does not tell them from records that S3 did not keep; the disk does."""
    fleet.work.run_ends = (50, 75)
    fleet.at(30, lambda: fleet.journal.errors.update(check=[OSError()] * 2))
    assert fleet.works() == QUARANTINED
    assert fleet.count("run 1") == 2


def test_a_job_that_is_done_shows_that_the_host_is_fit(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """F17: what failed before was no fault that lasts."""
    run, runs = fleet.work.run, itertools.count(1)

    def fails_every_second(*words: Any, **named: Any) -> StageProcess:
        if next(runs) in (1, 3):
            raise OSError("too many processes")
        return run(*words, **named)

    monkeypatch.setattr(fleet.work, "run", fails_every_second)
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")
    assert fleet.is_done("b")
    assert next(runs) == 5


def test_trouble_with_s3_is_no_fault_of_the_host(fleet: Fleet) -> None:
    """F14: any number of attempts may be given up for it."""
    fleet.results.errors["upload"] = [TransferError()] * 15
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")


def test_a_worker_waits_for_a_disk_that_takes_something(fleet: Fleet) -> None:
    """F14, F21: one that is started again on such a host goes on saying so, and takes nothing."""
    fleet.journal.errors["check"] = [OSError("full")] * 20
    assert fleet.works() == RETIRED
    assert fleet.when("run") >= 20 * 60
    first = fleet.hosts.records[0]
    assert (first.doing, first.why) == (Doing.QUARANTINED, "OSError: full")
