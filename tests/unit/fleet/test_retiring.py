"""When a worker goes, and when it stays (F16)."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from longhaul.fleet.keys import Attempt, Place
from longhaul.fleet.lease import Completion, Outcome, State
from longhaul.fleet.machine import MachineError
from longhaul.fleet.surroundings import Quarantine
from longhaul.fleet.work import Unconfirmed
from longhaul.fleet.worker import INTERRUPTED, RETIRED
from tests.unit.fleet.memory import OTHER, body, put_lease
from tests.unit.fleet.virtual import BOUND, QUEUE
from tests.unit.fleet.virtual_worker import Fleet, StageMachine

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


def test_s21_a_dead_hosts_claim_keeps_the_replacement_there(fleet: Fleet) -> None:
    """S21, S29: it waits for the expiry, and runs the job."""
    put_lease(fleet.store, QUEUE.claim("a"), body(OTHER))
    put_lease(fleet.store, QUEUE.claim("b"), DONE)
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")
    assert 300 <= fleet.when("run 2") < 400


def test_s36_an_owner_that_dies_while_it_is_looked_at(fleet: Fleet) -> None:
    """S36: one renewal, then nothing; the worker takes over in the end, or a refused decrement keeps it there."""
    lives(fleet, "a", until=70)
    put_lease(fleet.store, QUEUE.claim("b"), DONE)
    fleet.machine.floor = True
    fleet.at(2000, lambda: setattr(fleet.machine, "floor", False))
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")


def test_a_host_whose_work_others_do_goes(fleet: Fleet) -> None:
    """F16, L5: after two versions of each claim."""
    lives(fleet, "a")
    lives(fleet, "b")
    assert fleet.works() == RETIRED
    assert 30 < fleet.when("i-1 retires") < 200
    assert not fleet.happened("i-1 protected")


def test_a_refused_decrement_sends_the_worker_back_to_scanning(fleet: Fleet) -> None:
    """F16, I10: the last host of an unfinished queue stays, and takes over when the others vanish."""
    lives(fleet, "a", until=1000)
    lives(fleet, "b", until=1000)
    fleet.machine.floor = True
    fleet.at(5000, lambda: setattr(fleet.machine, "floor", False))
    assert fleet.works() == RETIRED
    assert fleet.is_done("a")
    assert fleet.is_done("b")
    assert fleet.count("i-1 retires") > 2


def test_a_failed_decrement_is_tried_again(fleet: Fleet) -> None:
    """F16: the group did not answer."""
    fleet.machine.errors = {"retires": [MachineError()] * 2}
    assert fleet.works() == RETIRED
    assert fleet.count("i-1 retires") == 3


@pytest.mark.parametrize("known", [True, False])
def test_a_host_that_is_to_be_kept_never_goes(fleet: Fleet, known: bool) -> None:
    """F16: protected, scanning, whatever is done; also while nobody can say whether it is."""
    fleet.machine.kept = known
    fleet.machine.errors = {"keep": [] if known else [MachineError()] * 10_000}
    fleet.notice_at(8000)
    assert fleet.works() == INTERRUPTED
    assert fleet.is_done("a")
    assert not fleet.happened("i-1 retires")
    assert not fleet.happened("i-1 unprotected")


def test_an_idle_worker_says_that_it_lives(fleet: Fleet) -> None:
    """F21: at least every quarter of an hour, and not at every look."""
    lives(fleet, "a")
    lives(fleet, "b")
    fleet.machine.floor = True
    fleet.notice_at(4000)
    fleet.works()
    idle = [at for at, did in fleet.did if did == "record idle"]
    assert max(after - before for before, after in itertools.pairwise(idle)) < 600
    assert len(idle) <= 4000 / 300 + 2


def test_of_two_workers_one_job_each_and_none_twice(fleet: Fleet) -> None:
    """I1, I7: on one queue."""
    codes: list[int] = []
    second = fleet.worker(machine=StageMachine(fleet, "i-2"))
    first = fleet.worker()

    def main() -> int:
        fleet.world.spawn(fleet.host, lambda: codes.append(second.run()))
        return first.run()

    assert fleet.play(main) == RETIRED
    assert codes == [RETIRED]
    assert {fleet.store.lease(QUEUE.claim(job)).owner for job in ("a", "b")} == {first.owner, second.owner}
    assert [fleet.store.lease(QUEUE.claim(job)).attempt for job in ("a", "b")] == [1, 1]
