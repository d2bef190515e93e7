"""A worker's look at the whole queue, which fetches only what changed (F8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from longhaul.fleet import lease
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Owner, Seen, State, Terms
from longhaul.fleet.objects import Listed, Store
from longhaul.fleet.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The queue as one look saw it."""

    claims: Mapping[str, Seen]  # of jobs that are not done; a job without a claim is not among them
    finished: frozenset[str]  # jobs that are done, by their claims: the index decides nothing (F7)
    unknown: frozenset[str]  # jobs whose claim could not be read: not to be taken this time
    indexed: frozenset[str]  # jobs that have an index
    asked: float  # when it began, by the host's clock
    date: datetime  # when the server answered, by its own: not before `asked`

    def takeable(self, job: str, terms: Terms, owner: Owner | None = None) -> bool:
        """Whether the job is worth a try, of that owner. Before it is taken its claim is read again (F6)."""
        if job in self.unknown or job in self.finished:
            return False
        return lease.takeable(self.claims.get(job), terms, owner)

    def done(self, job: str) -> bool:
        """Whether the job is done, as far as was read: a claim that is unknown may have been requeued."""
        return job in self.finished


@dataclass(frozen=True, kw_only=True)
class Scanner:
    """Remembers the claims that it has read; of one that is done, which names every record, no more than its ETag.

    One thread uses it.
    """

    keys: QueueKeys
    store: Store
    runtime: Runtime
    terms: Terms
    _open: dict[str, Seen] = field(default_factory=dict)
    _finished: dict[str, str] = field(default_factory=dict)

    def scan(self) -> Scan:
        """LIST claims; GET those with a new ETag and those that may have expired, in random order; LIST the index.

        A listing that fails raises `UnansweredError`. A claim that fails is only unknown: the rest can go on.
        """
        asked = self.runtime.clock()
        claims = self.store.list(self.keys.claims)
        jobs = {one.key[len(self.keys.claims) :]: one for one in claims.objects}
        for job in (self._open.keys() | self._finished.keys()) - jobs.keys():
            self._remember(job, None)
        unknown = set()
        for job in self._shuffled([job for job, one in jobs.items() if self._worth_reading(job, one, claims.date)]):
            try:
                now = lease.seen(self.store.get(self.keys.claims + job))
            except UnansweredError:
                unknown.add(job)
                continue
            self._remember(job, now)
            if now is None:
                unknown.add(job)  # gone since the listing: the next look tells
        index = self.store.list(self.keys.done)  # last: whoever ended a job meanwhile has had the time to write it
        return Scan(
            claims=dict(self._open),
            finished=frozenset(self._finished),
            unknown=frozenset(unknown),
            indexed=frozenset(one.key[len(self.keys.done) :] for one in index.objects),
            asked=asked,
            date=claims.date,
        )

    def _remember(self, job: str, now: Seen | None) -> None:
        self._open.pop(job, None)
        self._finished.pop(job, None)
        if now is not None and now.lease is not None and now.lease.state is State.DONE:
            self._finished[job] = now.etag
        elif now is not None:
            self._open[job] = now

    def _worth_reading(self, job: str, listed: Listed, date: datetime) -> bool:
        if job in self._finished:
            return self._finished[job] != listed.etag
        before = self._open.get(job)
        if before is None or before.etag != listed.etag:
            return True
        if before.lease is None or before.lease.state is not State.RUNNING:
            return False
        return lease.expired(before.lease.lease_seconds, listed.modified, date, self.terms)

    def _shuffled(self, jobs: list[str]) -> list[str]:
        return [job for _, job in sorted((self.runtime.fraction(), job) for job in jobs)]
