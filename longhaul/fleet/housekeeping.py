"""What housekeeping decides of a queue and its group: pure rules over what was read and what EC2 said (F21).

It asks for nothing and writes nothing. The order in which its caller must do so is part of the rules: leases are read
*before* EC2 is asked of their owners, and the claims again *after* the minimum was lowered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from longhaul.fleet import completion
from longhaul.fleet import lease as rules
from longhaul.fleet.completion import Indexed
from longhaul.fleet.lease import RECLAIMED, TERMINATED, Lease, Seen, State, Terms
from longhaul.fleet.status import TERMS, HostStatus, JobState, state_of
from longhaul.fleet.surroundings import Doing

UNLISTED = timedelta(hours=1)  # since its launch, after which EC2 lists an instance for certain, if it exists (S67)
NO_LIFE = timedelta(minutes=15)  # after which an instance that shows no sign of work is replaced (S69)


class Ec2State(StrEnum):
    """Of an instance, as EC2 says it; any other word is another state of one that exists."""

    TERMINATED = "terminated"
    SHUTTING_DOWN = "shutting-down"
    RUNNING = "running"


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance as EC2 described it."""

    id: str
    state: str
    launched: datetime
    reclaimed: bool = False  # EC2 took it back: state reason Server.SpotInstanceTermination
    keep: bool = False  # tagged KeepHost=true


@dataclass(frozen=True, kw_only=True)
class Gone:
    """What was asked of EC2: the instances that it described, and those that it was asked for and does not know."""

    described: Mapping[str, Instance]
    unknown: Mapping[str, datetime | None]  # when they were launched, if anybody can tell


def acts(*, published: bool, paused: bool) -> bool:
    """Whether housekeeping does anything at all."""
    return published and not paused


# ---- marks -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Mark:
    """A lease to be written, over exactly the version that was read before EC2 was asked."""

    key: str
    body: Lease
    replaces: str


def marks(leases: Mapping[str, Seen], ec2: Gone, *, now: datetime, token: Callable[[], str]) -> Sequence[Mark]:
    """Leases whose owners are gone for certain; the next worker need not wait for them to expire.

    Only `terminated` counts: an instance that shuts down may still write and query. What EC2 does not list counts only
    once its launch is an hour ago, because its answers come to agree late (S67). Whoever renewed since the read is
    still there, and the mark is refused.
    """
    found = []
    for key, seen in sorted(leases.items()):
        if seen.lease is None or seen.lease.state is not State.RUNNING:
            continue
        by = _gone(seen.lease.owner.instance, ec2, now)
        if by is not None:
            body = rules.marked(seen.lease, by, nonce=token(), wall=now)
            found.append(Mark(key=key, body=body, replaces=seen.etag))
    return found


def _gone(instance: str, ec2: Gone, now: datetime) -> str | None:
    described = ec2.described.get(instance)
    if described is not None:
        if described.state != Ec2State.TERMINATED:
            return None
        return RECLAIMED if described.reclaimed else TERMINATED
    launched = ec2.unknown.get(instance)
    return TERMINATED if launched is not None and launched + UNLISTED <= now else None


# ---- index -----------------------------------------------------------------------------------------------------------
def indexes_to_repair(claims: Mapping[str, Seen], indexes: Mapping[str, Indexed]) -> Sequence[str]:
    """Jobs whose claim is done and whose index does not say so, or says it of another version of the claim (S70)."""
    wrong = []
    for job, seen in sorted(claims.items()):
        if seen.lease is None or seen.lease.state is not State.DONE:
            continue
        there = indexes.get(job)
        if there is None or there.index is None or not completion.agrees(there.index, seen):
            wrong.append(job)
    return wrong


# ---- capacity --------------------------------------------------------------------------------------------------------
def unfinished(jobs: Iterable[str], claims: Mapping[str, Seen]) -> bool:
    """Whether any job is not done, by its claim; one that cannot be read is not."""
    return any(
        (seen := claims.get(job)) is None or seen.lease is None or seen.lease.state is not State.DONE for job in jobs
    )


