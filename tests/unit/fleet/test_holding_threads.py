"""One lease and several threads, real ones: where the fault is about blocking (S25, S32, S37, S54)."""

from __future__ import annotations

import threading
import time

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding, Verdict, keep
from longhaul.fleet.lease import Completion, Outcome, State, Terms
from longhaul.fleet.runtime import real
from tests.unit.fleet.memory import ME, Clock, MemoryStore

KEY = "fleet/q/claims/job"
SUCCESS = Completion(outcome=Outcome.SUCCESS, summary="s")


class Hanging(MemoryStore):
    """A store whose requests hang while `open` is not set."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.open, self.inside, self.most = threading.Event(), 0, 0
        self.entered = threading.Event()
        self.open.set()

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """Hang."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.set()
        try:
            assert self.open.wait(20)
            time.sleep(0.02)
            return super().put(key, body, replaces=replaces)
        finally:
            self.inside -= 1


def threaded(store: MemoryStore, lease_seconds: float = 30) -> Holding:
    """A holding on real time, taken."""
    terms = Terms.of(lease_seconds)
    holding = Holding(KEY, ME, store, real(), terms)
    assert holding.take(None) is Verdict.STANDS
    return holding


def renewal_that_hangs() -> tuple[Hanging, Holding, threading.Thread]:
    """A lease whose renewal has sent its request, and waits."""
    store = Hanging()
    holding = threaded(store)
    store.open.clear()
    store.entered.clear()
    renewal = threading.Thread(target=holding.renew, daemon=True)
    renewal.start()
    assert store.entered.wait(20)
    return store, holding, renewal


def test_threads_write_one_at_a_time() -> None:
    """S54: the watch and the main thread."""
    store = Hanging()
    holding = threaded(store)
    threads = [threading.Thread(target=holding.renew) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert store.most == 1
    assert store.lease(KEY).sequence == 4


def test_giving_back_does_not_wait_for_a_renewal_that_nobody_answers() -> None:
    """S37, L3: the renewal gives way at its next step."""
    store = MemoryStore(Clock())
    holding = threaded(store)
    failing = threading.Event()

    def trouble(verb: str, key: str) -> str | None:
        if threading.current_thread() is renewal:
            failing.set()
            raise UnansweredError
        return None

    renewal = threading.Thread(target=holding.renew, daemon=True)
    store.trouble = trouble
    renewal.start()
    assert failing.wait(20)
    began = time.monotonic()
    assert holding.end(State.INTERRUPTED, real().clock() + 40) is Verdict.STANDS
    assert time.monotonic() - began < 20  # the lease lasts for 27
    assert store.lease(KEY).state is State.INTERRUPTED


def test_giving_back_is_bounded_even_if_a_request_hangs() -> None:
    """S37, L4: a wait with an end, also for the lock; and nobody acts meanwhile."""
    store, holding, renewal = renewal_that_hangs()
    verdicts: list[Verdict] = []
    ending = threading.Thread(
        target=lambda: verdicts.append(holding.end(State.INTERRUPTED, real().clock() + 0.2)), daemon=True
    )
    ending.start()
    ending.join(20)
    assert verdicts == [Verdict.UNRESOLVED]
    assert not holding.held
    store.open.set()
    renewal.join(20)
    assert not holding.held, "a renewal that comes back late revives nothing"


def test_an_expired_claim_is_not_completed_after_waiting() -> None:
    """F14: it expired while a renewal had the lock."""
    store, holding, _ = renewal_that_hangs()
    verdicts: list[Verdict] = []
    completing = threading.Thread(target=lambda: verdicts.append(holding.complete(SUCCESS)), daemon=True)
    completing.start()
    while not holding.ending:
        time.sleep(0.01)
    holding.deadline = 0.0
    store.open.set()
    completing.join(20)
    assert verdicts == [Verdict.LOST]
    assert store.lease(KEY).state is State.RUNNING


def test_the_deadline_can_be_read_while_a_renewal_hangs() -> None:
    """S25, S32: another thread sees the lease expire."""
    store = Hanging()
    holding = threaded(store, lease_seconds=0.3)
    store.open.clear()
    threading.Thread(target=holding.renew, daemon=True).start()
    end = time.monotonic() + 20
    while holding.held:
        assert time.monotonic() < end
        time.sleep(0.01)
    store.open.set()


def test_keeping_ends_when_it_is_told_to() -> None:
    """F15: at once, not when the next renewal is due."""
    store = MemoryStore(Clock())
    holding = threaded(store)
    stop, verdicts = threading.Event(), list[Verdict]()
    runtime = real()
    thread = threading.Thread(target=lambda: verdicts.append(keep(holding, runtime, Terms(), stop)), daemon=True)
    thread.start()
    stop.set()
    thread.join(20)
    assert verdicts == [Verdict.STANDS]
