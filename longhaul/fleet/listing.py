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

    claims: Mapping[str, Seen]  # by job; a job without a claim is not among them
    unknown: frozenset[str]  # jobs whose claim could not be read: not to be taken this time
    indexed: Mapping[str, str]  # ETag of the index of each job that has one
    asked: float  # when it began, by the host's clock
    date: datetime  # when the server answered, by its own: not before `asked`

    def takeable(self, job: str, terms: Terms, owner: Owner | None = None) -> bool:
        """Whether the job is worth a try, of that owner. Before it is taken its claim is read again (F6)."""
        return job not in self.unknown and lease.takeable(self.claims.get(job), terms, owner)

    def done(self, job: str) -> bool:
        """Whether the job is done, by its claim: the index decides nothing (F7)."""
        claim = self.claims.get(job)
        return claim is not None and claim.lease is not None and claim.lease.state is State.DONE


@dataclass(frozen=True, kw_only=True)
class Scanner:
    """Remembers the claims that it has read. One thread uses it."""

    keys: QueueKeys
    store: Store
    runtime: Runtime
    terms: Terms
    _read: dict[str, Seen] = field(default_factory=dict)

    def scan(self) -> Scan:
        """LIST claims and index; GET claims with a new ETag and those that may have expired, in random order.

        A listing that fails raises `UnansweredError`. A claim that fails is only unknown: the rest can go on.
        """
        asked = self.runtime.clock()
        claims = self.store.list(self.keys.claims)
        jobs = {one.key[len(self.keys.claims) :]: one for one in claims.objects}
        index = self.store.list(self.keys.done)
        for job in self._read.keys() - jobs.keys():
            del self._read[job]
        unknown = set()
        for job in self._shuffled([job for job, one in jobs.items() if self._worth_reading(job, one, claims.date)]):
            try:
                now = lease.seen(self.store.get(self.keys.claims + job))
            except UnansweredError:
                unknown.add(job)
                continue
            if now is None:
                self._read.pop(job, None)
                unknown.add(job)  # gone since the listing: the next look tells
            else:
                self._read[job] = now
        return Scan(
            claims=dict(self._read),
            unknown=frozenset(unknown),
            indexed={one.key[len(self.keys.done) :]: one.etag for one in index.objects},
            asked=asked,
            date=claims.date,
        )

    def _worth_reading(self, job: str, listed: Listed, date: datetime) -> bool:
        before = self._read.get(job)
        if before is None or before.etag != listed.etag:
            return True
        if before.lease is None or before.lease.state is not State.RUNNING:
            return False
        return lease.expired(before.lease.lease_seconds, listed.modified, date, self.terms)

    def _shuffled(self, jobs: list[str]) -> list[str]:
        return [job for _, job in sorted((self.runtime.fraction(), job) for job in jobs)]
