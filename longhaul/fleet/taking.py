"""Which job a worker takes, and how: the claim is looked at, then the slots are taken, then the claim (F2, F6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from longhaul.fleet import completion, lease
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.keys import Attempt, Place, QueueKeys
from longhaul.fleet.lease import Lease, Owner, Seen, State, Terms
from longhaul.fleet.objects import Store
from longhaul.fleet.results import TransferError
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

    @property
    def place(self) -> Place:
        """Where the attempt leaves what it measures."""
        return place_of(self.job.id, self.claim.body)

    @property
    def poisoned(self) -> bool:
        """Whether so many attempts in a row measured nothing that this one is to end the job instead (F17)."""
        return self.claim.body.barren >= lease.BARREN_LIMIT


class Miss(Enum):
    """Why a job was not taken."""

    NOT_TAKEABLE = "another has it, or it is done"
    RESTORED = "its claim had gone; its end was written again from the index"
    UNRESOLVED = "nobody answered; whatever of it lands is given back or expires"


def place_of(job: str, claim: Lease) -> Place:
    """Where the attempt that a claim names leaves what it measures."""
    return Place(job=job, attempt=Attempt(generation=claim.generation, number=claim.attempt))


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
    measured: Callable[[Place], bool] = lambda place: True  # whether an attempt got the job on (F17)
    on_deadline: Callable[[float], None] | None = None  # hears of the claim's deadline, as of now (F19)

    def take(self, job: Job, *, indexed: bool = True) -> Taken | Shortage | Miss:
        """Take a job with its slots, or nothing; an `UnansweredError` of a read passes.

        `indexed` is whether the last look at the queue saw an index of the job.
        """
        key = self.keys.claim(job.id)
        now = lease.seen(self.store.get(key))
        if not lease.takeable(now, self.terms, self.owner):
            return Miss.NOT_TAKEABLE
        won = self.slots.take(job.api_weight)
        if isinstance(won, Shortage):
            return won
        claim = Holding(key, self.owner, self.store, self.runtime, self.terms, self.on_deadline)
        try:
            miss = self._take_claim(job, claim, now, indexed)
        except UnansweredError:
            self.slots.give_back(won.holdings)
            raise
        if miss is None:
            return Taken(job=job, claim=claim, slots=won.holdings)
        self.slots.give_back([claim, *won.holdings])
        return miss

    def _take_claim(self, job: Job, claim: Holding, now: Seen | None, indexed: bool) -> Miss | None:
        """Where there is no claim its remains are looked at first, by whoever has the slots and nobody else."""
        last_attempt, generation, barren = 0, 0, 0
        if now is None:
            found = completion.remains(self.store, self.keys, job.id, indexed=indexed)
            if found.index is not None:
                completion.restore(self.store, self.keys, job.id, found.index, self.runtime, self.terms)
                return Miss.RESTORED
            last_attempt, generation = found.last_attempt, found.generation
        elif now.lease is not None:
            barren = self._barren(job.id, now.lease)
        verdict = claim.take(now, last_attempt=last_attempt, generation=generation, barren=barren)
        if verdict is Verdict.STANDS and claim.held:
            return None
        return Miss.NOT_TAKEABLE if verdict is Verdict.LOST else Miss.UNRESOLVED

    def _barren(self, job: str, previous: Lease) -> int:
        """How many attempts in a row measured nothing; nothing is asked where the answer changes nothing (F17)."""
        if lease.excused(previous) and not previous.barren:
            return 0
        try:
            return lease.barren(previous, self.measured(place_of(job, previous)))
        except TransferError:
            return previous.barren  # not known, so it does not count

    def release_stray(self, job: str, now: Seen, until: float) -> Verdict:
        """Give back a running claim of this host that nobody holds: a write that landed late, or an earlier worker's.

        F14, S46. Whoever wants it need not wait for its expiry then.
        """
        if now.lease is None:
            return Verdict.LOST
        stray = Holding(self.keys.claim(job), now.lease.owner, self.store, self.runtime, self.terms)
        stray.adopt(now)
        return stray.end(State.RELEASED, until)

    def give_up(self, taken: Taken, state: State, until: float) -> Verdict:
        """Give back the claim, then the slots: `until` bounds the claim, the slots have a time of their own (F13)."""
        verdict = taken.claim.end(state, until)
        self.slots.give_back(taken.slots)
        return verdict
