"""The leases of an attempt, kept while S3 answers and while it does not (F5, F12); real threads, real time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longhaul.fleet import keys
from longhaul.fleet.holding import Verdict
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import State, Terms
from longhaul.fleet.lookout import Lookout
from longhaul.fleet.runtime import Runtime, real
from longhaul.fleet.slots import Slots
from longhaul.fleet.taking import Job, Taken, Taker
from longhaul.fleet.tasks import Waiter
from longhaul.fleet.watch import Reason, Watch
from tests.unit.fleet.doubles import QUICK, TERMINATE, GatedStore, NoticesDouble, eventually
from tests.unit.fleet.memory import ME, OTHER, body, put_lease

QUEUE = QueueKeys("q")
CLAIM = QUEUE.claim("job")


class Scene:
    """A job of two slots, taken and watched."""

    def __init__(self, terms: Terms = QUICK, slots: int = 2) -> None:
        self.store, self.notices, self.runtime = GatedStore(), NoticesDouble(), real()
        self.slots = Slots(count=slots, owner=ME, store=self.store, runtime=self.runtime, terms=terms)
        taker = Taker(keys=QUEUE, slots=self.slots, owner=ME, store=self.store, runtime=self.runtime, terms=terms)
        taken = taker.take(Job(id="job", api_weight=slots))
        assert isinstance(taken, Taken)
        self.taken = taken
        self.waiter = Waiter(self.runtime)
        self.lookout = Lookout(self.notices, self.runtime, 0.01)
        self.lookout.start(self.waiter.wake)
        self.watch = Watch(taken, self.slots, self.lookout, self.waiter, self.runtime, terms)

    def lasts(self) -> bool:
        """Wait for the end of the watch as an attempt does; whether there is none within 5 s."""
        end = self.runtime.clock() + 5
        while self.watch.look() is None and self.runtime.clock() < end:
            self.waiter.until(lambda: self.watch.look() is not None, min(end, self.watch.limit))
        return self.watch.look() is None

    def close(self) -> None:
        """Let all threads end."""
        self.watch.stop()
        self.lookout.stop()
        self.store.gate.open()
        self.notices.gate.open()


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Not started."""
    scene = Scene()
    yield scene
    scene.close()


def test_claim_and_slots_are_renewed(scene: Scene) -> None:
    """F5: each by itself, for longer than they would last."""
    scene.watch.start()
    began = real().clock()
    eventually(lambda: real().clock() > began + 4.5)
    assert scene.watch.look() is None
    assert all(scene.store.lease(key).sequence > 5 for key in (CLAIM, keys.slot(0), keys.slot(1)))
    assert scene.watch.lost_slots == ()


def test_the_claim_comes_first() -> None:
    """F5: before the slots that were taken before it."""
    scene = Scene()
    order: list[str] = []
    spawned: list[object] = []
    runtime = Runtime(**{**scene.runtime.__dict__, "spawn": lambda what: spawned.append(what)})
    watch = Watch(scene.taken, scene.slots, scene.lookout, scene.waiter, runtime, QUICK)
    watch.start()
    order = [what.__self__.name for what in spawned]  # type: ignore[attr-defined]
    assert order[0] == "renewing the claim"
    assert len(order) == 3
    scene.close()


def test_s32_a_renewal_that_hangs_does_not_hide_the_expiry(scene: Scene) -> None:
    """S32, S25, I1: every request to S3 blocks; whoever waits for the attempt is told before the deadline."""
    scene.watch.start()
    scene.store.gate.shut()
    eventually(lambda: scene.store.gate.waiting >= 3)
    assert not scene.lasts()
    assert scene.watch.look() is Reason.LOST
    assert scene.taken.claim.held, "it has stopped before the deadline"
    assert scene.taken.claim.deadline - real().clock() < 0.04


def test_s25_a_notice_is_seen_while_s3_blocks(scene: Scene) -> None:
    """S25: none of the threads that renew looks for notices."""
    scene.watch.start()
    scene.store.gate.shut()
    eventually(lambda: scene.store.gate.waiting >= 3)
    scene.notices.found = TERMINATE
    assert not scene.lasts()
    assert scene.watch.look() is Reason.NOTICE


def test_s32_an_expiry_is_seen_while_the_notice_service_blocks(scene: Scene) -> None:
    """I1: the other way round."""
    scene.notices.gate.shut()
    eventually(lambda: scene.notices.gate.waiting)
    scene.store.gate.shut()
    scene.watch.start()
    assert not scene.lasts()
    assert scene.watch.look() is Reason.LOST


