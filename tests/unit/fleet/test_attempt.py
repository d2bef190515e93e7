"""One attempt, on virtual time: whatever hangs here hangs for ever (F10, F11, F13, F14)."""

from __future__ import annotations

import http.client

import pytest
from msgspec.structs import replace

from longhaul.fleet import attempt as attempts
from longhaul.fleet.attempt import How
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import Attempt, Place
from longhaul.fleet.lease import Outcome, State
from longhaul.fleet.machine import Notice, NoticeKind
from longhaul.fleet.results import AlienAttemptError, TransferError
from tests.unit.fleet.memory import ME, OTHER, body, put_lease
from tests.unit.fleet.virtual import BOUND, NOTICE, Scene, StageProcess

EARLIER = Place(job="job", attempt=Attempt(generation=0, number=1))


@pytest.fixture
def scene() -> Scene:
    """A job that was never begun."""
    return Scene()


@pytest.fixture
def second() -> Scene:
    """A job of which there is an attempt, given back."""
    scene = Scene()
    scene.begun(EARLIER)
    return scene


def in_time(scene: Scene) -> bool:
    """L3: whether the attempt ended within 100 s of the notice."""
    return scene.when("end") - scene.when("notice") < BOUND


# ---- F10, F11: the way to a measured job -----------------------------------------------------------------------------
def test_a_first_attempt_runs_at_once(scene: Scene) -> None:
    """F10: with nothing to look for, to fetch or to stop."""
    ending = scene.attempt()
    assert not scene.happened("list")
    assert (ending.how, ending.quarantine) == (How.DONE, None)
    assert scene.happened("run 1")
    assert not scene.happened("quiesce")
    assert scene.store.lease(scene.claim).state is State.DONE
    assert scene.slot_states() == {State.RELEASED}


def test_s28_earlier_queries_are_stopped_before_the_run(second: Scene) -> None:
    """S28, F10, I5: fetched, stopped, and only then resumed from."""
    assert second.attempt().how is How.DONE
    order = [second.first(what) for what in ("list job 0..0", "download 1", "quiesce 1", "quiesce exit 0", "run 2 1")]
    assert order == sorted(order)


def test_s12_whatever_a_command_left_is_killed(second: Scene) -> None:
    """S12, F11: also after it ended by itself, and before anything else."""
    second.attempt()
    kills = [did for _, did in second.did if did.endswith("killed")]
    assert kills == ["quiesce killed", "run killed", "report killed"]


def test_s55_quiescing_may_outlast_the_lease(second: Scene) -> None:
    """S55: claim and slots are renewed meanwhile."""
    second.work.quiesce_ends = [(400, 0)]
    assert second.attempt().how is How.DONE
    assert second.when("run") > 400


@pytest.mark.parametrize("ends", [(35.0, 75), (None, 0), (5.0, -9)])
def test_earlier_queries_that_may_run_on_stop_the_attempt(second: Scene, ends: tuple[float | None, int]) -> None:
    """F10, S43, I5: released and put on record; a quiescing that never ends counts as such."""
    second.work.quiesce_ends = [ends]
    ending = second.attempt()
    assert ending.how is How.GIVEN_UP
    assert ending.quarantine is not None
    assert ending.quarantine.places == (EARLIER,)
    assert ending.quarantine.unconfirmed.queries == ("q-1",)
    assert not second.happened("run")
    assert second.store.lease(second.claim).state is State.RELEASED
    assert second.slot_states() == {State.RELEASED}
    assert sum(did.startswith("quiesce 1") for _, did in second.did) == 1


def test_quiescing_that_cannot_start_confirms_nothing(second: Scene) -> None:
    """F10."""
    second.work.error["quiesce"] = OSError("no memory")
    ending = second.attempt()
    assert ending.quarantine is not None
    assert not second.happened("run")


def test_s6_a_notice_while_earlier_queries_are_stopped(second: Scene) -> None:
    """S6: nothing starts."""
    second.notice_at(20)
    assert second.attempt().how is How.HANDED_OVER
    assert not second.happened("run")
    assert second.store.lease(second.claim).state is State.INTERRUPTED
    assert second.slot_states() == {State.RELEASED}
    assert in_time(second)


