"""The rules of leases (F1, F2, F3, F4)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from longhaul.fleet import lease as rules
from longhaul.fleet.lease import Completion, Fate, Lease, Outcome, Owner, Seen, State, Terms
from longhaul.fleet.objects import Found
from tests.unit.fleet.memory import EPOCH, ME, OTHER, TERMS, body

DONE = replace(body(ME, attempt=3), state=State.DONE, completion=Completion(outcome=Outcome.SUCCESS))


def at(lease: Lease | None, age: float = 0, etag: str = "e") -> Seen:
    """A lease, seen that many seconds after it was written."""
    return Seen(lease=lease, etag=etag, modified=EPOCH, date=EPOCH + timedelta(seconds=age))


def test_a_body_says_what_it_must_and_comes_back() -> None:
    """F1."""
    data = rules.encode(DONE)
    assert {"schema", "nonce", "sequence", "state", "owner", "attempt", "generation", "barren", "lease_seconds"} | {
        "since",
        "marked_by",
        "renewed",
        "expires",
        "completion",
    } == json.loads(data).keys()
    now = rules.seen(Found(body=data, etag="e", modified=EPOCH, date=EPOCH))
    assert now is not None
    assert now.lease == DONE
    assert rules.seen(None) is None


def test_a_claim_is_done_exactly_if_it_says_how() -> None:
    """F7."""
    with pytest.raises(ValueError, match="if and only if"):
        replace(DONE, completion=None)
    with pytest.raises(ValueError, match="if and only if"):
        replace(DONE, state=State.RUNNING)


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]", rules.encode(body()).replace(b'"schema":1', b'"schema":2')])
def test_only_what_is_absent_given_back_or_expired_is_takeable(data: bytes) -> None:
    """F2; a body of another version is nobody's to take."""
    unreadable = rules.seen(Found(body=data, etag="e", modified=EPOCH, date=EPOCH + timedelta(days=1)))
    assert unreadable is not None
    assert unreadable.lease is None
    assert not rules.takeable(unreadable, TERMS)
    assert rules.takeable(None, TERMS)
    assert rules.takeable(at(body(state=State.RELEASED)), TERMS)
    assert rules.takeable(at(body(state=State.INTERRUPTED)), TERMS)
    assert not rules.takeable(at(body(), age=309), TERMS)
    assert rules.takeable(at(body(), age=310), TERMS)
    assert not rules.takeable(at(DONE, age=10**6), TERMS)


def test_expiry_goes_by_the_lease_that_the_body_names() -> None:
    """F4: the holder's deadline came from its own lease, not from the reader's."""
    assert not rules.takeable(at(body(seconds=600), age=609), TERMS)
    assert rules.takeable(at(body(seconds=600), age=610), TERMS)


@pytest.mark.parametrize("minutes", [-10, 0, 10])
def test_no_clock_of_a_host_matters(minutes: int) -> None:
    """S50, case-Q05: what a holder with a wrong clock wrote into its lease is not looked at."""
    wrong = EPOCH + timedelta(minutes=minutes)
    lease = replace(body(), renewed=wrong, expires=wrong + timedelta(seconds=300))
    assert not rules.takeable(at(lease, age=309), TERMS)
    assert rules.takeable(at(lease, age=310), TERMS)


def test_terms() -> None:
    """F4, F5, F8: margin max(30 s, a tenth); renewed every tenth, scanned each 30 s; the default is 600 s."""
    assert Terms.of(600) == Terms()
    assert (Terms.of(300).margin_seconds, Terms.of(300).renew_seconds) == (30, 30)
    assert {Terms.of(seconds).scan_seconds for seconds in (300, 600, 6000)} == {30}
    assert Terms.of(3).margin_seconds == Terms.of(3).scan_seconds == pytest.approx(0.3)
    assert Terms.of(600).deadline(1000) == 1540


def test_a_new_owner_has_a_new_attempt() -> None:
    """F2: also if results tell of attempts that the claim does not."""

    def take(previous: Lease | None, last_attempt: int = 0, generation: int = 0) -> Lease:
        return rules.taken(previous, ME, TERMS, nonce="x", wall=EPOCH, last_attempt=last_attempt, generation=generation)

    assert take(None).attempt == 1
    assert take(body(attempt=4)).attempt == 5
    assert take(body(attempt=4), last_attempt=7).attempt == 8
    assert take(None, last_attempt=7, generation=2).generation == 2
    before = replace(body(), generation=3, since=1, barren=2)
    again = take(before)
    assert (again.generation, again.since, again.barren) == (3, 1, 0)
    assert list(again.generations) == [1, 2, 3]
    assert list(take(None, generation=2).generations) == [2]
    assert take(None).expires == EPOCH + timedelta(seconds=300)


MINE = body(ME, attempt=3, nonce="now")


