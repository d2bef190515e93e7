"""A whole worker on virtual time: start, loop, retirement and exit codes (F9, F14, F16)."""

from __future__ import annotations

import dataclasses
import math

import pytest
from msgspec.structs import replace

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import Attempt, Place
from longhaul.fleet.lease import Completion, Outcome, Owner, State
from longhaul.fleet.machine import MachineError, Notice, NoticeKind
from longhaul.fleet.results import TransferError
from longhaul.fleet.surroundings import Doing, Quarantine
from longhaul.fleet.taking import Job
from longhaul.fleet.work import Unconfirmed
from longhaul.fleet.worker import INTERRUPTED, QUARANTINED, RETIRED
from tests.unit.fleet.memory import OTHER, body, put_lease
from tests.unit.fleet.stage import Host
from tests.unit.fleet.virtual import BOUND, NOTICE, QUEUE, StageProcess
from tests.unit.fleet.virtual_worker import Fleet

LEFT = Quarantine(
    places=(Place(job="a", attempt=Attempt(generation=0, number=1)),),
    unconfirmed=Unconfirmed(queries=("q-9",), prefixes=()),
)
DONE = replace(body(OTHER), state=State.DONE, completion=Completion(outcome=Outcome.SUCCESS))
DAY = 86400.0


@pytest.fixture
def fleet() -> Fleet:
    """Two jobs that nobody began."""
    return Fleet()


def in_time(fleet: Fleet) -> bool:
    """L3."""
    return fleet.when("end") - fleet.when("notice") < BOUND


def lives(fleet: Fleet, job: str, until: float = DAY) -> None:
    """Another host runs the job, and renews its claim every minute."""
    claim = body(OTHER)

    def renew(number: int) -> None:
        if fleet.world.now < until:
            put_lease(fleet.store, QUEUE.claim(job), replace(claim, nonce=f"{job}-{number}", sequence=number))
            fleet.at(60, lambda: renew(number + 1))

    renew(0)


# ---- F9: start, work, end --------------------------------------------------------------------------------------------
def test_a_worker_works_its_queue_off(fleet: Fleet) -> None:
    """F9, L5: every job, each protected; then the host goes, unprotected, and says why."""
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")
    assert fleet.is_done("b")
    order = [fleet.first(what) for what in ("rehearsal", "i-1 suspends", "record waiting", "i-1 protected", "run")]
    assert order == sorted(order)
    assert fleet.when("i-1 unprotected") < fleet.when("i-1 retires")
    assert fleet.count("i-1 protected") == 1, "once, for all that it takes in a row"
    assert fleet.hosts.records[-1].doing is Doing.ENDED
    assert fleet.hosts.records[-1].why == "every job is done"
    assert fleet.journal.kept is None


def test_without_a_host_to_terminate_only_the_worker_ends(fleet: Fleet) -> None:
    """F16."""
    assert fleet.works(terminate_host=False) == RETIRED
    assert not fleet.happened("i-1 retires")


def test_the_heaviest_job_goes_first_and_none_overtakes_it() -> None:
    """F6, S74: although the light one would fit."""
    fleet = Fleet((Job(id="light", api_weight=1), Job(id="heavy", api_weight=2)))
    put_lease(fleet.store, "fleet/slots/0", body(OTHER, seconds=600))
    fleet.works()
    assert fleet.when(f"{QUEUE.claim('heavy')} running") < fleet.when(f"{QUEUE.claim('light')} running")
    assert fleet.when(f"{QUEUE.claim('heavy')} running") > 600


def test_s79_a_queue_that_never_comes_retires_the_host(fleet: Fleet) -> None:
    """S79, L5: after an hour, and not before; errors are no queue."""
    fleet.queue.comes_at = DAY
    fleet.queue.errors = [UnansweredError(), TransferError()]
    assert fleet.works() == RETIRED
    assert 3600 <= fleet.when("i-1 retires") < 3700
    assert not fleet.happened("run")


def test_a_queue_that_comes_late_is_worked_off(fleet: Fleet) -> None:
    """F9; the host's record tells that it waits."""
    fleet.queue.comes_at = 3000
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")
    assert fleet.count("record waiting") >= 8


def test_without_waiting_a_queue_has_to_be_there(fleet: Fleet) -> None:
    """F9: as without `--wait`."""
    fleet.queue.comes_at = 10
    assert fleet.works(wait_seconds=0) == RETIRED
    assert fleet.count("asks for the queue") == 1


