"""When a host may go (F16): a rule over scans, without a clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from msgspec.structs import replace

from longhaul.fleet.lease import Completion, Lease, Outcome, Owner, Seen, State
from longhaul.fleet.listing import Scan
from longhaul.fleet.retirement import Decision, Sighting, decide, sighted
from longhaul.fleet.taking import Job
from tests.unit.fleet.memory import EPOCH, ME, OTHER, body

A, B = Job(id="a", api_weight=1), Job(id="b", api_weight=1)
DONE = replace(body(OTHER), state=State.DONE, completion=Completion(outcome=Outcome.SUCCESS))
THIRD = Owner(instance="i-3", worker="third")


def scan(
    claims: Mapping[str, tuple[Lease | None, str]], *, at: float = 0, age: float = 10, unknown: tuple[str, ...] = ()
) -> Scan:
    """A look at that time; claims with their ETags, written so many seconds before."""
    date = EPOCH + timedelta(seconds=at)
    written = date - timedelta(seconds=age)
    finished = frozenset(job for job, (lease, _) in claims.items() if lease is not None and lease.state is State.DONE)
    return Scan(
        claims={
            job: Seen(lease=lease, etag=etag, modified=written, date=date)
            for job, (lease, etag) in claims.items()
            if job not in finished
        },
        finished=finished,
        unknown=frozenset(unknown),
        indexed=frozenset(),
        asked=at,
        date=date,
    )


def after(*scans: Scan) -> Mapping[str, Sighting]:
    """What is known after these."""
    seen: Mapping[str, Sighting] = {}
    for one in scans:
        seen = sighted(seen, one)
    return seen


def judge(*scans: Scan, jobs: tuple[Job, ...] = (A,), slots: int = 2, later: float = 0) -> Decision:
    """The decision after these, so many seconds after the last one began."""
    last = scans[-1]
    return decide(after(*scans), last, jobs, api_slots=slots, instance=ME.instance, now=last.asked + later)


RUNS = body(OTHER)


def test_when_all_is_done_the_host_goes() -> None:
    """L5, at the first look."""
    assert judge(scan({"a": (DONE, "1")})) is Decision.ALL_DONE
    assert judge(scan({"a": (DONE, "1")}), jobs=(A, B)) is Decision.STAY
    assert judge(scan({"a": (DONE, "1")}, unknown=("a",))) is Decision.STAY, "it may have been requeued"


def test_s21_a_claim_seen_once_is_no_sign_of_life() -> None:
    """S21, S29: however fresh; a dead host's claim looks the same until it expires."""
    assert judge(scan({"a": (RUNS, "1")})) is Decision.STAY
    assert judge(*[scan({"a": (RUNS, "1")}, at=at) for at in (0, 30, 60, 90)]) is Decision.STAY


def test_s29_two_versions_seen_while_idle_are() -> None:
    """S29, S36, F16."""
    assert judge(scan({"a": (RUNS, "1")}), scan({"a": (RUNS, "2")}, at=60)) is Decision.ALL_RUN


def test_s36_the_second_version_has_to_be_fresh_when_it_is_decided() -> None:
    """S36, S39: the owner renewed once more, and died; nobody decides on what expires meanwhile."""
    seen = (scan({"a": (RUNS, "1")}), scan({"a": (RUNS, "2")}, at=60, age=280))
    assert judge(*seen) is Decision.ALL_RUN
    assert judge(*seen, later=18) is Decision.ALL_RUN
    assert judge(*seen, later=20) is Decision.STAY
    assert judge(seen[0], scan({"a": (RUNS, "2")}, at=60, age=301)) is Decision.STAY


@pytest.mark.parametrize(
    "second",
    [body(THIRD), body(OTHER, attempt=2), body(OTHER, State.RELEASED), body(OTHER, State.INTERRUPTED), None],
)
def test_two_attempts_are_no_sign_of_life_of_either(second: Lease | None) -> None:
    """F16: the same owner, the same attempt, running."""
    assert judge(scan({"a": (RUNS, "1")}), scan({"a": (second, "2")}, at=60)) is Decision.STAY


def test_a_claim_that_was_given_back_meanwhile_starts_anew() -> None:
    """S62: a late renewal of a former owner is one version, not the second."""
    looks = [scan({"a": (RUNS, "1")}), scan({"a": (body(OTHER, State.RELEASED), "2")}, at=30)]
    assert judge(*looks, scan({"a": (RUNS, "3")}, at=60)) is Decision.STAY
    assert judge(scan({"a": (RUNS, "1")}), scan({}, at=30), scan({"a": (RUNS, "2")}, at=60)) is Decision.STAY


@pytest.mark.parametrize("owner", [ME, Owner(instance=ME.instance, worker="before")])
def test_s62_a_worker_never_proves_its_own_host_alive(owner: Owner) -> None:
    """S62: it gave the job up, and its own renewal landed late."""
    assert judge(scan({"a": (body(owner), "1")}), scan({"a": (body(owner), "2")}, at=60)) is Decision.STAY


def test_every_open_job_has_to_be_seen_to_run() -> None:
    """I10."""
    seen = scan({"a": (RUNS, "1")}), scan({"a": (RUNS, "2")}, at=60)
    assert judge(*seen, jobs=(A, B)) is Decision.STAY
    assert judge(seen[0], scan({"a": (RUNS, "2"), "b": (DONE, "1")}, at=60), jobs=(A, B)) is Decision.ALL_RUN
    assert judge(seen[0], scan({"a": (RUNS, "2")}, at=60, unknown=("a",))) is Decision.STAY


def test_s73_a_host_for_which_there_are_no_slots_goes() -> None:
    """S73: what is open weighs more than the running jobs leave; else it stays."""
    heavy, light = Job(id="h", api_weight=2), Job(id="l", api_weight=1)
    seen = scan({"a": (RUNS, "1")}), scan({"a": (RUNS, "2")}, at=60)
    assert judge(*seen, jobs=(A, heavy)) is Decision.NO_SLOTS
    assert judge(*seen, jobs=(A, heavy), slots=3) is Decision.STAY
    assert judge(*seen, jobs=(A, heavy, light)) is Decision.STAY
    assert judge(*seen, jobs=(A, Job(id="free", api_weight=0)), slots=1) is Decision.STAY
    assert judge(seen[0], jobs=(A, heavy)) is Decision.STAY, "that a runs is not known yet"
    assert judge(scan({}), jobs=(Job(id="x", api_weight=9),)) is Decision.STAY, "nobody is seen to live"