def test_s6_a_notice_is_looked_for_once_more_before_the_run() -> None:
    """S6, F10: it came a moment ago, and the next look is far."""
    scene = Scene(look_seconds=3000)
    scene.notice_at(0.2)
    assert scene.attempt(until=5000).how is How.HANDED_OVER
    assert not scene.happened("run")


def test_an_attempt_of_another_version_is_not_resumed(second: Scene) -> None:
    """F10: given up, not tried again and again."""
    second.results.errors["download"] = [AlienAttemptError()]
    ending = second.attempt()
    assert ending.how is How.GIVEN_UP
    assert sum(did.startswith("download") for _, did in second.did) == 1
    assert second.store.lease(second.claim).state is State.RELEASED


@pytest.mark.parametrize("error", [TransferError(), http.client.IncompleteRead(b""), OSError()])
def test_s14_a_transfer_that_fails_is_tried_again(second: Scene, error: Exception) -> None:
    """S14, S77: whatever it is; and given up if it goes on."""
    second.results.errors["download"] = [error] * 3
    assert second.attempt().how is How.DONE
    again = Scene()
    again.begun(EARLIER)
    again.results.errors["list"] = [error] * 20
    ending = again.attempt()
    assert ending.how is How.GIVEN_UP
    assert sum(did.startswith("list") for _, did in again.did) == 5
    assert again.store.lease(again.claim).state is State.RELEASED


def test_a_transfer_that_hangs_is_given_up(second: Scene) -> None:
    """L4: renewing for ever is no progress."""
    second.results.hangs.add("list")
    ending = second.attempt()
    assert (ending.how, ending.fault) == (How.GIVEN_UP, "a transfer does not end")
    assert second.when(f"{second.claim} released") < 2000
    assert second.when("end") < 2500


def losing(scene: Scene, upload_seconds: float) -> float:
    """Lose the claim during an upload that takes so long; when the claim's loss is heard of at the latest."""
    scene.results.seconds = upload_seconds
    scene.at(205, lambda: put_lease(scene.store, scene.claim, replace(body(OTHER, attempt=2), nonce="theirs")))
    return 205.0 + 35


def test_i6_a_transfer_that_was_given_up_is_outlasted(scene: Scene) -> None:
    """I6, F19: what a stalled upload still sends would disturb the next job's trials (seed 3400750 of workers)."""
    lost = losing(scene, 300)
    ending = scene.attempt()
    assert (ending.how, ending.fault) == (How.GIVEN_UP, None)
    assert scene.when("upload") < lost
    assert scene.when("end") >= scene.when("upload") + 300


def test_l3_a_notice_ends_the_wait_for_a_transfer(scene: Scene) -> None:
    """L3, F13: nothing is held any more, and the host is about to go."""
    losing(scene, 300)
    scene.notice_at(300)
    assert scene.attempt().how is How.HANDED_OVER
    assert scene.when("end") < 310


def test_the_run_hears_of_every_deadline(scene: Scene) -> None:
    """F19: from the claim alone; and at the end that there is none any more."""
    scene.attempt()
    deadlines = scene.work.deadlines
    assert deadlines[:-1] == sorted(deadlines[:-1])
    assert len(deadlines) > 5
    assert deadlines[-1] == float("-inf")


# ---- F13: a notice ---------------------------------------------------------------------------------------------------
def test_s7_s53_s35_what_was_measured_is_uploaded_before_the_claim_goes(scene: Scene) -> None:
    """S7, S53, S35: after the run wrote its last record, and before anybody else can have the job."""
    scene.notice_at(100)
    scene.work.prepare = lambda name, process: setattr(process, "on_interrupt", lambda: scene.note("last record"))
    ending = scene.attempt()
    assert (ending.how, ending.quarantine) == (How.HANDED_OVER, None)
    names = ("notice", "run interrupted", "last record", "run exit 130", "run killed", "upload 1")
    order = [scene.first(what) for what in (*names, f"{scene.claim} interrupted", "fleet/slots/0 released", "end")]
    assert order == sorted(order)
    assert scene.when("end") - scene.when("notice") < 15
    assert scene.store.lease(scene.claim).completion is None


