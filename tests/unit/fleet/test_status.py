"""What an operator is shown of a queue (F25)."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import msgspec
import pytest

from longhaul.fleet import keys as names
from longhaul.fleet.hosts import StoredHost
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Completion, Lease, Outcome, Owner, Seen, State, requeued
from longhaul.fleet.queue import Documents, JobDocument, Manifest, PublishedQueue, QueueDocument
from longhaul.fleet.status import JobState, Observer, QueueStatus, job_status, state_of
from longhaul.fleet.surroundings import Doing
from tests.unit.fleet.memory import EPOCH, ME, Clock, MemoryStore, body, put_lease

KEYS = QueueKeys("q")
JOBS = tuple(JobDocument(id=name, api_weight=1) for name in "abcdef")


def done(outcome: Outcome, **said: object) -> Lease:
    """A claim that is done."""
    return msgspec.structs.replace(
        body(ME),
        state=State.DONE,
        completion=Completion(outcome=outcome, **said),  # type: ignore[arg-type]
    )


def seen(lease: Lease | None, age: float = 0) -> Seen:
    """Written so long ago."""
    return Seen(lease=lease, etag="e", modified=EPOCH, date=EPOCH + timedelta(seconds=age))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (None, JobState.PENDING),
        (seen(None), JobState.UNKNOWN),
        (seen(body(state=State.RUNNING, seconds=300), 309), JobState.RUNNING),
        (seen(body(state=State.RUNNING, seconds=300), 310), JobState.EXPIRED),
        (seen(body(state=State.RELEASED), 10_000), JobState.PENDING),
        (seen(body(state=State.INTERRUPTED), 10_000), JobState.PENDING),
        (seen(done(Outcome.SUCCESS), 10_000), JobState.DONE),
        (seen(done(Outcome.SUCCESS, errors=("q1 unconfirmed",))), JobState.FAILED),
        (seen(done(Outcome.SUCCESS, report_error="x")), JobState.FAILED),
        (seen(done(Outcome.FAILED)), JobState.FAILED),
        (seen(done(Outcome.REPORT_ERROR)), JobState.FAILED),
        (seen(done(Outcome.ABANDONED)), JobState.FAILED),
        (seen(done(Outcome.CANCELLED)), JobState.CANCELLED),
    ],
)
def test_states(now: Seen | None, expected: JobState) -> None:
    """F25: expiry by the server's clock; errors and a report that failed count as failed."""
    assert state_of(now) is expected


def test_how_it_ended() -> None:
    """In a line that names all there is to know."""
    job = JobDocument(id="a")
    failed = done(Outcome.FAILED, errors=("q1 may run",), lost_slots=("slot 1 from x",), report_error="no summary")
    assert job_status(job, seen(failed)).detail == "failed; no summary; q1 may run; 1 slots lost on the way"
    marked = msgspec.structs.replace(body(ME, State.INTERRUPTED, attempt=4), marked_by="spot")
    status = job_status(job, seen(marked))
    assert status.detail == "interrupted, marked by spot"
    assert status.attempt == "g0/attempt-4"
    assert job_status(job, seen(body(ME, State.RELEASED))).detail == "released"
    again = requeued(done(Outcome.SUCCESS), resume=False, nonce="n", wall=EPOCH)
    assert job_status(job, seen(again)).attempt == "g1", "no attempt of this generation has begun"
    assert job_status(job, seen(body(ME))).detail == ""
    assert (job_status(job, None).attempt, job_status(job, None).detail) == ("-", "")
    assert "damaged" in job_status(job, seen(None)).detail


# ---- looking ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def observer(store: MemoryStore) -> Observer:
    """Of a queue with six jobs and three slots."""
    document = QueueDocument(
        api_slots=3,
        run_id="r",
        published=EPOCH,
        worker_version="1",
        manifest_sha256=hashlib.sha256(b"").hexdigest(),
    )
    documents = Documents(jobs=JOBS, manifest=Manifest(run="r", sha256={}), files={})
    return Observer(store=store, keys=KEYS, queue=PublishedQueue(document=document, documents=documents))