def test_a_claim_of_somebody_else_is_lost_at_the_next_renewal(scene: Scene) -> None:
    """F3, F14: long before its deadline."""
    scene.watch.start()
    began = real().clock()
    put_lease(scene.store, CLAIM, body(OTHER, attempt=2))
    assert not scene.lasts()
    assert real().clock() - began < 3
    assert scene.watch.look() is Reason.LOST
    scene.notices.found = TERMINATE
    eventually(lambda: scene.lookout.notice)
    assert scene.watch.look() is Reason.LOST, "the first reason stands"


def test_s33_a_lost_slot_ends_nothing_and_is_sought_again(scene: Scene) -> None:
    """S33: the attempt goes on, its end names what was missing, and a slot that is free again is taken."""
    scene.watch.start()
    put_lease(scene.store, keys.slot(1), body(OTHER, attempt=9, seconds=600))
    eventually(lambda: scene.watch.lost_slots)
    assert scene.watch.look() is None
    (lost,) = scene.watch.lost_slots
    assert lost.startswith("fleet/slots/1 from ")
    assert lost.endswith(" to the end")
    put_lease(scene.store, keys.slot(1), body(OTHER, State.RELEASED, attempt=9))
    eventually(lambda: scene.store.lease(keys.slot(1)).owner == ME)
    eventually(lambda: "the end" not in scene.watch.lost_slots[0])
    eventually(lambda: scene.store.lease(keys.slot(1)).sequence > 1)
    assert len(scene.watch.slots) == 3
    assert len(scene.watch.lost_slots) == 1


def test_a_slot_that_is_won_after_the_end_is_given_back(scene: Scene) -> None:
    """L2: the attempt gave back what it knew of just before."""
    scene.watch.start()
    put_lease(scene.store, keys.slot(1), body(OTHER, attempt=9, seconds=600))
    eventually(lambda: scene.watch.lost_slots)
    scene.store.only = lambda verb, key: verb == "PUT" and key == keys.slot(1)
    scene.store.gate.shut()
    put_lease(scene.store, keys.slot(1), body(OTHER, State.RELEASED, attempt=9))
    eventually(lambda: scene.store.gate.waiting)
    scene.watch.stop()
    assert len(scene.watch.slots) == 2
    scene.store.gate.open()
    eventually(lambda: scene.store.lease(keys.slot(1)).attempt == 10)
    eventually(lambda: scene.store.lease(keys.slot(1)).state is State.RELEASED)


def test_s76_leases_that_are_slow_to_renew_do_not_wait_for_each_other() -> None:
    """S76: ten slots and a claim, of which one takes for ever."""
    scene = Scene(slots=10)
    scene.store.only = lambda verb, key: key == keys.slot(0)
    scene.store.gate.shut()
    scene.watch.start()
    eventually(lambda: all(scene.store.lease(key).sequence > 3 for key in (CLAIM, *map(keys.slot, range(1, 10)))))
    assert scene.watch.look() is None
    scene.close()


def test_s14_an_error_that_nobody_foresaw_does_not_end_the_renewals(scene: Scene) -> None:
    """S14, L4: neither those of the claim nor those of a slot, nor the search for one."""
    raised: set[str] = set()

    def trouble(verb: str, key: str) -> None:
        if key not in raised:
            raised.add(key)
            raise KeyError(key)

    put_lease(scene.store, keys.slot(1), body(OTHER, attempt=9, seconds=600))
    scene.store.trouble = trouble
    scene.watch.start()
    eventually(lambda: {CLAIM, keys.slot(0), keys.slot(1)} <= raised)
    eventually(lambda: scene.store.lease(CLAIM).sequence > 2 and scene.store.lease(keys.slot(0)).sequence > 2)
    eventually(lambda: scene.watch.lost_slots)
    raised.clear()
    put_lease(scene.store, keys.slot(1), body(OTHER, State.RELEASED, attempt=9))
    eventually(lambda: scene.store.lease(keys.slot(1)).owner == ME)


def test_stopping_waits_for_nothing(scene: Scene) -> None:
    """S37, F15: while renewals hang; they renew nothing afterwards."""
    scene.watch.start()
    scene.store.gate.shut()
    eventually(lambda: scene.store.gate.waiting >= 3)
    began = real().clock()
    scene.watch.stop()
    assert real().clock() - began < 10
    scene.store.gate.open()
    assert scene.taken.claim.end(State.RELEASED, real().clock() + 5) is Verdict.STANDS
    assert scene.store.lease(CLAIM).state is State.RELEASED