def everything_hangs(scene: Scene, name: str, process: StageProcess) -> None:
    """Nothing ever comes back any more, from S3, from a transfer, from signals."""
    process.obeys, process.interrupt_hangs = False, True
    scene.at(99, lambda: setattr(scene.store, "hangs", lambda verb, key: True))
    scene.results.hangs.add("upload")


def test_s37_s25_a_hand_over_has_an_end_whatever_hangs() -> None:
    """S37, S25, S76, L3: every request to S3, the upload, and a run that ignores SIGINT, with ten slots held."""
    scene = Scene(weight=10)
    scene.work.run_ends = (None, 0)
    scene.work.prepare = lambda name, process: everything_hangs(scene, name, process)
    scene.notice_at(100)
    ending = scene.attempt()
    assert ending.how is How.HANDED_OVER
    assert in_time(scene)
    assert scene.when("end") - scene.when("notice") > 90, "each step had its time"
    assert scene.when("run killed") - scene.when("notice") == pytest.approx(20, abs=1 + 5)
    assert ending.quarantine is not None, "a run that was killed has not cancelled its queries"


def test_f13_each_step_has_its_own_time() -> None:
    """F13: SIGINT 20 s, upload 45 s, claim 20 s, slots 10 s; counted from the notice, whenever it was seen."""
    scene = Scene(look_seconds=0.5)
    scene.work.run_ends = (None, 0)
    scene.work.prepare = lambda name, process: everything_hangs(scene, name, process)
    scene.notice_at(100)
    scene.attempt()
    began = scene.lookout.at - 1000
    assert scene.when("run interrupted") == pytest.approx(began, abs=0.1)
    assert scene.when("run killed") == pytest.approx(began + 20, abs=0.1)
    assert scene.when("upload") == pytest.approx(began + 20, abs=0.1)
    claims = [at for at, did in scene.did if did == f"hangs PUT {scene.claim}" and at > began + 30]
    assert not claims, "a renewal that hangs has the claim"
    assert scene.when("end") == pytest.approx(began + 20 + 45 + 20 + 10, abs=0.5)


def test_sigterm_counts_from_when_it_came(scene: Scene) -> None:
    """F13: not from when the lookout heard of it."""
    scene.work.run_ends = (None, 0)
    scene.work.prepare = lambda name, process: everything_hangs(scene, name, process)

    def come() -> None:
        scene.lookout.hand_in(Notice(kind=NoticeKind.SIGTERM))
        scene.note("notice")

    scene.at(101, come)
    assert scene.attempt().how is How.HANDED_OVER
    assert in_time(scene)


def test_what_cannot_be_killed_keeps_its_claim_and_slots_until_they_expire(scene: Scene) -> None:
    """F13, I1, I4, I5: others would run beside it; it is told to stop, and nothing is renewed."""
    scene.work.run_ends = (None, 0)

    def prepare(name: str, process: StageProcess) -> None:
        process.obeys = process.dies = False

    scene.work.prepare = prepare
    scene.notice_at(100)
    ending = scene.attempt()
    assert ending.how is How.HANDED_OVER
    assert ending.quarantine is not None
    assert in_time(scene)
    assert scene.store.lease(scene.claim).state is State.RUNNING
    assert scene.slot_states() == {State.RUNNING}
    assert scene.work.deadlines[-1] == float("-inf")
    assert scene.store.lease(scene.claim).sequence < 8, "it is renewed no more"


def test_a_kill_that_hangs_is_not_waited_for(scene: Scene) -> None:
    """S37."""
    scene.work.run_ends = (None, 0)
    scene.work.prepare = lambda name, process: setattr(process, "kill_hangs", True)
    scene.notice_at(100)
    assert scene.attempt().how is How.HANDED_OVER
    assert in_time(scene)


