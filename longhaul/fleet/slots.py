"""API slots: a job of weight w holds w of them, or none (F6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from longhaul.fleet import keys, lease
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.lease import Owner, State, Terms
from longhaul.fleet.objects import Store
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.tasks import together

GIVE_BACK_SECONDS = 10.0  # for all slots together; what is not given back by then expires


class Shortage(Enum):
    """Why there are no slots."""

    NOT_ENOUGH = "fewer are free than the job weighs; nothing was written"
    PARTLY_WON = "others were quicker; what was won is given back: wait a while, at random (S60)"


@dataclass(frozen=True, kw_only=True)
class Won:
    """As many slots as were asked for."""

    holdings: Sequence[Holding] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The slots of a stack, for one worker."""

    count: int  # `api_slots` of queue.json, and nothing else (F6)
    owner: Owner
    store: Store
    runtime: Runtime
    terms: Terms

    def take(self, weight: int) -> Won | Shortage:
        """Take `weight` slots or none. All are read; nothing is written unless enough are free."""
        if weight > self.count:
            return Shortage.NOT_ENOUGH
        if weight == 0:
            return Won()
        free = []
        for number in range(self.count):
            try:
                now = lease.seen(self.store.get(keys.slot(number)))
            except UnansweredError:
                continue  # not known to be free
            if lease.takeable(now, self.terms, self.owner):
                free.append((number, now))
        if len(free) < weight:
            return Shortage.NOT_ENOUGH
        tried: list[Holding] = []
        won: list[Holding] = []
        while len(won) < weight <= len(won) + len(free):
            number, now = free.pop(int(self.runtime.fraction() * len(free)))  # not everybody at the same one first
            holding = Holding(keys.slot(number), self.owner, self.store, self.runtime, self.terms)
            tried.append(holding)
            if holding.take(now) is Verdict.STANDS and holding.held:
                won.append(holding)
        enough = len(won) == weight
        # what nobody answered may still land: it is given back like what was won
        self.give_back([one for one in tried if not enough or one not in won])
        return Won(holdings=tuple(won)) if enough else Shortage.PARTLY_WON

    def give_back(self, holdings: Sequence[Holding], *, state: State = State.RELEASED) -> bool:
        """Overwrite what is held, side by side, within 10 s (S24, S76): whether nothing is left to expire."""
        until = self.runtime.clock() + GIVE_BACK_SECONDS
        ends = [partial(one.end, state, until) for one in holdings]
        tasks = together(self.runtime, "a slot is given back", ends, until)
        return all(one.ended and one.error is None and one.result is not Verdict.UNRESOLVED for one in tasks)