def test_while_paused_nothing_is_taken(fleet: Fleet) -> None:
    """F25."""
    fleet.queue.is_paused = True
    fleet.at(500, lambda: setattr(fleet.queue, "is_paused", False))
    assert fleet.works() == RETIRED
    assert fleet.when("run") > 500


def test_a_pause_that_is_not_known_of_counts(fleet: Fleet) -> None:
    """F25; it is looked for only where there is something to take."""
    fleet.queue.pause_errors = [UnansweredError()] * 2
    assert fleet.works() == RETIRED
    assert fleet.when("run") > 30
    assert fleet.count("asks for a pause") == 4


def test_an_s3_that_answers_nothing_is_outlived(fleet: Fleet) -> None:
    """S77, L4."""

    def trouble(verb: str, key: str) -> None:
        if fleet.world.now < 500:
            raise UnansweredError

    fleet.store.trouble = trouble
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")


def test_a_machine_that_refuses_is_asked_again(fleet: Fleet) -> None:
    """F9: rebalancing is suspended later, the record is written later; nothing is fatal."""
    fleet.machine.errors = {"suspends": [MachineError()] * 2, "unprotected": [MachineError()]}
    fleet.hosts.errors = [UnansweredError(), KeyError()]  # also what nobody foresaw
    fleet.queue.comes_at = 200
    assert fleet.works() == RETIRED
    assert fleet.count("i-1 suspends") == 3
    assert fleet.hosts.records


def test_s64_what_is_not_protected_is_not_taken(fleet: Fleet) -> None:
    """S64, I10: it is tried again; and after five minutes the work goes before."""
    fleet.machine.errors = {"protected": [MachineError()] * 3}
    assert fleet.works() == RETIRED
    assert fleet.count("i-1 protected") == 4
    assert fleet.when("run") > 60
    never = Fleet()
    never.machine.errors = {"protected": [MachineError()] * 99}
    assert never.works() == RETIRED
    assert 300 <= never.when("run") < 400


def test_a_machine_that_hangs_is_not_waited_for(fleet: Fleet) -> None:
    """L4."""
    fleet.machine.hangs = {"suspends", "unprotected"}
    fleet.hosts.hang = True
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")


def test_the_index_is_repaired(fleet: Fleet) -> None:
    """F7: whoever looks and finds it missing."""
    put_lease(fleet.store, QUEUE.claim("a"), DONE)
    fleet.works()
    assert fleet.when(f"{QUEUE.index('a')} index") < fleet.when("run")


# ---- F14 -------------------------------------------------------------------------------------------------------------
def test_a_quarantine_is_settled_before_anything_else(fleet: Fleet) -> None:
    """F14, I5: every minute, without end, whatever the exit code; then it is forgotten."""
    fleet.journal.kept = LEFT
    fleet.work.quiesce_ends = [(35.0, 75)] * 100 + [(35.0, 0)]
    assert fleet.works() == RETIRED
    assert fleet.count("quiesce 1") == 101
    assert 100 * 95 <= fleet.when("quarantine cleared") <= fleet.when("i-1 suspends") < fleet.when("run")
    assert fleet.hosts.records[0].doing is Doing.QUARANTINED
    assert fleet.hosts.records[0].quarantine == LEFT.unconfirmed
    assert fleet.journal.kept is None


def test_a_quarantine_that_cannot_be_read_is_not_none(fleet: Fleet) -> None:
    """I5: nor is one that cannot be cleared, or settled because no process starts."""
    fleet.journal.errors = {"read": [OSError()] * 3, "clear": [OSError()]}
    assert fleet.works() == RETIRED
    assert fleet.when("i-1 suspends") >= 180
    again = Fleet()
    again.journal.kept = LEFT
    again.journal.errors = {"write": [OSError()]}
    again.work.error["quiesce"] = OSError()
    again.at(200, lambda: again.work.error.clear())
    assert again.works() == RETIRED
    assert again.when("i-1 suspends") > 240
    assert again.count("quiesce exit 0") >= 2


def test_a_notice_ends_the_settling(fleet: Fleet) -> None:
    """L3, S69: it stays on record; nothing of the settling lives on."""
    fleet.journal.kept = LEFT
    fleet.work.quiesce_ends = [(300.0, 75)]
    fleet.notice_at(100)
    assert fleet.works() == INTERRUPTED
    assert in_time(fleet)
    assert fleet.happened("quiesce killed")
    assert fleet.journal.kept == LEFT


