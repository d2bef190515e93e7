"""Housekeeping's rules (F21)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
import pytest

from longhaul.fleet import completion, housekeeping
from longhaul.fleet.completion import Indexed
from longhaul.fleet.hosts import StoredHost
from longhaul.fleet.housekeeping import Gone, Instance, Lifeless, keep_capacity, lifeless, marks
from longhaul.fleet.lease import Completion, Lease, Outcome, Owner, Seen, State
from longhaul.fleet.status import HostStatus, JobState
from longhaul.fleet.surroundings import Doing
from tests.unit.fleet.memory import EPOCH, body

NOW = EPOCH + timedelta(hours=5)
OWNER = Owner(instance="i-1", worker="w")


def at(minutes: float) -> datetime:
    """So long before now."""
    return NOW - timedelta(minutes=minutes)


def seen(lease: Lease | None, *, minutes: float = 1, etag: str = "e1") -> Seen:
    """A lease that was written so long before now."""
    return Seen(lease=lease, etag=etag, modified=at(minutes), date=NOW)


def done() -> Lease:
    """A claim that is done."""
    return msgspec.structs.replace(body(OWNER), state=State.DONE, completion=Completion(outcome=Outcome.SUCCESS))


def instance(state: str = "running", *, up: float = 60, reclaimed: bool = False, keep: bool = False) -> Instance:
    """The owner's, up for so many minutes."""
    return Instance(id="i-1", state=state, launched=at(up), reclaimed=reclaimed, keep=keep)


def gone(*described: Instance, **unknown: datetime | None) -> Gone:
    """What EC2 said."""
    named = {name.replace("_", "-"): launched for name, launched in unknown.items()}
    return Gone(described={one.id: one for one in described}, unknown=named)


def marked(leases: Mapping[str, Seen], ec2: Gone) -> list[tuple[str, str | None, str]]:
    """Key, mark, and the version that is written over."""
    tokens = (f"t{number}" for number in itertools.count())
    found = marks(leases, ec2, now=NOW, token=lambda: next(tokens))
    for mark in found:
        before = leases[mark.key].lease
        assert before is not None
        assert mark.body.state is State.INTERRUPTED
        assert (mark.body.owner, mark.body.attempt) == (before.owner, before.attempt)
        assert mark.body.nonce != before.nonce
    return [(mark.key, mark.body.marked_by, mark.replaces) for mark in found]


def test_nothing_is_done_before_and_while_paused() -> None:
    """F21: no queue, or one that is paused."""
    assert housekeeping.acts(published=True, paused=False)
    assert not housekeeping.acts(published=False, paused=False)
    assert not housekeeping.acts(published=True, paused=True)


def test_leases_of_the_terminated_are_marked() -> None:
    """L2, F17: over the version that was read; reclaimed by EC2 is no fault of the job."""
    leases = {"claim": seen(body(OWNER), etag="c"), "slot": seen(body(OWNER), etag="s")}
    assert marked(leases, gone(instance("terminated"))) == [
        ("claim", "terminated", "c"),
        ("slot", "terminated", "s"),
    ]
    assert marked(leases, gone(instance("terminated", reclaimed=True)))[0][1] == "spot"


@pytest.mark.parametrize("state", ["running", "pending", "stopping", "stopped", "shutting-down", "new word"])
def test_s67_whoever_is_not_terminated_is_left_alone(state: str) -> None:
    """S67, I1: one that shuts down may still query."""
    assert marked({"claim": seen(body(OWNER))}, gone(instance(state))) == []


def test_s67_what_ec2_does_not_list() -> None:
    """S67: counts only an hour after launch, and not if nobody knows when that was, or was asked."""
    leases = {"claim": seen(body(OWNER))}
    assert marked(leases, gone(i_1=at(59))) == []
    assert marked(leases, gone(i_1=None)) == []
    assert marked(leases, gone()) == []
    assert marked(leases, gone(i_1=at(60))) == [("claim", "terminated", "e1")]


def test_only_running_leases_are_marked() -> None:
    """I2: what is done stays done, and what cannot be read is nobody's to write."""
    leases = {
        "done": seen(done()),
        "released": seen(body(OWNER, State.RELEASED)),
        "interrupted": seen(body(OWNER, State.INTERRUPTED)),
        "unreadable": seen(None),
    }
    assert marked(leases, gone(instance("terminated"))) == []


def test_s70_indexes() -> None:
    """S70: only claims that are done have one; it must name this version of the claim."""
    right = completion.index_of(done(), "e1")
    claims = {
        "right": seen(done()),
        "missing": seen(done()),
        "broken": seen(done()),
        "stale": seen(done(), etag="e2"),
        "running": seen(body(OWNER)),
        "unreadable": seen(None),
    }
    indexes = {
        "right": Indexed(index=right, etag="x"),
        "broken": Indexed(index=None, etag="x"),
        "stale": Indexed(index=right, etag="x"),
        "running": Indexed(index=right, etag="x"),
    }
    assert housekeeping.indexes_to_repair(claims, indexes) == ["broken", "missing", "stale"]


# ---- capacity --------------------------------------------------------------------------------------------------------
def capacity(minimum: int, *reads: Mapping[str, Seen]) -> tuple[int, list[int]]:
    """What the minimum is in the end, and what it was set to on the way."""
    answers, written = iter(reads), list[int]()
    left = keep_capacity(["a", "b"], minimum, read_claims=lambda: next(answers), set_minimum=written.append)
    assert next(answers, None) is None, "every answer was asked for"
    return left, written


