"""Which job is taken, and in which order of writes (F2, F6)."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from longhaul.fleet import completion, keys
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import Attempt, Place, QueueKeys
from longhaul.fleet.lease import Completion, Outcome, Owner, State, encode
from longhaul.fleet.results import TransferError
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.slots import Shortage, Slots
from longhaul.fleet.taking import Job, Miss, Taken, Taker, candidates
from tests.unit.fleet.memory import ME, OTHER, TERMS, Clock, MemoryStore, body, put_lease

QUEUE = QueueKeys("q")
JOB = Job(id="job", api_weight=1)
CLAIM = QUEUE.claim("job")


@pytest.fixture
def taker(store: MemoryStore, runtime: Runtime) -> Taker:
    """Of a stack with two slots."""
    slots = Slots(count=2, owner=ME, store=store, runtime=runtime, terms=TERMS)
    return Taker(keys=QUEUE, slots=slots, owner=ME, store=store, runtime=runtime, terms=TERMS)


def test_the_heaviest_goes_first() -> None:
    """F6, S74: at random among equals."""
    jobs = [Job(id=name, api_weight=weight) for name, weight in (("a", 1), ("b", 3), ("c", 1), ("d", 2))]
    fractions = iter([0.9, 0.5, 0.1, 0.5])
    assert [job.id for job in candidates(jobs, lambda: next(fractions))] == ["b", "d", "c", "a"]


def test_claim_read_slots_claim_written(taker: Taker, store: MemoryStore) -> None:
    """F6; a job that was never begun costs a look at its results and its index too (F2)."""
    taken = taker.take(JOB)
    assert isinstance(taken, Taken)
    assert taken.claim.held
    assert len(taken.slots) == 1
    verbs = [request.split(" ")[0] for request in store.requests]
    assert verbs == ["GET", "GET", "GET", "PUT", "LIST", "GET", "PUT"]
    assert store.requests[0] == f"GET {CLAIM}"
    assert store.requests[-1] == f"PUT {CLAIM}"


def test_a_claim_that_is_held_costs_one_read(taker: Taker, store: MemoryStore) -> None:
    """S19: no slot is touched for it."""
    put_lease(store, CLAIM, body(OTHER))
    assert taker.take(JOB) is Miss.NOT_TAKEABLE
    assert store.requests == [f"GET {CLAIM}"]


def test_without_slots_the_claim_is_not_written(taker: Taker, store: MemoryStore) -> None:
    """F6: the caller then tries no lighter job. And nobody lists results while others hold the slots."""
    for number in range(2):
        put_lease(store, keys.slot(number), body(OTHER))
    assert taker.take(JOB) is Shortage.NOT_ENOUGH
    assert CLAIM not in store.objects
    assert store.requests == [f"GET {CLAIM}", *(f"GET {keys.slot(number)}" for number in range(2))]


def test_slots_are_given_back_if_nobody_tells_what_remains(taker: Taker, store: MemoryStore) -> None:
    """L2: they are free at once, not only when they expire."""

    def trouble(verb: str, key: str) -> None:
        if verb == "LIST":
            raise UnansweredError

    store.trouble = trouble
    with pytest.raises(UnansweredError):
        taker.take(JOB)
    assert {store.lease(key).state for key in store.objects if "slots" in key} == {State.RELEASED}
    assert CLAIM not in store.objects


def test_whoever_loses_the_claim_gives_its_slots_back(taker: Taker, store: MemoryStore) -> None:
    """S51: two take-overs at once."""

    def trouble(verb: str, key: str) -> None:
        if verb == "PUT" and key == CLAIM:
            put_lease(store, CLAIM, body(OTHER))

    store.trouble = trouble
    assert taker.take(JOB) is Miss.NOT_TAKEABLE
    assert {store.lease(key).state for key in store.objects if "slots" in key} == {State.RELEASED}


def test_an_unanswered_take_cannot_land_later(taker: Taker, store: MemoryStore, clock: Clock) -> None:
    """F3, L2: it is given back like one that was won, over the same ETag."""
    began: list[float] = []

    def trouble(verb: str, key: str) -> None:
        if verb == "PUT" and key == CLAIM and not began:
            began.append(clock.now)
        if began and key == CLAIM and clock.now < began[0] + 30:
            clock.sleep(5)
            raise UnansweredError

    store.trouble = trouble
    assert taker.take(JOB) is Miss.UNRESOLVED
    assert store.lease(CLAIM).state is State.RELEASED
    assert store.put(CLAIM, encode(body(ME)), replaces=None) is None


def test_attempts_go_on_after_those_of_the_results(taker: Taker, store: MemoryStore) -> None:
    """F2, S72: the claim was eaten by a lifecycle rule."""
    for attempt in (Attempt(generation=0, number=9), Attempt(generation=1, number=10)):
        store.store(QUEUE.attempt("job", attempt) + "events.jsonl", b"")
    taken = taker.take(JOB)
    assert isinstance(taken, Taken)
    assert (taken.claim.body.attempt, taken.claim.body.generation) == (11, 1)


def test_the_end_of_a_job_is_restored(taker: Taker, store: MemoryStore) -> None:
    """F2, S56: a finished job whose claim was eaten does not run again."""
    summary = QUEUE.attempt("job", Attempt(generation=0, number=2)) + "job-summary.json"
    store.store(summary, b"{}")
    done = replace(
        body(OTHER, attempt=2),
        state=State.DONE,
        completion=Completion(outcome=Outcome.SUCCESS, summary=summary),
    )
    put_lease(store, CLAIM, done)
    now = store.seen(CLAIM)
    assert now is not None
    completion.repair_index(store, QUEUE, "job", now)
    del store.objects[CLAIM]
    assert taker.take(JOB) is Miss.RESTORED
    again = store.lease(CLAIM)
    assert (again.state, again.attempt, again.owner, again.completion) == (State.DONE, 2, OTHER, done.completion)
    assert {store.lease(key).state for key in store.objects if "slots" in key} == {State.RELEASED}
    indexed = completion.read_index(store, QUEUE, "job")
    assert indexed is not None
    assert indexed.index is not None
    assert completion.agrees(indexed.index, store.seen(CLAIM))


def test_giving_up(taker: Taker, store: MemoryStore, clock: Clock) -> None:
    """F6, F13: claim, then slots, all overwritten."""
    taken = taker.take(JOB)
    assert isinstance(taken, Taken)
    taker.give_up(taken, State.INTERRUPTED, clock.now + 20)
    assert store.lease(CLAIM).state is State.INTERRUPTED
    assert store.lease(taken.slots[0].key).state is State.RELEASED


@pytest.mark.parametrize(("measured", "barren"), [(False, 3), (True, 0), (None, 2)])
def test_attempts_that_measured_nothing_are_counted(
    taker: Taker, store: MemoryStore, clock: Clock, measured: bool | None, barren: int
) -> None:
    """F17, S68: of the attempt before; not known does not count. The fifth in a row is to end the job."""
    asked: list[Place] = []

    def look(place: Place) -> bool:
        asked.append(place)
        if measured is None:
            raise TransferError
        return measured

    put_lease(store, CLAIM, replace(body(OTHER, attempt=6), generation=1, barren=2))
    clock.sleep(310)
    taken = dataclasses.replace(taker, measured=look).take(JOB)
    assert isinstance(taken, Taken)
    assert asked == [Place(job="job", attempt=Attempt(generation=1, number=6))]
    assert taken.claim.body.barren == barren
    assert not taken.poisoned
    assert taken.place == Place(job="job", attempt=Attempt(generation=1, number=7))


def test_the_fifth_in_a_row_is_to_end_the_job(taker: Taker, store: MemoryStore) -> None:
    """F17, S68."""
    never = dataclasses.replace(taker, measured=lambda place: False)
    poisoned = []
    for _ in range(5):
        taken = never.take(JOB)
        assert isinstance(taken, Taken)
        poisoned.append(taken.poisoned)
        taker.give_up(taken, State.RELEASED, taker.runtime.clock() + 20)
    assert poisoned == [False] * 4 + [True]


def test_after_a_notice_nothing_is_asked(taker: Taker, store: MemoryStore) -> None:
    """F17: the answer would change nothing."""

    def look(place: Place) -> bool:
        raise AssertionError

    put_lease(store, CLAIM, body(OTHER, State.INTERRUPTED))
    taken = dataclasses.replace(taker, measured=look).take(JOB)
    assert isinstance(taken, Taken)
    assert taken.claim.body.barren == 0


def test_a_stray_claim_of_ones_own_is_given_back(taker: Taker, store: MemoryStore, clock: Clock) -> None:
    """F14, S46, S62."""
    put_lease(store, CLAIM, body(ME, attempt=3))
    now = store.seen(CLAIM)
    assert now is not None
    taker.release_stray("job", now, clock.now + 20)
    assert (store.lease(CLAIM).state, store.lease(CLAIM).attempt) == (State.RELEASED, 3)


def test_a_restarted_worker_takes_what_its_host_left(taker: Taker, store: MemoryStore) -> None:
    """F14: without waiting for its expiry, as another owner, so in the next attempt."""
    put_lease(store, CLAIM, body(Owner(instance=ME.instance, worker="before"), attempt=3))
    taken = taker.take(JOB)
    assert isinstance(taken, Taken)
    assert (taken.claim.body.owner, taken.claim.body.attempt) == (ME, 4)