def keep_capacity(
    jobs: Sequence[str],
    minimum: int,
    *,
    read_claims: Callable[[], Mapping[str, Seen]],
    set_minimum: Callable[[int], None],
) -> int:
    """Keep the group's MinSize at one while a job is unfinished, at zero afterwards; what it is then.

    Desired capacity is never set: workers retire themselves, and AWS refuses the last decrement (S64). A requeue may
    come between the read and the lowering, so the claims are read again afterwards.
    """
    if unfinished(jobs, read_claims()):
        if minimum < 1:
            set_minimum(1)
        return max(minimum, 1)
    if minimum > 0:
        set_minimum(0)
        if unfinished(jobs, read_claims()):
            set_minimum(1)
            return 1
    return 0


# ---- instances without life ------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Lifeless:
    """Instances of the group that do no work, though there is some."""

    unhealthy: Sequence[str]  # to be set Unhealthy: the group replaces them
    kept: Sequence[str]  # tagged KeepHost: an alarm, and a person


def lifeless(
    instances: Iterable[Instance],
    hosts: Mapping[str, HostStatus],
    claims: Iterable[Seen],
    *,
    work_left: bool,
    now: datetime,
    terms: Terms = TERMS,
) -> Lifeless:
    """Running instances, up for 15 minutes, without a fresh claim and without a word for 15 minutes (S69).

    A host in quarantine for as long shows no life either, however often it says so: its successor stops the queries
    by their records, and a fleet of one goes on.
    """
    if not work_left:
        return Lifeless(unhealthy=(), kept=())
    busy = {
        seen.lease.owner.instance
        for seen in claims
        if seen.lease is not None
        and seen.lease.state is State.RUNNING
        and not rules.expired(seen.lease.lease_seconds, seen.modified, seen.date, terms)
    }
    dead = [
        one
        for one in instances
        if one.state == Ec2State.RUNNING
        and one.launched + NO_LIFE <= now
        and one.id not in busy
        and not _lives(hosts.get(one.id), now)
    ]
    return Lifeless(
        unhealthy=tuple(one.id for one in dead if not one.keep), kept=tuple(one.id for one in dead if one.keep)
    )


def _lives(host: HostStatus | None, now: datetime) -> bool:
    if host is None or host.seen + NO_LIFE <= now:
        return False
    if host.host.doing is not Doing.QUARANTINED:
        return True
    quarantined = host.host.written - host.host.since + (now - host.seen)  # each by one clock
    return quarantined < NO_LIFE


# ---- metrics ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What is counted at one look."""

    jobs: Mapping[JobState, int]  # every state, also those with none
    leases_expired: int
    hosts_alive: int
    oldest_pending_seconds: float  # the longest that a job has now waited for a worker; 0 if none waits


def metrics(
    jobs: Iterable[str],
    claims: Mapping[str, Seen],
    slots: Iterable[Seen],
    hosts: Iterable[HostStatus],
    *,
    published: datetime,
    now: datetime,
) -> Metrics:
    """Count; all times are the server's. A job waits since its queue was published, or since its claim was written.

    An expired claim waits since it could be taken.
    """
    states = {job: state_of(claims.get(job)) for job in jobs}
    counts = Counter(states.values())
    waits = [
        (now - _waits_since(claims.get(job), published)).total_seconds()
        for job, state in states.items()
        if state in (JobState.PENDING, JobState.EXPIRED)
    ]
    expired_slots = sum(state_of(seen) is JobState.EXPIRED for seen in slots)
    return Metrics(
        jobs={state: counts[state] for state in JobState},
        leases_expired=counts[JobState.EXPIRED] + expired_slots,
        hosts_alive=sum(host.alive for host in hosts),
        oldest_pending_seconds=max([*waits, 0.0]),
    )


def _waits_since(seen: Seen | None, published: datetime) -> datetime:
    if seen is None or seen.lease is None:
        return published
    if seen.lease.state is State.RUNNING:
        return seen.modified + timedelta(seconds=seen.lease.lease_seconds)
    return seen.modified