def test_s52_a_notice_goes_before_a_success(scene: Scene) -> None:
    """S52: both at once; the job is handed over, and the next attempt finds nothing to run and says so."""
    scene.work.run_ends = (None, 0)

    def prepare(name: str, process: StageProcess) -> None:
        def both() -> None:
            scene.note("notice")
            scene.lookout.at, scene.lookout.notice = scene.runtime.clock(), NOTICE
            process.exit(0)

        scene.at(10, both)

    scene.work.prepare = prepare
    ending = scene.attempt()
    assert (ending.how, ending.quarantine) == (How.HANDED_OVER, None)
    assert scene.happened("upload 1")
    assert not scene.happened("report")
    assert scene.store.lease(scene.claim).state is State.INTERRUPTED
    after = Scene()
    after.store.objects = scene.store.objects
    after.results.there = [EARLIER]
    after.work.run_ends = (1, 0)
    assert after.attempt().how is How.DONE
    done = after.store.lease(after.claim)
    assert done.completion is not None
    assert (done.attempt, done.completion.outcome) == (2, Outcome.SUCCESS)


def test_s26_no_upload_runs_beside_an_older_one(scene: Scene) -> None:
    """S26: the older would land later, and truncate."""
    scene.results.hangs.add("upload")
    scene.notice_at(230)
    assert scene.attempt().how is How.HANDED_OVER
    assert sum(did.startswith("upload") for _, did in scene.did) == 1
    assert in_time(scene)


# ---- F14: the claim is lost ------------------------------------------------------------------------------------------
def test_s23_s42_whoever_lost_its_claim_records_nothing(scene: Scene) -> None:
    """S23, S42, I2: the run is killed, its queries are stopped, and the successor's claim is not touched."""
    scene.at(100, lambda: put_lease(scene.store, scene.claim, replace(body(OTHER, attempt=2), nonce="theirs")))
    ending = scene.attempt()
    assert (ending.how, ending.quarantine) == (How.GIVEN_UP, None)
    assert scene.when("run killed") <= 100 + 35
    assert scene.happened("quiesce 1")
    assert not scene.happened("upload")
    assert scene.store.lease(scene.claim).nonce == "theirs"
    assert scene.slot_states() == {State.RELEASED}


def test_s32_i1_everything_stands_still_at_the_deadline(scene: Scene) -> None:
    """S32, I1, F4: S3 hangs; the run is dead before others may begin to count."""
    scene.work.run_ends = (None, 0)
    scene.at(100, lambda: setattr(scene.store, "hangs", lambda verb, key: key == scene.claim))
    scene.attempt()
    assert scene.when("run killed") < max(scene.work.deadlines) - 1000
    assert scene.happened("quiesce 1")


def test_s46_a_claim_that_expired_here_and_lives_there_is_released(scene: Scene) -> None:
    """S46: the renewal was carried out, its answer came too late."""
    scene.work.run_ends = (None, 0)

    def trouble(verb: str, key: str) -> str | None:
        if key == scene.claim and 100 < scene.world.now < 400:
            if verb == "PUT":
                return "deaf"
            raise UnansweredError
        return None

    scene.store.trouble = trouble
    assert scene.attempt().how is How.GIVEN_UP
    assert scene.when("run killed") < 365
    assert scene.store.lease(scene.claim).state is State.RELEASED
    assert scene.store.lease(scene.claim).owner == ME


@pytest.mark.parametrize("way", ["failed", "lost", "unstored", "killed", "notice", "unfinished notice"])
def test_s45_queries_that_may_run_on_are_never_forgotten(scene: Scene, way: str) -> None:
    """S45, S43, S12, I5: on whichever way out; the worker ends with 75, or settles when it comes back."""
    scene.work.quiesce_ends = [(35, 75)]
    scene.work.run_ends = {"failed": (50, 1), "unstored": (50, 75), "killed": (50, -9)}.get(way, (None, 0))
    if way == "lost":
        scene.at(100, lambda: put_lease(scene.store, scene.claim, body(OTHER, attempt=2)))
    if "notice" in way:
        scene.notice_at(100)
        scene.work.prepare = lambda name, process: setattr(process, "obeys", False)
    if way == "unfinished notice":
        scene.work.run_ends, scene.work.quiesce_ends = (50, 1), [(300, 0)]
    ending = scene.attempt()
    assert ending.quarantine is not None
    assert ending.quarantine.places == (Place(job="job", attempt=Attempt(generation=0, number=1)),)
    assert ending.quarantine.unconfirmed.prefixes == ("trials-of-1/",)
    completion = scene.store.lease(scene.claim).completion
    if way in ("failed", "killed"):
        assert completion is not None
        assert completion.errors == ("query q-1 may still run", "a query below trials-of-1/ may still run")
    else:
        assert completion is None