def test_s43_queries_that_may_run_on_end_the_worker_and_keep_the_host(fleet: Fleet) -> None:
    """S43, S45, F14: exit 75, on record on disk and with the host; nothing else is taken, the host is not retired."""
    fleet.work.run_ends = (50, 1)
    fleet.work.quiesce_ends = [(35, 75)]
    assert fleet.works() == QUARANTINED
    assert fleet.journal.kept is not None
    assert fleet.journal.kept.unconfirmed.queries == ("q-1",)
    assert fleet.hosts.records[-1].doing is Doing.QUARANTINED
    assert not fleet.happened("i-1 retires")
    assert fleet.count("run 1") == 1


def test_a_quarantine_that_cannot_be_kept_is_settled_on_the_spot(fleet: Fleet) -> None:
    """I5: the next worker would not know of it."""
    fleet.work.run_ends = (50, 1)
    fleet.work.quiesce_ends = [(35, 75)] * 3 + [(35, 0)]
    fleet.at(30, lambda: fleet.journal.errors.update(write=[OSError()]))
    assert fleet.works() == RETIRED
    assert fleet.journal.kept is None
    runs = [at for at, did in fleet.did if did.startswith("run 1")]
    settled = next(at for at, did in fleet.did if did == "quiesce exit 0")
    assert runs[0] < settled < runs[1]


@pytest.mark.parametrize("at", [100, 150])
def test_a_worker_that_crashed_in_a_run_settles_it_first(fleet: Fleet, at: float) -> None:
    """I5, F14: nobody wrote down that its queries may run on, and the next job may be another one."""
    crashed = Host()

    def main() -> int:
        fleet.world.spawn(crashed, worker.run)
        return 0

    fleet.runtime = dataclasses.replace(fleet.runtime, spawn=lambda what: fleet.world.spawn(crashed, what))
    worker = fleet.worker()
    fleet.at(at, lambda: setattr(crashed, "paused_until", math.inf))
    fleet.play(main, until=1000)
    assert fleet.journal.kept is not None
    (place,) = fleet.journal.kept.places
    after = Fleet()
    after.journal.kept, after.store.objects = fleet.journal.kept, fleet.store.objects
    assert after.works() == RETIRED
    assert after.first(f"quiesce {place.attempt.number}") < after.first("quarantine cleared") < after.first("run")
    assert after.is_done("a")
    assert after.is_done("b")
    assert after.journal.kept is None


def test_a_run_that_cannot_be_put_on_record_does_not_start(fleet: Fleet) -> None:
    """I5: after a crash nobody would know of it."""
    fleet.journal.errors = {"write": [OSError()] * 2}
    assert fleet.works() == RETIRED
    assert fleet.first(f"{QUEUE.claims}") < fleet.first("quarantine kept") < fleet.first("run")
    assert {fleet.store.lease(QUEUE.claim(job)).attempt for job in ("a", "b")} == {1, 2}


def test_s46_a_claim_of_its_own_that_it_does_not_run_is_released(fleet: Fleet) -> None:
    """S46, S62: as soon as it is seen, so that nobody waits for its expiry."""
    worker = fleet.worker()
    put_lease(fleet.store, QUEUE.claim("a"), body(worker.owner, attempt=3))
    assert fleet.play(worker.run) == RETIRED
    assert fleet.when(f"{QUEUE.claim('a')} released") < 5
    assert fleet.store.lease(QUEUE.claim("a")).attempt == 4


def test_an_index_that_no_look_saw_is_not_asked_for(fleet: Fleet) -> None:
    """F2: the look at the queue has just listed all of them."""
    assert fleet.works() == RETIRED
    assert not any(one.startswith("GET fleet/q/done/") for one in fleet.store.requests)


def test_what_an_earlier_worker_of_the_host_left_is_anybodys_at_once(fleet: Fleet) -> None:
    """F14, L2: also where this one finds no slots for it, or is not to take anything."""
    put_lease(fleet.store, QUEUE.claim("a"), body(Owner(instance="i-1", worker="before"), attempt=3))
    fleet.queue.is_paused = True
    fleet.notice_at(20)
    assert fleet.works() == INTERRUPTED
    assert fleet.store.lease(QUEUE.claim("a")).state is State.RELEASED
    assert fleet.store.lease(QUEUE.claim("a")).attempt == 3


