"""API slots (F6)."""

from __future__ import annotations

import threading
import time

import pytest

from longhaul.fleet import keys
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.lease import State
from longhaul.fleet.runtime import Runtime, real
from longhaul.fleet.slots import GIVE_BACK_SECONDS, Shortage, Slots, Won
from tests.unit.fleet.memory import ME, OTHER, TERMS, Clock, MemoryStore, body, put_lease


@pytest.fixture
def slots(store: MemoryStore, runtime: Runtime) -> Slots:
    """Four of them."""
    return Slots(count=4, owner=ME, store=store, runtime=runtime, terms=TERMS)


def writes(store: MemoryStore) -> list[str]:
    """Keys that were written, or tried."""
    return [request[4:] for request in store.requests if request.startswith("PUT")]


def test_as_many_as_the_job_weighs(slots: Slots, store: MemoryStore) -> None:
    """F6: all are read, as many written, and given back by overwriting."""
    won = slots.take(3)
    assert isinstance(won, Won)
    assert len({one.key for one in won.holdings}) == 3
    assert sum(request.startswith("GET") for request in store.requests) == 4
    assert len(writes(store)) == 3
    assert slots.give_back(won.holdings)
    assert {store.lease(one.key).state for one in won.holdings} == {State.RELEASED}


def test_nothing_is_written_unless_enough_are_free(slots: Slots, store: MemoryStore) -> None:
    """S60: two workers that hold fragments would wait for each other."""
    for number in range(2):
        put_lease(store, keys.slot(number), body(OTHER))
    assert slots.take(3) is Shortage.NOT_ENOUGH
    assert not writes(store)


def test_a_job_heavier_than_all_slots_asks_for_nothing(slots: Slots, store: MemoryStore) -> None:
    """S74: it can never run; publishing refuses it."""
    assert slots.take(5) is Shortage.NOT_ENOUGH
    assert not store.requests


def test_a_job_without_api_calls_needs_none(slots: Slots, store: MemoryStore) -> None:
    """Weight 0."""
    assert slots.take(0) == Won()
    assert not store.requests


def test_what_was_won_in_part_is_given_back(slots: Slots, store: MemoryStore) -> None:
    """S60, S24: and never by deleting."""
    raced: list[str] = []

    def trouble(verb: str, key: str) -> None:
        if verb == "PUT" and len(writes(store)) in (2, 3) and key not in raced:
            raced.append(key)
            put_lease(store, key, body(OTHER))

    store.trouble = trouble
    assert slots.take(3) is Shortage.PARTLY_WON
    owners = [(store.lease(key).owner, store.lease(key).state) for key in store.objects]
    assert sorted(owners, key=str) == sorted([(ME, State.RELEASED), *[(OTHER, State.RUNNING)] * 2], key=str)


def test_a_slot_that_could_not_be_read_is_not_free(slots: Slots, store: MemoryStore) -> None:
    """I4, I8: no answer is no slot."""

    def trouble(verb: str, key: str) -> None:
        if verb == "GET" and key == keys.slot(0):
            raise UnansweredError

    store.trouble = trouble
    assert slots.take(4) is Shortage.NOT_ENOUGH
    assert not writes(store)


def test_a_slot_that_may_still_land_is_given_back(slots: Slots, store: MemoryStore, clock: Clock) -> None:
    """L2: nobody answered for one, another was won instead; the first must not idle until it expires."""
    silent: list[str] = []
    heard: list[float] = []

    def trouble(verb: str, key: str) -> str | None:
        if verb == "PUT" and not silent:
            silent.append(key)
            heard.append(clock.now + 31)
        if silent and key == silent[0] and clock.now < heard[0]:
            clock.sleep(5)
            raise UnansweredError
        return None

    store.trouble = trouble
    won = slots.take(1)
    assert isinstance(won, Won)
    assert won.holdings[0].key != silent[0]
    assert store.lease(silent[0]).state is State.RELEASED, "a write in flight demanded that there be nothing"


def test_giving_back_has_one_time_limit_for_all(slots: Slots, store: MemoryStore, clock: Clock) -> None:
    """S76: ten slots that nobody answers for do not outlast a notice."""
    won = slots.take(4)
    assert isinstance(won, Won)

    def trouble(verb: str, key: str) -> None:
        clock.sleep(3)
        raise UnansweredError

    store.trouble = trouble
    began = clock.now
    assert not slots.give_back(won.holdings)
    assert clock.now - began < GIVE_BACK_SECONDS + 4 * 10
    assert not any(one.held for one in won.holdings)


def test_s76_ten_slots_are_given_back_side_by_side(store: MemoryStore) -> None:
    """S76, L3: each takes its time, all together no longer; one that hangs holds up nobody."""
    runtime = real()
    slots = Slots(count=10, owner=ME, store=store, runtime=runtime, terms=TERMS)
    won = slots.take(10)
    assert isinstance(won, Won)
    barrier = threading.Barrier(10)
    store.trouble = lambda verb, key: barrier.wait(20) and None  # passes only if ten are under way at once
    assert slots.give_back(won.holdings)
    assert {store.lease(keys.slot(number)).state for number in range(10)} == {State.RELEASED}


def test_s37_giving_back_does_not_wait_for_a_slot_that_hangs(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S37, S76: bounded whatever hangs, and the others are given back."""
    monkeypatch.setattr("longhaul.fleet.slots.GIVE_BACK_SECONDS", 0.3)
    slots = Slots(count=2, owner=ME, store=store, runtime=real(), terms=TERMS)
    won = slots.take(2)
    assert isinstance(won, Won)
    opened = threading.Event()
    hanging = won.holdings[0].key

    def trouble(verb: str, key: str) -> None:
        if key == hanging:
            opened.wait(20)

    store.trouble = trouble
    began = time.monotonic()
    assert not slots.give_back(won.holdings)
    assert time.monotonic() - began < 10
    assert not any(one.held for one in won.holdings)
    assert store.lease(won.holdings[1].key).state is State.RELEASED
    opened.set()