def _host(instance: str, worker: str = "w") -> bytes:
    return msgspec.json.encode(
        StoredHost(
            instance=instance,
            lifecycle="spot",
            instance_type="t",
            zone="z",
            worker_version="1",
            directory="/d",
            worker=worker,
            doing=Doing.IDLE,
            since=EPOCH,
            written=EPOCH,
            started=EPOCH,
        )
    )


def _states(status: QueueStatus) -> dict[str, JobState]:
    return {job.id: job.state for job in status.jobs}


def test_a_look(store: MemoryStore, clock: Clock, observer: Observer) -> None:
    """F25: jobs in their order, slots that were never taken, hosts that still write."""
    put_lease(store, KEYS.claim("a"), body(ME))
    put_lease(store, KEYS.claim("b"), done(Outcome.SUCCESS))
    put_lease(store, KEYS.claim("c"), done(Outcome.ABANDONED))
    put_lease(store, names.slot(1), body(ME))
    store.store(KEYS.host("i-1"), _host("i-1"))
    store.store(KEYS.host("i-9"), b"{}")
    clock.now += 600
    store.store(KEYS.host("i-2"), _host("i-2"))
    clock.now += 301
    status = observer.look()
    assert _states(status) == {
        "a": JobState.EXPIRED,
        "b": JobState.DONE,
        "c": JobState.FAILED,
        **dict.fromkeys("def", JobState.PENDING),
    }
    assert [slot.state for slot in status.slots] == [JobState.PENDING, JobState.EXPIRED, JobState.PENDING]
    assert [(one.host.instance, one.alive) for one in status.hosts] == [("i-1", False), ("i-2", True)]
    assert status.counts == {JobState.PENDING: 3, JobState.EXPIRED: 1, JobState.DONE: 1, JobState.FAILED: 1}
    assert (status.finished, status.failed, status.paused) == (False, True, False)
    store.store(KEYS.document("paused.json"), b"{}")
    assert observer.look().paused


def test_a_host_that_renews_is_alive(store: MemoryStore, clock: Clock, observer: Observer) -> None:
    """F9: however long ago its record was written; what its worker released does not count, others may mark that."""
    for instance in ("i-1", "i-2"):
        store.store(KEYS.host(instance), _host(instance, worker=f"of {instance}"))
    clock.now += 3600
    for job, instance, state in (("a", "i-1", State.RUNNING), ("b", "i-2", State.RELEASED)):
        put_lease(store, KEYS.claim(job), body(Owner(instance=instance, worker=f"of {instance}"), state))
    clock.now += 20
    looked = observer.look()
    assert [(one.alive, looked.at - one.seen) for one in looked.hosts] == [
        (True, timedelta(seconds=20)),
        (False, timedelta(seconds=3620)),
    ]


def test_what_did_not_change_is_not_fetched_again(store: MemoryStore, clock: Clock, observer: Observer) -> None:
    """F8: and a claim that nobody renews still expires."""
    for name in "abcdef":
        put_lease(store, KEYS.claim(name), body(ME))
    assert set(_states(observer.look()).values()) == {JobState.RUNNING}
    store.requests.clear()
    put_lease(store, KEYS.claim("a"), done(Outcome.SUCCESS))
    clock.now += 400
    states = _states(observer.look())
    assert states["a"] is JobState.DONE
    assert states["b"] is JobState.EXPIRED
    assert [request for request in store.requests if request.startswith("GET")] == ["GET fleet/q/claims/a"]


def test_a_queue_that_is_finished(store: MemoryStore, observer: Observer) -> None:
    """F25: whatever the outcomes."""
    for name in "abcdef":
        put_lease(store, KEYS.claim(name), done(Outcome.SUCCESS))
    status = observer.look()
    assert (status.finished, status.failed) == (True, False)
    put_lease(store, KEYS.claim("f"), done(Outcome.CANCELLED))
    status = observer.look()
    assert (status.finished, status.failed) == (True, True)
