"""One lease, held through whatever S3 answers (F3, F4, F5); the simulation does the same ten thousand times over."""

from __future__ import annotations

import math
import threading

import pytest

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding, Verdict, keep
from longhaul.fleet.lease import Completion, Outcome, State, encode
from longhaul.fleet.runtime import Runtime
from tests.unit.fleet.memory import ME, OTHER, TERMS, Clock, MemoryStore, body, put_lease

KEY = "fleet/q/claims/job"
SUCCESS = Completion(outcome=Outcome.SUCCESS, summary="s")


@pytest.fixture
def holding(store: MemoryStore, runtime: Runtime) -> Holding:
    """Not taken yet."""
    return Holding(KEY, ME, store, runtime, TERMS)


def once(store: MemoryStore, *troubles: str | None) -> None:
    """Trouble for the next writes, one each."""
    left = list(troubles)
    store.trouble = lambda verb, key: left.pop(0) if verb == "PUT" and left else None


def test_from_taking_to_done(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F2, F4, F7: four requests for take, renewal and completion, and nothing to look up."""
    assert holding.take(None) is Verdict.STANDS
    assert holding.deadline == clock.now + 270
    clock.sleep(30)
    assert holding.renew() is Verdict.STANDS
    assert holding.deadline == clock.now + 270
    assert holding.complete(SUCCESS) is Verdict.COMPLETED
    assert not holding.held
    assert store.lease(KEY).completion == SUCCESS
    assert store.requests == [f"PUT {KEY}"] * 3
    assert holding.end(State.RELEASED, clock.now + 10) is Verdict.LOST
    assert store.lease(KEY).state is State.DONE


def test_taking_over_an_expired_lease(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F2: the next attempt; before the lease expired nothing is written (S19)."""
    put_lease(store, KEY, body(OTHER, attempt=4))
    assert holding.take(store.seen(KEY)) is Verdict.LOST
    assert not store.requests
    clock.sleep(310)
    assert holding.take(store.seen(KEY)) is Verdict.STANDS
    assert (store.lease(KEY).owner, store.lease(KEY).attempt) == (ME, 5)


def test_s38_a_former_owner_that_knows_nothing_of_it_completes_nothing(
    holding: Holding, store: MemoryStore, runtime: Runtime, clock: Clock
) -> None:
    """F7: no flag tells A that B has the job; its `failed` comes first, and is refused."""
    assert holding.take(None) is Verdict.STANDS
    clock.sleep(310)
    successor = Holding(KEY, OTHER, store, runtime, TERMS)
    assert successor.take(store.seen(KEY)) is Verdict.STANDS
    holding.deadline = clock.now + 100
    assert holding.complete(Completion(outcome=Outcome.FAILED)) is Verdict.LOST
    assert successor.complete(SUCCESS) is Verdict.COMPLETED
    assert store.lease(KEY).completion == SUCCESS


@pytest.mark.parametrize("trouble", ["lost", "deaf", "409"])
def test_a_first_write_without_a_good_answer_still_takes(holding: Holding, store: MemoryStore, trouble: str) -> None:
    """F3, S49, case-Q02: also a 409 while nothing is there yet."""
    once(store, trouble)
    assert holding.take(None) is Verdict.STANDS
    assert store.lease(KEY).attempt == 1


def test_an_acquisition_without_answers_is_given_up(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F3: after 30 s."""
    store.trouble = lambda verb, key: _unanswered(clock, 4)
    began = clock.now
    assert holding.take(None) is Verdict.UNRESOLVED
    assert 30 <= clock.now - began <= 45
    assert not holding.held


def _unanswered(clock: Clock, seconds: float) -> None:
    clock.sleep(seconds)
    if clock.now > 2000:
        raise AssertionError("this goes on for ever")
    raise UnansweredError


def test_a_refused_write_of_another_owner_is_lost(holding: Holding, store: MemoryStore) -> None:
    """F3, S51."""
    holding.take(None)
    put_lease(store, KEY, body(OTHER, attempt=2))
    assert holding.renew() is Verdict.LOST
    assert not holding.held


def test_a_lost_lease_is_never_written_again(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F3: nothing is asked and nothing is sent."""
    holding.take(None)
    put_lease(store, KEY, body(OTHER, attempt=2))
    holding.renew()
    store.requests.clear()
    assert holding.end(State.RELEASED, clock.now + 10) is Verdict.LOST
    assert holding.renew() is Verdict.LOST
    assert not store.requests


def test_a_claim_that_is_gone_is_lost(holding: Holding, store: MemoryStore) -> None:
    """F3: 404 on If-Match."""
    holding.take(None)
    del store.objects[KEY]
    assert holding.renew() is Verdict.LOST


def test_an_earlier_write_of_ones_own_is_written_over(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F3, S34: the take landed after it was given up; its ETag is adopted."""

    def unanswered(verb: str, key: str) -> str | None:
        raise UnansweredError

    store.trouble = unanswered
    assert holding.take(None) is Verdict.UNRESOLVED
    store.trouble = lambda verb, key: None
    put_lease(store, KEY, holding.body)
    late = holding.body.nonce
    store.requests.clear()
    assert holding.end(State.RELEASED, clock.now + 20) is Verdict.STANDS
    assert store.lease(KEY).state is State.RELEASED
    assert store.lease(KEY).nonce == holding.body.nonce != late
    assert store.requests == [f"PUT {KEY}", f"GET {KEY}", f"PUT {KEY}"]


def test_the_deadline_counts_from_the_first_request(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F4, S41: however long it took to learn that it was carried out."""
    began = clock.now
    slow = iter([5.0, 5.0, 5.0])

    def trouble(verb: str, key: str) -> str | None:
        clock.sleep(next(slow, 0))
        return "deaf" if verb == "PUT" else None

    store.trouble = trouble
    assert holding.take(None) is Verdict.STANDS
    assert clock.now >= began + 10
    assert holding.deadline == began + 270


def test_the_same_bytes_sent_again_do_not_move_the_deadline(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F4, S41: it is the first request that lands, late."""
    began = clock.now
    puts = []

    def trouble(verb: str, key: str) -> str | None:
        clock.sleep(5)
        if verb == "PUT":
            puts.append(clock.now)
            if len(puts) == 1:
                return "lost"
            store.store(KEY, encode(holding.body))
        return None

    store.trouble = trouble
    assert holding.take(None) is Verdict.STANDS
    assert len(puts) == 2
    assert holding.deadline == began + 270


@pytest.mark.parametrize("landed", [True, False])
def test_an_ambiguous_done_is_not_undone(holding: Holding, store: MemoryStore, clock: Clock, landed: bool) -> None:
    """S63: its author gives up at the deadline, and then gives back what is still its own."""
    holding.take(None)
    sent = []

    def trouble(verb: str, key: str) -> str | None:
        clock.sleep(10)
        if verb == "PUT" and not sent:
            sent.append(verb)
            return "deaf" if landed else "lost"
        raise UnansweredError

    store.trouble = trouble
    assert holding.complete(SUCCESS) is Verdict.UNRESOLVED
    assert not holding.held
    store.trouble = lambda verb, key: None
    verdict = holding.end(State.RELEASED, clock.now + 20)
    assert verdict is (Verdict.COMPLETED if landed else Verdict.STANDS)
    assert store.lease(KEY).state is (State.DONE if landed else State.RELEASED)


def test_a_write_in_flight_cannot_land_after_giving_back(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """S34, S46: giving back demands the ETag that the write in flight demands too; only one can have it."""
    holding.take(None)
    demanded = store.objects[KEY][1]
    store.trouble = lambda verb, key: _unanswered(clock, 15)
    assert holding.renew() is Verdict.UNRESOLVED
    in_flight = encode(holding.body)
    store.trouble = lambda verb, key: None
    assert holding.end(State.RELEASED, clock.now + 20) is Verdict.STANDS
    assert store.put(KEY, in_flight, replaces=demanded) is None
    assert store.lease(KEY).state is State.RELEASED


def test_a_renewal_answered_too_late_does_not_hold(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """S46: S3 has it, the holder must not act; giving it back works, so nobody waits for its expiry."""
    holding.take(None)

    def trouble(verb: str, key: str) -> None:
        clock.sleep(300)

    store.trouble = trouble
    assert holding.renew() is Verdict.STANDS
    assert not holding.held
    store.trouble = lambda verb, key: None
    assert holding.end(State.RELEASED, clock.now + 20) is Verdict.STANDS


def test_refusals_of_permission_are_outlived(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """S77: an expired token, a skewed clock and a 403 say nothing about the lease."""
    holding.take(None)
    until = clock.now + 100

    def trouble(verb: str, key: str) -> None:
        clock.sleep(1)
        if clock.now < until:
            raise UnansweredError("403 ExpiredToken")

    store.trouble = trouble
    assert holding.renew() is Verdict.STANDS
    assert holding.held


def test_nobody_acts_once_done_is_on_its_way(holding: Holding, store: MemoryStore) -> None:
    """I1: a requeue may give the job to another before the answer is back (seed 15048 found it)."""
    holding.take(None)
    held: list[bool] = []
    store.trouble = lambda verb, key: held.append(holding.held)
    assert holding.complete(SUCCESS) is Verdict.COMPLETED
    assert held == [False]


def test_keeping_a_lease(store: MemoryStore, clock: Clock, runtime: Runtime) -> None:
    """F5: renewed every tenth until it is lost."""
    holding = Holding(KEY, ME, store, runtime, TERMS)
    holding.take(None)
    began = clock.now
    waits: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            clock.sleep(timeout or 0)
            return False

    def trouble(verb: str, key: str) -> None:
        if clock.now >= began + 95:
            put_lease(store, KEY, body(OTHER, attempt=2))

    store.trouble = trouble
    assert keep(holding, runtime, TERMS, Stop()) is Verdict.LOST
    assert waits == [30.0] * 4
    assert clock.now == began + 120
    assert store.requests == [f"PUT {KEY}"] * 5 + [f"GET {KEY}"]


def test_only_what_was_sought_has_a_body(holding: Holding, clock: Clock) -> None:
    """A holding that was never taken cannot be ended, and shows no lease."""
    assert holding.end(State.RELEASED, clock.now + 1) is Verdict.LOST
    with pytest.raises(ValueError, match="was not sought"):
        _ = holding.body


def test_a_listener_hears_of_every_change_of_the_deadline(store: MemoryStore, clock: Clock, runtime: Runtime) -> None:
    """F19: once each, and of its end before the first byte of it leaves; nothing of an ended lease comes after."""
    heard: list[float] = []
    holding = Holding(KEY, ME, store, runtime, TERMS, heard.append)
    holding.take(None)
    clock.sleep(30)
    holding.renew()
    assert heard == [1270, 1300]
    store.trouble = lambda verb, key: heard.append(0)
    assert holding.end(State.RELEASED, clock.now + 10) is Verdict.STANDS
    assert heard[2:] == [-math.inf, 0]
    holding.renew()
    assert len(heard) == 4


def test_a_claim_that_its_owner_does_not_hold_is_given_back(
    holding: Holding, store: MemoryStore, clock: Clock, runtime: Runtime
) -> None:
    """F14, S46: what landed late stays nobody's no longer than the next look."""
    put_lease(store, KEY, body(ME, attempt=7))
    now = store.seen(KEY)
    assert now is not None
    holding.adopt(now)
    assert not holding.held
    assert holding.end(State.RELEASED, clock.now + 10) is Verdict.STANDS
    assert (store.lease(KEY).state, store.lease(KEY).attempt) == (State.RELEASED, 7)
    with pytest.raises(ValueError, match="not this owner's"):
        Holding(KEY, OTHER, store, runtime, TERMS).adopt(now)


def test_what_is_forsaken_is_left_to_expire(holding: Holding, store: MemoryStore, clock: Clock) -> None:
    """F13, I5: something that cannot be stopped may still use it: nobody acts on it here, nobody gets it early."""
    holding.take(None)
    holding.forsake()
    assert not holding.held
    assert not holding.wanted
    assert holding.renew() is not Verdict.STANDS
    holding.deadline = clock.now + 100  # a renewal in flight was answered
    assert not holding.wanted
    assert store.lease(KEY).state is State.RUNNING


def test_two_holders_of_one_worker_do_not_take_each_others_lease(
    store: MemoryStore, runtime: Runtime, clock: Clock
) -> None:
    """F3, I4: both saw it free, so both count the same attempt; a slot was stolen and given back like that (S33)."""
    put_lease(store, KEY, body(OTHER, State.RELEASED, attempt=3))
    free = store.seen(KEY)
    first, second = (Holding(KEY, ME, store, runtime, TERMS) for _ in range(2))
    assert first.take(free) is Verdict.STANDS
    before = store.lease(KEY)
    assert second.take(free) is Verdict.LOST
    assert second.end(State.RELEASED, clock.now + 10) is Verdict.LOST
    assert store.lease(KEY) == before
    assert first.renew() is Verdict.STANDS


def test_s3_that_does_not_answer_is_named_once(
    holding: Holding, store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F3: before the claim is lost over it, and not with every try."""

    def trouble(verb: str, key: str) -> None:
        raise UnansweredError("EndpointConnectionError")

    assert holding.take(None) is Verdict.STANDS
    store.trouble = trouble
    assert holding.renew() is Verdict.UNRESOLVED
    assert [record.message for record in caplog.records] == [f"{KEY} is tried again for 270 s: EndpointConnectionError"]