def test_records_that_could_not_be_stored_end_the_attempt(scene: Scene) -> None:
    """F19, S44: no failure is recorded; the job goes back."""
    scene.work.run_ends = (50, attempts.UNSTORED)
    ending = scene.attempt()
    assert (ending.how, ending.quarantine) == (How.GIVEN_UP, None)
    order = [scene.first(what) for what in ("run exit 75", "quiesce 1", f"{scene.claim} released")]
    assert order == sorted(order)
    assert not scene.happened("upload")


def test_s59_a_claim_that_expires_while_queries_are_stopped_is_not_published(scene: Scene) -> None:
    """S59."""
    scene.work.run_ends = (50, 1)
    scene.work.quiesce_ends = [(350, 0), (35, 0)]
    scene.at(60, lambda: put_lease(scene.store, scene.claim, body(OTHER, attempt=2)))
    ending = scene.attempt()
    assert (ending.how, ending.quarantine) == (How.GIVEN_UP, None)
    assert not scene.happened("upload")
    assert sum(did.startswith("quiesce 1") for _, did in scene.did) == 2


def test_a_notice_while_giving_up_is_heeded(scene: Scene) -> None:
    """L3: the queries of a lost attempt take long to stop, and the host is to go."""
    scene.work.run_ends = (50, attempts.UNSTORED)
    scene.work.quiesce_ends = [(300, 0)]
    scene.notice_at(100)
    ending = scene.attempt()
    assert ending.how is How.HANDED_OVER
    assert ending.quarantine is not None
    assert in_time(scene)
    assert scene.store.lease(scene.claim).state is State.INTERRUPTED


def test_a_command_that_survives_is_not_handed_on(scene: Scene) -> None:
    """I5: given up, but neither claim nor slots are given back."""
    scene.work.prepare = lambda name, process: setattr(process, "dies", name != "run")
    ending = scene.attempt()
    assert ending.how is How.GIVEN_UP
    assert ending.quarantine is not None
    assert scene.store.lease(scene.claim).state is State.RUNNING
    assert scene.slot_states() == {State.RUNNING}
    assert not scene.happened("upload")


def test_an_error_that_nobody_foresaw_leaves_nothing_running(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """L4: it ends the worker, with its trace, and the run with it."""
    scene.work.run_ends = (None, 0)
    scene.notice_at(50)

    def broken(*arguments: object) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(attempts.Attempt, "_hand_over", broken)
    with pytest.raises(KeyError):
        scene.attempt()
    assert scene.happened("run killed")


# ---- F17 -------------------------------------------------------------------------------------------------------------
def poisoned(scene: Scene) -> None:
    """Four attempts measured nothing, the last of them vanished."""
    put_lease(scene.store, scene.claim, replace(body(OTHER, State.RELEASED, attempt=4), barren=3))
    scene.results.has_measured = False


def test_s68_the_fifth_taker_ends_the_job(scene: Scene) -> None:
    """F17, S68: it does not run; the summary says what little there is."""
    poisoned(scene)
    assert scene.attempt().how is How.DONE
    assert not scene.happened("run")
    completion = scene.store.lease(scene.claim).completion
    assert completion is not None
    assert completion.outcome is Outcome.ABANDONED
    assert completion.summary == "fleet/q/results/job/g0/attempt-5/job-summary.json"
    assert completion.errors == ("4 attempts in a row measured nothing",)


@pytest.mark.parametrize("trouble", ["report", "host", "summary"])
def test_s68_a_job_is_abandoned_without_a_summary_if_need_be(scene: Scene, trouble: str) -> None:
    """S68: one that can never be published ends too."""
    poisoned(scene)
    scene.work.report_ends = (5, {"report": 1, "host": 75, "summary": 0}[trouble])
    scene.results.errors["summary"] = [TransferError()] * 20
    assert scene.attempt().how is How.DONE
    completion = scene.store.lease(scene.claim).completion
    assert completion is not None
    assert (completion.outcome, completion.summary, completion.records) == (Outcome.ABANDONED, None, ())
    assert completion.report_error
