"""How a job ends, on virtual time (F15)."""

from __future__ import annotations

import msgspec
import pytest

from longhaul.fleet import keys
from longhaul.fleet.attempt import How
from longhaul.fleet.completion import Index, agrees
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.lease import Completion, Outcome, Record, State
from longhaul.fleet.results import TransferError
from longhaul.fleet.work import Merged
from tests.unit.fleet.memory import OTHER, body, put_lease
from tests.unit.fleet.virtual import QUEUE, Scene


@pytest.fixture
def scene() -> Scene:
    """A job that was never begun."""
    return Scene()


def completion(scene: Scene) -> Completion:
    """What the claim says."""
    done = scene.store.lease(scene.claim)
    assert done.state is State.DONE
    assert done.completion is not None
    return done.completion


def test_s40_the_claim_is_done_last(scene: Scene) -> None:
    """F15, S40, I3: run, upload, report, summary, claim, index, slots; all that was merged is named."""
    scene.attempt()
    names = ("run exit 0", "upload 1", "report 1", "report exit 0", "summary 1")
    order = [
        scene.first(what) for what in (*names, f"{scene.claim} done", "fleet/q/done/job", "fleet/slots/0 released")
    ]
    assert order == sorted(order)
    end = completion(scene)
    assert (end.outcome, end.exit_code, end.report_error, end.errors) == (Outcome.SUCCESS, 0, None, ())
    assert end.summary == "fleet/q/results/job/g0/attempt-1/job-summary.json"
    assert end.records == (Record(key="r", etag="e"),)


@pytest.mark.parametrize(("code", "failed"), [(1, 0), (2, 3), (-9, 0), (0, 1)])
def test_a_run_with_failures_is_done_and_failed(scene: Scene, code: int, failed: int) -> None:
    """F15: settled first, and with a summary."""
    scene.work.run_ends = (50, code)
    scene.work.merge = lambda place: Merged(records=(), files=("job-summary.json",), failed=failed)
    assert scene.attempt().how is How.DONE
    end = completion(scene)
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, code)
    assert end.summary is not None
    assert scene.happened("quiesce 1") is (code != 0)


@pytest.mark.parametrize("way", ["exit", "nothing", "unreadable", "never"])
def test_s8_a_report_that_cannot_be_made_ends_the_job(scene: Scene, way: str) -> None:
    """S8: a measured job does not run again because its summary cannot be written."""

    def nothing(place: object) -> Merged:
        raise ValueError("no merged.json")

    def unreadable(place: object) -> Merged:
        raise OSError("input/output error")

    if way in ("nothing", "unreadable"):
        scene.work.merge = nothing if way == "nothing" else unreadable
    else:
        scene.work.report_ends = (5, 1) if way == "exit" else (None, 0)
    assert scene.attempt().how is How.DONE
    end = completion(scene)
    assert (end.outcome, end.summary, end.records, end.exit_code) == (Outcome.REPORT_ERROR, None, (), 0)
    assert end.report_error
    assert scene.happened("upload")
    assert not scene.happened("summary")


@pytest.mark.parametrize("what", ["upload", "summary"])
def test_s48_without_its_summary_in_s3_a_job_is_not_done(scene: Scene, what: str) -> None:
    """S48, I3: nor without its records; released, so that another worker publishes it."""
    scene.results.errors[what] = [TransferError()] * 20
    assert scene.attempt().how is How.GIVEN_UP
    assert scene.store.lease(scene.claim).state is State.RELEASED
    assert scene.slot_states() == {State.RELEASED}


def test_a_report_that_could_not_be_made_here_is_left_to_others(scene: Scene) -> None:
    """F15, L1: on a full disk, or while S3 is away; nothing is measured again, only reported."""
    scene.work.report_ends = (5, 75)
    ending = scene.attempt()
    assert (ending.how, ending.fault) == (How.GIVEN_UP, None)
    assert scene.store.lease(scene.claim).state is State.RELEASED


def test_a_report_that_cannot_be_started_is_the_hosts_fault(scene: Scene) -> None:
    """F14, F15: it says nothing of the records."""
    scene.work.error["report"] = OSError("no memory")
    ending = scene.attempt()
    assert (ending.how, ending.fault) == (How.GIVEN_UP, "OSError: no memory")
    assert scene.store.lease(scene.claim).state is State.RELEASED


def test_an_upload_that_fails_once_is_tried_again(scene: Scene) -> None:
    """F15."""
    scene.results.errors = {"upload": [TransferError()], "summary": [TransferError()]}
    assert scene.attempt().how is How.DONE


def test_s31_a_slow_publication_is_watched(scene: Scene) -> None:
    """S31: report and uploads outlast the lease twice; it is renewed until the claim is done."""
    scene.work.report_ends = (600, 0)
    scene.results.seconds = 200
    assert scene.attempt().how is How.DONE
    assert completion(scene).outcome is Outcome.SUCCESS


