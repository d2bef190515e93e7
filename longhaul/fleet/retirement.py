"""When a host that has nothing to do may go: a rule over what its scans saw since it fell idle (F16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from longhaul.fleet.lease import Owner, State
from longhaul.fleet.listing import Scan
from longhaul.fleet.taking import Job

PROOFS = 2  # different versions of a running claim, both seen since the worker fell idle (S29, S36)


class Decision(Enum):
    """What an idle worker does."""

    STAY = "there may be something to do"
    ALL_DONE = "every job is done"
    ALL_RUN = "every open job is run by a host that is seen to live"
    NO_SLOTS = "nothing fits beside the slots of the jobs that are seen to run"


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One attempt at a job, seen running."""

    owner: Owner
    attempt: int
    versions: frozenset[str]  # ETags of its claim


def sighted(before: Mapping[str, Sighting], scan: Scan) -> Mapping[str, Sighting]:
    """What is known after one more scan. It begins with nothing when the worker falls idle.

    A job that is not running, or by another attempt than before, starts from nothing (S62).
    """
    after = {}
    for job, seen in scan.claims.items():
        claim = seen.lease
        if claim is None or claim.state is not State.RUNNING:
            continue
        there = before.get(job)
        versions = frozenset({seen.etag})
        if there is not None and (there.owner, there.attempt) == (claim.owner, claim.attempt):
            versions |= there.versions
        after[job] = Sighting(owner=claim.owner, attempt=claim.attempt, versions=versions)
    return after


def decide(
    sightings: Mapping[str, Sighting],
    scan: Scan,
    jobs: Sequence[Job],
    *,
    api_slots: int,
    instance: str,
    now: float,
) -> Decision:
    """Whether the host may go. `now` is by the host's clock; `sightings` include that scan's.

    Whatever is not known counts as something to do.
    """
    open_jobs = [job for job in jobs if not _done(scan, job)]
    if not open_jobs:
        return Decision.ALL_DONE
    alive = {job.id for job in open_jobs if _alive(sightings, scan, job, instance, now)}
    if len(alive) == len(open_jobs):
        return Decision.ALL_RUN
    free = api_slots - sum(job.api_weight for job in open_jobs if job.id in alive)
    others = [job for job in open_jobs if job.id not in alive]
    if alive and all(job.api_weight > free for job in others):  # S73
        return Decision.NO_SLOTS
    return Decision.STAY


def _done(scan: Scan, job: Job) -> bool:
    return job.id not in scan.unknown and scan.done(job.id)


def _alive(sightings: Mapping[str, Sighting], scan: Scan, job: Job, instance: str, now: float) -> bool:
    """Seen to live, by another host (S62), and not expired since it was looked at (S39)."""
    seen, sighting = scan.claims.get(job.id), sightings.get(job.id)
    if seen is None or seen.lease is None or sighting is None or job.id in scan.unknown:
        return False
    if sighting.owner.instance == instance or len(sighting.versions) < PROOFS:
        return False
    server_now = scan.date + timedelta(seconds=now - scan.asked + 1)  # not earlier than it is: Date has no fractions
    return server_now < seen.modified + timedelta(seconds=seen.lease.lease_seconds)  # the grace is not for us
