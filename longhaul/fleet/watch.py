"""Keeps the leases of one attempt, and says when it must stop: a notice, or the claim is not its own (F5, F12)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial

from longhaul.fleet.holding import Holding, Verdict, keep
from longhaul.fleet.lease import Terms
from longhaul.fleet.lookout import Lookout
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.slots import Slots, Won
from longhaul.fleet.taking import Taken
from longhaul.fleet.tasks import Task, Waiter

logger = logging.getLogger(__name__)

AHEAD = 0.1  # of the margin, in which everything is stopped before the deadline (F4)


class Reason(Enum):
    """Why an attempt must stop."""

    NOTICE = "the host is about to go"
    LOST = "the claim is lost, or about to expire"


@dataclass
class _Loss:
    """A slot that was missing for a while. One thread writes it."""

    key: str
    since: datetime
    until: datetime | None = None


class Watch:
    """Renews claim and slots, each on its own schedule and in its own thread, the claim first (S54, S76).

    The deadline of the claim is looked at by the thread that asks `look`, and that thread waits for nothing else than
    this deadline and its `Waiter`: no request that hangs can hide an expiry (S25, S32).

    A slot that is lost ends nothing (S33). It is sought again once every renewal, on the renewal's own schedule,
    because the worker does not see where one trial ends and the next begins; `lost_slots` says when it was missing, and
    the times of the trials say which of them that touches.
    """

    def __init__(
        self, taken: Taken, slots: Slots, lookout: Lookout, waiter: Waiter, runtime: Runtime, terms: Terms
    ) -> None:
        self.claim = taken.claim
        self.reason: Reason | None = None  # the first one, for good
        self._slots, self._lookout, self._waiter = slots, lookout, waiter
        self._runtime, self._terms = runtime, terms
        self._stop = runtime.event()
        self._held: list[Holding] = list(taken.slots)
        self._losses: list[_Loss] = []

    @property
    def limit(self) -> float:
        """When everything has to be stopped, by the host's clock, so that it stands still at the deadline (F4)."""
        return self.claim.deadline - AHEAD * self._terms.margin_seconds

    @property
    def slots(self) -> Sequence[Holding]:
        """Every slot that the attempt ever had: what is to be given back."""
        return tuple(self._held)

    @property
    def lost_slots(self) -> tuple[str, ...]:
        """Which slots were missing, and when, by this host's time of day."""
        return tuple(
            f"{loss.key} from {loss.since.isoformat()} to {loss.until.isoformat() if loss.until else 'the end'}"
            for loss in self._losses
        )

    def start(self) -> None:
        """Begin to renew."""
        Task(self._runtime, "renewing the claim", partial(self._keep, self.claim), self._waiter.wake)
        for slot in tuple(self._held):
            Task(self._runtime, f"renewing {slot.key}", partial(self._keep_slot, slot), self._waiter.wake)

    def stop(self) -> None:
        """Renew no more. Returns at once; a request under way comes to nothing once the lease is ended (S37)."""
        self._stop.set()

    def look(self) -> Reason | None:
        """Why the attempt must stop, if it must. Cheap, and blocks on nothing."""
        if self.reason is None:
            if self._lookout.notice is not None:
                self.reason = Reason.NOTICE
            elif self._runtime.clock() >= self.limit:
                self.reason = Reason.LOST
        return self.reason

    def _keep(self, holding: Holding) -> Verdict:
        while True:
            try:
                return keep(holding, self._runtime, self._terms, self._stop)
            except Exception:  # L4, S14: renewing goes on, whatever it was
                logger.exception("renewing %s", holding.key)
                if self._stop.wait(self._terms.renew_seconds):
                    return Verdict.STANDS

    def _keep_slot(self, slot: Holding) -> None:
        while self._keep(slot) is Verdict.LOST:
            logger.warning("%s is lost", slot.key)
            loss = _Loss(slot.key, self._runtime.wall())
            self._losses.append(loss)
            found = self._seek()
            if found is None:
                return
            loss.until = self._runtime.wall()
            slot = found

    def _seek(self) -> Holding | None:
        while not self._stop.wait(self._terms.renew_seconds):
            try:
                won = self._slots.take(1)
            except Exception:  # L4: as above
                logger.exception("seeking a slot")
                continue
            if isinstance(won, Won):
                self._held += won.holdings
                if not self._stop.is_set():
                    return won.holdings[0]
                self._slots.give_back(won.holdings)  # whoever stopped may have looked at the list before
        return None
