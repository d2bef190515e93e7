"""Leases as records, and the rules that decide about them: no I/O, no clock, no chance."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Literal

import msgspec
from msgspec.structs import replace

from longhaul.fleet.objects import Found

SHORTEST_LEASE_SECONDS = 300  # that a fleet's operator may ask for (F5)
BARREN_LIMIT = 4  # attempts in a row that measured nothing; whoever takes the job next ends it (F17)
TERMINATED, RECLAIMED, REQUEUED = "terminated", "spot", "requeue"  # `marked_by`: two of housekeeping, one of operators


class State(StrEnum):
    """Of a lease (F1). Only the first one holds; all but the last may be taken over."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    RELEASED = "released"
    DONE = "done"


class Outcome(StrEnum):
    """How a job ended (F1)."""

    SUCCESS = "success"
    FAILED = "failed"
    REPORT_ERROR = "report_error"
    ABANDONED = "abandoned"
    CANCELLED = "cancelled"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process on a host. A new process is a new owner."""

    instance: str
    worker: str  # a uuid


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a summary was merged from."""

    key: str
    etag: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim says of its finished job: exactly what was merged, so that nothing later changes it (F7, I3)."""

    outcome: Outcome
    exit_code: int | None = None
    summary: str | None = None  # its key; None where there could be none
    records: tuple[Record, ...] = ()
    report_error: str | None = None
    errors: tuple[str, ...] = ()
    lost_slots: tuple[str, ...] = ()


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a claim or slot (F1)."""

    schema: Literal[1] = 1
    nonce: str  # fresh in every body, so that an ETag never comes back (F3)
    sequence: int  # counts the writes of one attempt
    state: State
    owner: Owner
    attempt: int  # one more with every change of owner, never used twice
    generation: int = 0  # one more with every requeue
    since: int = -1  # the lowest generation whose records count; its own unless said otherwise
    barren: int = 0  # attempts in a row that measured nothing, up to the one before this (F17)
    lease_seconds: float  # what others judge this lease's expiry by
    renewed: datetime  # by the holder's wall clock, to be read by people only
    expires: datetime
    completion: Completion | None = None  # of a claim that is done
    marked_by: str | None = None  # who wrote `interrupted` in the owner's place, or requeued (F17, F21)

    @property
    def generations(self) -> range:
        """Those whose records are resumed from and merged."""
        return range(self.since, self.generation + 1)

    def __post_init__(self) -> None:
        """A claim is done exactly when it says how."""
        if self.since < 0:
            msgspec.structs.force_setattr(self, "since", self.generation)
        if (self.completion is not None) != (self.state is State.DONE):
            raise ValueError("a lease is done if and only if it has a completion")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A lease as one GET saw it."""

    lease: Lease | None  # None if the body is none that this version understands: then it is nobody's to take
    etag: str
    modified: datetime
    date: datetime


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How long a lease lasts, and for whom."""

    lease_seconds: float = 600
    margin_seconds: float = 60  # that the holder stops before others may begin to count (F4)
    grace_seconds: float = 10  # that others wait beyond it: one second of rounding, and servers that differ (F4)
    renew_seconds: float = 60
    scan_seconds: float = 30  # between two looks at the queue, with jitter (F8)

    @classmethod
    def of(cls, lease_seconds: float) -> Terms:
        """F4, F5: margin max(30 s, a tenth), renewed every tenth. Leases too short for that, in tests, keep a tenth."""
        tenth = lease_seconds / 10
        margin = max(30.0, tenth) if lease_seconds >= SHORTEST_LEASE_SECONDS else tenth
        scan = min(30.0, tenth)
        return cls(lease_seconds=lease_seconds, margin_seconds=margin, renew_seconds=tenth, scan_seconds=scan)

    def deadline(self, first_sent: float) -> float:
        """When a holder must have stopped, by its own clock (F4).

        It counts from when the *first* request with these bytes left: the server's count cannot begin earlier.
        """
        return first_sent + self.lease_seconds - self.margin_seconds


def encode(lease: Lease) -> bytes:
    """The bytes of a body; the same lease gives the same bytes."""
    return msgspec.json.encode(lease)


_decoder = msgspec.json.Decoder(Lease)


def seen(found: Found | None) -> Seen | None:
    """What a GET says of a lease."""
    if found is None:
        return None
    try:
        lease: Lease | None = _decoder.decode(found.body)
    except msgspec.DecodeError:  # not JSON, another schema, or fields that are missing or wrong
        lease = None
    return Seen(lease=lease, etag=found.etag, modified=found.modified, date=found.date)