FINISHED = {"a": seen(done()), "b": seen(done())}
OPEN = {"a": seen(done()), "b": seen(body(OWNER, State.RELEASED))}


@pytest.mark.parametrize("claims", [{}, OPEN, {"a": seen(done()), "b": seen(None)}, {"a": seen(done())}])
def test_capacity_while_a_job_is_unfinished(claims: Mapping[str, Seen]) -> None:
    """I10: a job without a claim, or with one that cannot be read, is unfinished; a larger minimum is an operator's."""
    assert capacity(0, claims) == (1, [1])
    assert capacity(1, claims) == (1, [])
    assert capacity(3, claims) == (3, [])


def test_capacity_when_all_is_done() -> None:
    """L5: workers may then all go."""
    assert capacity(1, FINISHED, FINISHED) == (0, [0])
    assert capacity(0, FINISHED) == (0, [])


def test_s64_a_requeue_between_read_and_lowering() -> None:
    """S64, I10: is seen by the second read; requeue raises the minimum after its write, so one of the two does."""
    assert capacity(1, FINISHED, OPEN) == (1, [0, 1])


# ---- life ------------------------------------------------------------------------------------------------------------
def host(doing: Doing = Doing.IDLE, *, seen_minutes: float = 1, since: float = 60) -> HostStatus:
    """A record, written so long ago, of what it has done for so long then."""
    skew = timedelta(hours=3)  # of its wall clock, which does not matter
    written = at(seen_minutes) + skew
    stored = StoredHost(
        instance="i-1",
        lifecycle="spot",
        instance_type="t",
        zone="z",
        worker_version="1",
        directory="/d",
        worker="w",
        doing=doing,
        since=written - timedelta(minutes=since),
        written=written,
        started=written,
    )
    return HostStatus(host=stored, seen=at(seen_minutes), alive=True)


def found(
    one: Instance, record: HostStatus | None = None, claim: Seen | None = None, *, work_left: bool = True
) -> Lifeless:
    """What is decided of one instance."""
    return lifeless(
        [one],
        {"i-1": record} if record else {},
        [claim] if claim else [],
        work_left=work_left,
        now=NOW,
    )


NOBODY = Lifeless(unhealthy=(), kept=())
DEAD = Lifeless(unhealthy=("i-1",), kept=())


def test_s69_an_instance_without_a_worker() -> None:
    """S69: is given up after 15 minutes, if there is work; a kept one is a person's to look at."""
    assert found(instance(up=15)) == DEAD
    assert found(instance(up=14.9)) == NOBODY, "it may still be starting"
    assert found(instance(), work_left=False) == NOBODY
    assert found(instance("shutting-down")) == NOBODY
    assert found(instance(keep=True)) == Lifeless(unhealthy=(), kept=("i-1",))


def test_signs_of_life() -> None:
    """E1: a fresh claim or a recent word."""
    assert found(instance(), host(seen_minutes=14.9)) == NOBODY
    assert found(instance(), host(seen_minutes=15)) == DEAD
    fresh = body(OWNER, seconds=600)
    assert found(instance(), claim=seen(fresh, minutes=10)) == NOBODY
    assert found(instance(), claim=seen(fresh, minutes=10.5)) == DEAD
    assert found(instance(), claim=seen(body(OWNER, State.RELEASED))) == DEAD
    assert found(instance(), claim=seen(body(Owner(instance="i-2", worker="w")))) == DEAD


def test_s69_a_host_in_quarantine() -> None:
    """S69, L1: speaks for 15 minutes in vain; since when, by its own clock and the server's, never across the two."""
    assert found(instance(), host(Doing.QUARANTINED, since=13, seen_minutes=1)) == NOBODY
    assert found(instance(), host(Doing.QUARANTINED, since=14, seen_minutes=1)) == DEAD
    assert found(instance(), host(Doing.QUARANTINED, since=2, seen_minutes=13)) == DEAD


# ---- metrics ---------------------------------------------------------------------------------------------------------
def test_what_is_counted() -> None:
    """F21: every state, also those with none; the oldest wait by the server's times."""
    claims = {
        "a": seen(done()),
        "b": seen(body(OWNER, seconds=600)),
        "c": seen(body(OWNER, seconds=600), minutes=20),
        "d": seen(body(OWNER, State.RELEASED), minutes=7),
    }
    counted = housekeeping.metrics(
        "abcd",
        claims,
        [seen(body(OWNER, seconds=60), minutes=5), seen(body(OWNER))],
        [host()],
        published=at(100),
        now=NOW,
    )
    assert counted.jobs == {
        **dict.fromkeys(JobState, 0),
        JobState.DONE: 1,
        JobState.RUNNING: 1,
        JobState.EXPIRED: 1,
        JobState.PENDING: 1,
    }
    assert (counted.leases_expired, counted.hosts_alive) == (2, 1)
    assert counted.oldest_pending_seconds == 600, "c could be taken ten minutes ago"
    waits = housekeeping.metrics("e", {}, [], [], published=at(100), now=NOW)
    assert waits.oldest_pending_seconds == 6000
    assert housekeeping.metrics("a", claims, [], [], published=at(100), now=NOW).oldest_pending_seconds == 0