def test_what_an_earlier_worker_of_the_host_left_is_taken_at_once(fleet: Fleet) -> None:
    """F14: without waiting for its expiry."""
    before = Owner(instance="i-1", worker="before")
    for job in ("a", "b"):
        put_lease(fleet.store, QUEUE.claim(job), body(before, attempt=3))
    assert fleet.works() == RETIRED
    assert fleet.when("run 4") < 30


def test_a_job_that_was_given_up_is_left_to_others_for_a_while(fleet: Fleet) -> None:
    """F10: it is not taken again and again by the same host."""
    fleet.results.errors["upload"] = [TransferError()] * 5
    assert fleet.works() == RETIRED
    given_up = next(job for job in ("a", "b") if fleet.happened(f"{QUEUE.claim(job)} released"))
    released = fleet.when(f"{QUEUE.claim(given_up)} released")
    again = [at for at, did in fleet.did if did == f"{QUEUE.claim(given_up)} running" and at > released]
    assert again[0] >= released + 300


# ---- F13 -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("at", [0.5, 100, 1000])
def test_a_notice_while_waiting_or_idle_ends_the_worker(fleet: Fleet, at: float) -> None:
    """F13: nothing is taken any more, the host is not retired."""
    fleet.queue.comes_at = 500
    lives(fleet, "a")
    lives(fleet, "b")
    fleet.machine.floor = True
    fleet.notice_at(at)
    assert fleet.works() == INTERRUPTED
    assert in_time(fleet)
    assert not fleet.happened("run")
    assert fleet.hosts.records[-1].doing is Doing.ENDED
    if at < 500:
        assert not fleet.happened("i-1 retires")


def test_a_notice_while_a_job_runs_ends_the_worker(fleet: Fleet) -> None:
    """F13: exit 76, and the other job is not taken."""
    fleet.notice_at(100)
    assert fleet.works() == INTERRUPTED
    assert in_time(fleet)
    assert fleet.count("run 1") == 1
    assert not fleet.happened("i-1 retires")


def test_sigterm_is_a_notice(fleet: Fleet) -> None:
    """F13."""
    worker = fleet.worker()

    def terminate() -> None:
        fleet.note("notice")
        worker.hand_in(Notice(kind=NoticeKind.SIGTERM))

    fleet.at(100, terminate)
    assert fleet.play(worker.run) == INTERRUPTED
    assert in_time(fleet)


@pytest.mark.parametrize("lasts", [4.0, 1e9])
def test_what_is_being_taken_when_a_notice_comes_is_given_back(fleet: Fleet, lasts: float) -> None:
    """F13, S25: holding slots, the claim's write hanging; nothing runs."""

    def hold(verb: str, key: str) -> str | None:
        if verb == "PUT" and key.startswith(QUEUE.claims) and not fleet.happened("notice"):
            fleet.notices.found = NOTICE
            fleet.note("notice")
            if lasts > 100:
                fleet.hang()
            fleet.world.sleep(lasts + 5)
        return None

    fleet.store.trouble = hold
    assert fleet.works() == INTERRUPTED
    assert in_time(fleet)
    assert not fleet.happened("run")
    if lasts < 100:
        claims = {key: fleet.store.lease(key) for key in fleet.store.objects if key.startswith(QUEUE.claims)}
        assert {claim.state for claim in claims.values()} == {State.INTERRUPTED}
        assert {fleet.store.lease(key).state for key in fleet.store.objects if "slots" in key} == {State.RELEASED}


def test_a_group_that_waits_for_the_worker_is_told(fleet: Fleet) -> None:
    """F12: the lifecycle action is completed once all is handed over."""
    fleet.at(100, lambda: setattr(fleet.notices, "found", Notice(kind=NoticeKind.SCALE_IN)))
    assert fleet.works() == INTERRUPTED
    assert fleet.when("i-1 hook") > fleet.when("fleet/slots/")
    assert fleet.did[-1][1] == "end"
    assert fleet.did[-2][1] == "i-1 hook"


def test_a_hand_over_keeps_on_record_what_may_run_on(fleet: Fleet) -> None:
    """S45: exit 76 all the same; whoever starts the worker again settles it first."""
    fleet.work.run_ends = (None, 0)

    def stubborn(name: str, process: StageProcess) -> None:
        process.obeys = False

    fleet.work.prepare = stubborn
    fleet.notice_at(100)
    assert fleet.works() == INTERRUPTED
    assert in_time(fleet)
    assert fleet.journal.kept is not None
