"""Which job a worker takes, and how: the claim is looked at, then the slots are taken, then the claim (F2, F6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from longhaul.fleet import completion, lease
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Owner, State, Terms
from longhaul.fleet.objects import Store
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.slots import Shortage, Slots


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as far as taking it goes."""

    id: str
    api_weight: int  # slots that it needs


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A job that is this worker's: one attempt, with its slots."""

    job: Job
    claim: Holding
    slots: Sequence[Holding]


class Miss(Enum):
    """Why a job was not taken."""

    NOT_TAKEABLE = "another has it, or it is done"
    RESTORED = "its claim had gone; its end was written again from the index"
    UNRESOLVED = "nobody answered; whatever of it lands is given back or expires"


def candidates(takeable: Iterable[Job], fraction: Callable[[], float]) -> list[Job]:
    """The order to try: the heaviest first, at random among equals (F6).

    Whoever tries them stops at the first that finds no slots: a lighter job never overtakes a heavier one (S74).
    """
    return [job for _, _, _, job in sorted((-job.api_weight, fraction(), job.id, job) for job in takeable)]


@dataclass(frozen=True, kw_only=True)
class Taker:
    """Takes jobs of one queue for one worker."""

    keys: QueueKeys
    slots: Slots
    owner: Owner
    store: Store
    runtime: Runtime
    terms: Terms

    def take(self, job: Job) -> Taken | Shortage | Miss:
        """Take a job with its slots, or nothing; an `UnansweredError` of a read passes."""
        key = self.keys.claim(job.id)
        now = lease.seen(self.store.get(key))
        if not lease.takeable(now, self.terms):
            return Miss.NOT_TAKEABLE
        last_attempt, generation = 0, 0
        if now is None:
            found = completion.remains(self.store, self.keys, job.id)
            if found.index is not None:
                completion.restore(self.store, self.keys, job.id, found.index, self.runtime, self.terms)
                return Miss.RESTORED
            last_attempt, generation = found.last_attempt, found.generation
        won = self.slots.take(job.api_weight)
        if isinstance(won, Shortage):
            return won
        claim = Holding(key, self.owner, self.store, self.runtime, self.terms)
        verdict = claim.take(now, last_attempt=last_attempt, generation=generation)
        if verdict is Verdict.STANDS and claim.held:
            return Taken(job=job, claim=claim, slots=won.holdings)
        self.slots.give_back([claim, *won.holdings])
        return Miss.NOT_TAKEABLE if verdict is Verdict.LOST else Miss.UNRESOLVED

    def give_up(self, taken: Taken, state: State, until: float) -> Verdict:
        """Give back the claim, then the slots: `until` bounds the claim, the slots have a time of their own (F13)."""
        verdict = taken.claim.end(state, until)
        self.slots.give_back(taken.slots)
        return verdict
