"""What a queue looks like to its operator: jobs, claims, slots and hosts, from what one look at S3 saw (F25)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from longhaul.fleet import keys as names
from longhaul.fleet import lease as rules
from longhaul.fleet.hosts import StoredHost, stored
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Lease, Outcome, Seen, State, Terms
from longhaul.fleet.objects import Found, Listed, Store
from longhaul.fleet.queue import PAUSED, JobDocument, PublishedQueue
from longhaul.fleet.stack import side_by_side

TERMS = Terms()  # of a lease's expiry only the grace is asked; how long it lasts stands in its body
HOST_ALIVE = timedelta(minutes=15)  # since it was seen last


class JobState(StrEnum):
    """Of a job, as an operator wants to know it."""

    PENDING = "pending"  # nobody has it, or whoever had it gave it back
    RUNNING = "running"
    EXPIRED = "expired"  # whoever has it has not been heard of: the next worker takes it
    DONE = "done"  # with success
    FAILED = "failed"  # done, but not with success: failed, report_error, abandoned; or with errors
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"  # its claim was written by another version


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """One job."""

    id: str
    state: JobState
    api_weight: int
    written: datetime | None  # its claim, last, by the server's clock
    lease: Lease | None

    @property
    def attempt(self) -> str:
        """Which attempt has it, or had it last."""
        if self.lease is None:
            return "-"
        if self.lease.marked_by == rules.REQUEUED and self.lease.state is State.RELEASED:
            return f"g{self.lease.generation}"  # none yet
        return f"g{self.lease.generation}/attempt-{self.lease.attempt}"

    @property
    def detail(self) -> str:
        """How it ended, in a word or a line."""
        if self.lease is None:
            return "its claim is damaged, or of another version: nobody takes it" if self.written else ""
        done = self.lease.completion
        if done is None:
            if self.lease.state is State.RUNNING:
                return ""
            return f"{self.lease.state}{f', marked by {self.lease.marked_by}' if self.lease.marked_by else ''}"
        said = [str(done.outcome), *([done.report_error] if done.report_error else []), *done.errors]
        if done.lost_slots:
            said.append(f"{len(done.lost_slots)} slots lost on the way")
        return "; ".join(said)


@dataclass(frozen=True, kw_only=True)
class SlotStatus:
    """One API slot."""

    number: int
    state: JobState  # pending: free
    lease: Lease | None


@dataclass(frozen=True, kw_only=True)
class HostStatus:
    """One host."""

    host: StoredHost
    seen: datetime  # its record or a lease of its worker was written, by the server's clock
    alive: bool


@dataclass(frozen=True, kw_only=True)
class QueueStatus:
    """A queue at one moment."""

    queue: str
    run_id: str
    published: datetime
    at: datetime  # by the server's clock
    paused: bool
    jobs: Sequence[JobStatus]
    slots: Sequence[SlotStatus]
    hosts: Sequence[HostStatus]

    @property
    def counts(self) -> Mapping[JobState, int]:
        """Jobs in each state that occurs."""
        counts = Counter(job.state for job in self.jobs)
        return {state: counts[state] for state in JobState if counts[state]}

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return all(job.state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED) for job in self.jobs)

    @property
    def failed(self) -> bool:
        """Whether any job failed."""
        return any(job.state in (JobState.FAILED, JobState.CANCELLED) for job in self.jobs)


def state_of(now: Seen | None) -> JobState:
    """What a claim says of its job; by the server's clock alone (F4)."""
    if now is None:
        return JobState.PENDING
    if now.lease is None:
        return JobState.UNKNOWN
    if now.lease.state is State.RUNNING:
        gone = rules.expired(now.lease.lease_seconds, now.modified, now.date, TERMS)
        return JobState.EXPIRED if gone else JobState.RUNNING
    done = now.lease.completion
    if done is None:
        return JobState.PENDING
    if done.outcome is Outcome.CANCELLED:
        return JobState.CANCELLED
    ended_well = done.outcome is Outcome.SUCCESS and not done.errors and done.report_error is None
    return JobState.DONE if ended_well else JobState.FAILED


def job_status(job: JobDocument, now: Seen | None) -> JobStatus:
    """One job by its claim."""
    return JobStatus(
        id=job.id,
        state=state_of(now),
        api_weight=job.api_weight,
        written=now.modified if now else None,
        lease=now.lease if now else None,
    )


def slot_status(number: int, now: Seen | None) -> SlotStatus:
    """One slot by its lease."""
    return SlotStatus(number=number, state=state_of(now), lease=now.lease if now else None)


# ---- the look --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Observer:
    """Looks at one queue, again and again; what did not change is not fetched again (F8)."""

    store: Store
    keys: QueueKeys
    queue: PublishedQueue
    _known: dict[str, Found] = field(default_factory=dict)

    def look(self) -> QueueStatus:
        """Look once; an `UnansweredError` passes."""
        claims = self._fetched(self.keys.claims)
        hosts = self._fetched(self.keys.hosts)
        slots = self._fetched(names.SLOTS)
        listing = self.store.list(self.keys.document(PAUSED))
        document, heard = self.queue.document, _heard([*claims.values(), *slots.values()])
        return QueueStatus(
            queue=self.keys.queue,
            run_id=document.run_id,
            published=document.published,
            at=listing.date,
            paused=bool(listing.objects),
            jobs=[job_status(job, claims.get(self.keys.claim(job.id))) for job in self.queue.documents.jobs],
            slots=[slot_status(number, slots.get(names.slot(number))) for number in range(document.api_slots)],
            hosts=[
                one for key in sorted(hosts) if (one := self._host(key, hosts[key], heard, listing.date)) is not None
            ],
        )

    def _fetched(self, prefix: str) -> dict[str, Seen]:
        """All objects below a prefix, those that changed from a GET; times are the listing's own (F4)."""
        listing = self.store.list(prefix)
        news = [one for one in listing.objects if self._changed(one)]
        for one, found in zip(news, side_by_side(lambda one: self.store.get(one.key), news), strict=True):
            if found is not None:
                self._known[one.key] = found
        seen = {}
        for one in listing.objects:
            found = self._known.get(one.key)
            now = rules.seen(found)
            if found is not None and now is not None:
                date = max(listing.date, found.date)
                seen[one.key] = Seen(lease=now.lease, etag=found.etag, modified=found.modified, date=date)
        return seen

    def _changed(self, listed: Listed) -> bool:
        known = self._known.get(listed.key)
        return known is None or known.etag != listed.etag

    def _host(self, key: str, now: Seen, heard: Mapping[str, datetime], date: datetime) -> HostStatus | None:
        host = stored(self._known.get(key))
        if host is None:
            return None
        seen = max(now.modified, heard.get(host.worker, now.modified))
        return HostStatus(host=host, seen=seen, alive=seen + HOST_ALIVE > date)


def _heard(leases: Sequence[Seen]) -> Mapping[str, datetime]:
    """When each worker wrote a lease last: while it runs a job, nothing else of it is written."""
    heard: dict[str, datetime] = {}
    for one in sorted(leases, key=lambda one: one.modified):
        if one.lease is not None and one.lease.state is State.RUNNING:
            heard[one.lease.owner.worker] = one.modified
    return heard
