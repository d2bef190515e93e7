"""A job's end: the claim says it, fenced; the index repeats it and can be made again at any time (F7)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from longhaul.fleet import lease as rules
from longhaul.fleet.holding import Verdict
from longhaul.fleet.keys import Attempt, QueueKeys
from longhaul.fleet.lease import Completion, Lease, Owner, Seen, State
from longhaul.fleet.objects import Store
from longhaul.fleet.runtime import Runtime


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `done/<job>`: what the claim said, and which version of the claim said it. It decides nothing."""

    generation: int
    attempt: int
    owner: Owner
    completion: Completion
    claim_etag: str


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """An index as one GET saw it. `index` is None if the body is none that this version understands."""

    index: Index | None
    etag: str


_decoder = msgspec.json.Decoder(Index)


def index_of(claim: Lease, claim_etag: str) -> Index:
    """What the index of a claim that is done has to say."""
    if claim.completion is None:
        raise ValueError("the claim is not done")
    return Index(
        generation=claim.generation,
        attempt=claim.attempt,
        owner=claim.owner,
        completion=claim.completion,
        claim_etag=claim_etag,
    )


def agrees(index: Index, claim: Seen | None) -> bool:
    """Whether an index is to be believed: the claim is done in that generation, and was not written since (F7, S70)."""
    return (
        claim is not None
        and claim.lease is not None
        and claim.lease.state is State.DONE
        and (claim.lease.generation, claim.etag) == (index.generation, index.claim_etag)
    )


def read_index(store: Store, keys: QueueKeys, job: str) -> Indexed | None:
    """The index of a job; an `UnansweredError` passes."""
    found = store.get(keys.index(job))
    if found is None:
        return None
    try:
        return Indexed(index=_decoder.decode(found.body), etag=found.etag)
    except msgspec.DecodeError:
        return Indexed(index=None, etag=found.etag)


def write_index(store: Store, keys: QueueKeys, job: str, claim: Lease, claim_etag: str) -> bool:
    """Write the index of a claim that has just become done: one request, unless there is an index of an earlier end.

    An `UnansweredError` passes. Returned is whether the index is right now; if not, it has to be repaired.
    """
    body = msgspec.json.encode(index_of(claim, claim_etag))
    return store.put(keys.index(job), body, replaces=None) is not None


def repair_index(store: Store, keys: QueueKeys, job: str, claim: Seen) -> bool:
    """Make the index say what the claim says, if the claim is done. Anybody may, at any time.

    An `UnansweredError` passes. Returned is whether the index is right now. Of two that repair at once one is refused,
    and writes nothing; an index that a requeue made stale is no harm, because it names another version of the claim.
    """
    if claim.lease is None or claim.lease.state is not State.DONE:
        return False
    right = index_of(claim.lease, claim.etag)
    there = read_index(store, keys, job)
    if there is not None and there.index == right:
        return True
    body = msgspec.json.encode(right)
    return store.put(keys.index(job), body, replaces=there.etag if there else None) is not None


# ---- a claim that is gone --------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Remains:
    """What tells of a job whose claim does not exist: never begun, or eaten by a lifecycle rule (F2, S56, S72)."""

    generation: int  # the highest that left a trace
    last_attempt: int  # the highest number that left a trace, in any generation; 0 without any
    index: Index | None  # of the job's end, if it is still to be believed


def remains(store: Store, keys: QueueKeys, job: str, *, indexed: bool = True) -> Remains:
    """Look at results and index of a job without a claim; an `UnansweredError` passes.

    `indexed` is whether a listing of a moment ago had an index of the job. If not, and the job left nothing either,
    there is none: whoever ended it meanwhile left results.
    """
    listing = store.list(keys.results(job))
    attempts = {a for one in listing.objects if (a := keys.attempt_of(job, one.key)) is not None}
    last = max(attempts, key=lambda a: (a.generation, a.number), default=None)
    there = read_index(store, keys, job) if indexed or listing.objects else None
    index = there.index if there else None
    if index is not None and last is not None and (last.generation, last.number) > (index.generation, index.attempt):
        index = None  # the job was run again after that end
    there_are = {None, *(one.key for one in listing.objects)}
    if index is not None and index.completion.summary not in there_are:
        index = None  # its summary was eaten too (I3)
    if there is not None and there.index is not None:
        attempts.add(Attempt(generation=there.index.generation, number=there.index.attempt))
    return Remains(
        generation=max((a.generation for a in attempts), default=0),
        last_attempt=max((a.number for a in attempts), default=0),
        index=index,
    )


def restore(store: Store, keys: QueueKeys, job: str, index: Index, runtime: Runtime, terms: rules.Terms) -> Verdict:
    """Write the claim of a finished job again, from its index; an `UnansweredError` passes (F2).

    Whoever is refused finds another's claim there: LOST. An answer that says nothing settles at the next scan.
    """
    body = replace(
        rules.taken(None, index.owner, terms, nonce=runtime.token(), wall=runtime.wall(), generation=index.generation),
        attempt=index.attempt,
        state=State.DONE,
        completion=index.completion,
    )
    etag = store.put(keys.claim(job), rules.encode(body), replaces=None)
    if etag is None:
        return Verdict.LOST
    now = rules.seen(store.get(keys.claim(job)))
    if now is not None:
        repair_index(store, keys, job, now)
    return Verdict.COMPLETED