# ---- who may take a lease --------------------------------------------------------------------------------------------
def expired(lease_seconds: float, modified: datetime, date: datetime, terms: Terms) -> bool:
    """F4: by the server's clock alone, both of one answer. Clocks of hosts need not agree (S50)."""
    return modified + timedelta(seconds=lease_seconds + terms.grace_seconds) <= date


def takeable(now: Seen | None, terms: Terms, owner: Owner | None = None) -> bool:
    """Whether anybody may take it over (F2), or this owner: what an earlier worker of its host left, at once (F14)."""
    if now is None:
        return True
    if now.lease is None or now.lease.state is State.DONE:
        return False
    before = now.lease.owner
    if owner is not None and before.instance == owner.instance and before.worker != owner.worker:
        return True
    return now.lease.state is not State.RUNNING or expired(now.lease.lease_seconds, now.modified, now.date, terms)


# ---- bodies ----------------------------------------------------------------------------------------------------------
def taken(
    previous: Lease | None,
    owner: Owner,
    terms: Terms,
    *,
    nonce: str,
    wall: datetime,
    last_attempt: int = 0,
    generation: int = 0,
    barren: int = 0,
) -> Lease:
    """The body of a new owner. Without a previous one, `last_attempt` and `generation` are what results tell (F2)."""
    return Lease(
        nonce=nonce,
        sequence=0,
        state=State.RUNNING,
        owner=owner,
        attempt=max(previous.attempt if previous else 0, last_attempt) + 1,
        generation=previous.generation if previous else generation,
        since=previous.since if previous else generation,
        barren=barren,
        lease_seconds=terms.lease_seconds,
        renewed=wall,
        expires=wall + timedelta(seconds=terms.lease_seconds),
    )


def renewed(lease: Lease, *, nonce: str, wall: datetime) -> Lease:
    """The next body of the same owner, with whatever state it has."""
    until = wall + timedelta(seconds=lease.lease_seconds)
    return replace(lease, nonce=nonce, sequence=lease.sequence + 1, renewed=wall, expires=until)


def requeued(lease: Lease, *, resume: bool, nonce: str, wall: datetime) -> Lease:
    """The body that lets a finished job run again, afresh or with the records that it has (F25)."""
    generation = lease.generation + 1
    return replace(
        lease,
        nonce=nonce,
        sequence=lease.sequence + 1,
        state=State.RELEASED,
        generation=generation,
        since=lease.since if resume else generation,
        barren=0,
        renewed=wall,
        expires=wall,
        completion=None,
        marked_by=REQUEUED,
    )


def marked(lease: Lease, by: str, *, nonce: str, wall: datetime) -> Lease:
    """The body that says in the place of an owner who is gone that it was interrupted (F21)."""
    return replace(lease, nonce=nonce, state=State.INTERRUPTED, renewed=wall, expires=wall, marked_by=by)


# ---- poison jobs -----------------------------------------------------------------------------------------------------
def excused(previous: Lease) -> bool:
    """Whether it says nothing against the job that its last attempt measured nothing (F17).

    Its owner had a notice, or EC2 took the host back, or an operator wants the job to run again.
    """
    if previous.marked_by == REQUEUED:
        return True
    return previous.state is State.INTERRUPTED and previous.marked_by in (None, RECLAIMED)


def barren(previous: Lease, measured: bool) -> int:
    """How many attempts in a row have now measured nothing, without an excuse (F17)."""
    if measured:
        return 0
    return previous.barren if excused(previous) else previous.barren + 1


# ---- what became of a write ------------------------------------------------------------------------------------------
class Fate(Enum):
    """Of a write whose answer said nothing, by what stands there now (F3)."""

    STANDS = "it was carried out"
    OVERTAKEN = "an earlier write of the same attempt was carried out instead: write again, over that"
    COMPLETED = "the claim is done, by this very attempt"
    OPEN = "nothing happened yet: it may be in flight, send the same bytes again"
    LOST = "somebody else wrote, or the object is gone"


def fate(wrote: Lease, replaces: str | None, now: Seen | None, sent: Container[str]) -> Fate:
    """F3, over what a GET after the write says. `replaces` is the ETag that the write demanded, None for creation.

    `sent` are the nonces of this holder. Owner and attempt would not tell: two holders of one worker that seek the same
    lease at once count the same attempt.
    """
    if now is None:
        return Fate.OPEN if replaces is None else Fate.LOST
    if now.lease is not None and now.lease.nonce == wrote.nonce:
        return Fate.STANDS
    if now.etag == replaces:
        return Fate.OPEN
    if now.lease is not None and now.lease.nonce in sent:
        if now.lease.state is State.DONE:
            return Fate.COMPLETED
        if now.lease.state is State.RUNNING:
            return Fate.OVERTAKEN
    return Fate.LOST