def test_at_least_half_a_lease_is_left_for_the_end(scene: Scene) -> None:
    """F15: renewals failed for a while; the claim is renewed before it is completed, not just in time."""

    def trouble(verb: str, key: str) -> None:
        if key == scene.claim and 5 < scene.world.now < 150:
            raise UnansweredError

    scene.store.trouble = trouble
    scene.work.run_ends = (136, 0)
    scene.work.report_ends = (0.1, 0)
    scene.results.seconds = 0.1
    assert scene.attempt().how is How.DONE
    renewals = [at for at, did in scene.did if did == f"{scene.claim} running" and at > 5]
    assert renewals
    assert renewals[0] >= 150
    assert scene.when(f"{scene.claim} done") > renewals[0]


def test_s59_a_claim_lost_while_publishing_is_not_completed(scene: Scene) -> None:
    """S59, I2."""
    scene.work.report_ends = (100, 0)
    scene.at(220, lambda: put_lease(scene.store, scene.claim, body(OTHER, attempt=2)))
    assert scene.attempt().how is How.GIVEN_UP
    assert scene.store.lease(scene.claim).owner == OTHER
    assert not scene.happened("summary")


@pytest.mark.parametrize("landed", [True, False])
def test_s63_an_ambiguous_end_is_not_undone(scene: Scene, landed: bool) -> None:
    """S63: nobody answers any more once the claim's end was sent; what became of it decides."""
    sent: list[float] = []

    def trouble(verb: str, key: str) -> str | None:
        if key != scene.claim or not scene.happened("summary"):
            return None
        if sent and scene.world.now < sent[0] + 400:
            raise UnansweredError
        if verb == "PUT" and not sent:
            sent.append(scene.world.now)
            return "deaf" if landed else "lost"
        return None

    scene.store.trouble = trouble
    scene.attempt()
    state = scene.store.lease(scene.claim).state
    assert state is (State.DONE if landed else State.RUNNING)


def test_a_notice_while_publishing_hands_over(scene: Scene) -> None:
    """F13: what was measured is in S3, the next attempt publishes it."""
    scene.work.report_ends = (300, 0)
    scene.notice_at(250)
    assert scene.attempt().how is How.HANDED_OVER
    assert scene.when("report killed") < 260
    assert scene.store.lease(scene.claim).state is State.INTERRUPTED
    assert scene.when("end") - scene.when("notice") < 100


def test_a_notice_while_the_claim_is_being_completed_undoes_nothing(scene: Scene) -> None:
    """S63, S37: the end of the job hangs, the host is to go; within its time, whatever becomes of it."""
    scene.store.hangs = lambda verb, key: verb == "PUT" and key == scene.claim and scene.happened("summary")
    scene.notice_at(230)
    assert scene.attempt().how is How.HANDED_OVER
    assert scene.when("end") - scene.when("notice") < 100
    assert scene.store.lease(scene.claim).state is State.RUNNING


def test_an_index_that_cannot_be_written_is_left_to_others(scene: Scene) -> None:
    """F7: it decides nothing, also if it hangs."""
    scene.store.hangs = lambda verb, key: key == QUEUE.index("job") and scene.happened("summary")
    assert scene.attempt().how is How.DONE
    assert scene.slot_states() == {State.RELEASED}


def test_s33_the_end_names_the_slots_that_were_missing(scene: Scene) -> None:
    """S33, F6."""
    scene.at(60, lambda: put_lease(scene.store, keys.slot(1), body(OTHER, attempt=9, seconds=3000)))
    assert scene.attempt().how is How.DONE
    (lost,) = completion(scene).lost_slots
    assert lost.startswith("fleet/slots/1 from ")


def test_a_job_costs_few_requests(scene: Scene) -> None:
    """Issue 4: from take to done at most 12, renewals, transfers and trials aside; here with two slots of two."""
    scene.work.run_ends = (10, 0)
    scene.work.report_ends = (0.1, 0)
    scene.attempt()
    assert len(scene.store.requests) <= 12
    assert QUEUE.index("job") in scene.store.objects


def test_an_index_of_an_earlier_end_is_written_over(scene: Scene) -> None:
    """F7, S70: of a job that was requeued."""
    scene.store.store(QUEUE.index("job"), b"{}")
    assert scene.attempt().how is How.DONE
    index = msgspec.json.decode(scene.store.objects[QUEUE.index("job")][0], type=Index)
    assert agrees(index, scene.store.seen(scene.claim))


def test_of_two_lost_slots_and_a_free_one_one_is_found(scene: Scene) -> None:
    """S33, I4, I1: sought at the same moment, by two threads of one owner (seed 194 of workers found it)."""
    for number in (0, 1):
        scene.at(60, lambda number=number: put_lease(scene.store, keys.slot(number), body(OTHER, seconds=3000)))
    scene.at(100, lambda: put_lease(scene.store, keys.slot(1), body(OTHER, State.RELEASED, attempt=9)))
    assert scene.attempt().how is How.DONE
    lost = completion(scene).lost_slots
    assert sorted(one.endswith("the end") for one in lost) == [False, True]