@pytest.mark.parametrize(
    ("wrote", "replaces", "now", "expected"),
    [
        (MINE, None, None, Fate.OPEN),
        (MINE, "e0", None, Fate.LOST),
        (MINE, "e0", at(MINE), Fate.STANDS),
        (MINE, None, at(MINE), Fate.STANDS),
        (replace(MINE, state=State.RELEASED), "e0", at(replace(MINE, state=State.RELEASED)), Fate.STANDS),
        (MINE, "e", at(body(ME, attempt=3, nonce="before")), Fate.OPEN),
        (MINE, "e", at(body(OTHER, attempt=2)), Fate.OPEN),
        (MINE, "e0", at(body(ME, attempt=3, nonce="before")), Fate.OVERTAKEN),
        (MINE, None, at(body(ME, attempt=3, nonce="before")), Fate.OVERTAKEN),
        (replace(MINE, state=State.RELEASED), "e0", at(body(ME, attempt=3, nonce="before")), Fate.OVERTAKEN),
        (MINE, "e0", at(body(ME, attempt=2, nonce="older")), Fate.LOST),
        (MINE, "e0", at(body(ME, attempt=3, nonce="of another holder")), Fate.LOST),
        (MINE, "e0", at(body(OTHER, attempt=3, nonce="theirs")), Fate.LOST),
        (MINE, "e0", at(body(OTHER, attempt=4, nonce="theirs")), Fate.LOST),
        (MINE, None, at(body(OTHER, attempt=1, nonce="theirs")), Fate.LOST),
        (MINE, "e0", at(body(ME, State.INTERRUPTED, attempt=3, nonce="marked")), Fate.LOST),
        (MINE, "e0", at(body(ME, State.RELEASED, attempt=3, nonce="before")), Fate.LOST),
        (MINE, "e0", at(replace(DONE, nonce="before")), Fate.COMPLETED),
        (replace(MINE, state=State.RELEASED), "e0", at(replace(DONE, nonce="before")), Fate.COMPLETED),
        (MINE, "e0", at(None), Fate.LOST),
        (MINE, "e", at(None), Fate.OPEN),
    ],
)
def test_fate(wrote: Lease, replaces: str | None, now: Seen | None, expected: Fate) -> None:
    """F3, in the order of its words (S34, S46, S49, S63, case-Q14)."""
    assert rules.fate(wrote, replaces, now, {"before", MINE.nonce, DONE.nonce}) is expected


def test_renewing_keeps_all_but_nonce_sequence_and_times() -> None:
    """F1."""
    wall: datetime = EPOCH + timedelta(seconds=5)
    again = rules.renewed(MINE, nonce="fresh", wall=wall)
    assert replace(again, nonce=MINE.nonce, sequence=0, renewed=MINE.renewed, expires=MINE.expires) == MINE
    assert (again.sequence, again.nonce, again.expires) == (1, "fresh", wall + timedelta(seconds=300))


def test_a_host_takes_over_at_once_what_an_earlier_worker_of_it_left() -> None:
    """F14: not what it holds itself, not what is done, and nobody else does."""
    restarted = Owner(instance=OTHER.instance, worker="restarted")
    assert rules.takeable(at(body(OTHER)), TERMS, restarted)
    assert not rules.takeable(at(body(OTHER)), TERMS, OTHER)
    assert not rules.takeable(at(body(OTHER)), TERMS, ME)
    done = replace(DONE, owner=OTHER)
    assert not rules.takeable(at(done), TERMS, restarted)


@pytest.mark.parametrize(("resume", "since"), [(False, 3), (True, 1)])
def test_a_requeued_job_starts_afresh_or_keeps_its_records(resume: bool, since: int) -> None:
    """F25: takeable by anybody, in the next generation, and no attempt of it counts as barren yet."""
    done = replace(DONE, generation=2, since=1, barren=4)
    again = rules.requeued(done, resume=resume, nonce="again", wall=EPOCH)
    assert (again.state, again.completion, again.nonce, again.attempt) == (State.RELEASED, None, "again", done.attempt)
    assert (again.generation, again.since, again.barren) == (3, since, 0)
    assert rules.barren(again, measured=False) == 0


@pytest.mark.parametrize(
    ("state", "marked_by", "measured", "expected"),
    [
        (State.RUNNING, None, False, 3),
        (State.RUNNING, None, True, 0),
        (State.RELEASED, None, False, 3),
        (State.INTERRUPTED, None, False, 2),
        (State.INTERRUPTED, None, True, 0),
        (State.INTERRUPTED, "spot", False, 2),
        (State.INTERRUPTED, "terminated", False, 3),
    ],
)
def test_attempts_that_measure_nothing_are_counted(
    state: State, marked_by: str | None, measured: bool, expected: int
) -> None:
    """F17, S68: notices and hosts that EC2 took back say nothing about the job."""
    previous = replace(body(OTHER), barren=2)
    if state is State.INTERRUPTED and marked_by:
        previous = rules.marked(previous, marked_by, nonce="marked", wall=EPOCH)
        assert (previous.owner, previous.attempt, previous.state) == (OTHER, 1, state)
    else:
        previous = replace(previous, state=state)
    assert rules.barren(previous, measured) == expected
