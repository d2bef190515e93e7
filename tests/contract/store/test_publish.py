"""Queues published to, paused and requeued in two real S3s (F25)."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.fleet import lease, operations, queue
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Completion, Outcome, Owner, State, Terms
from longhaul.fleet.location import Location
from longhaul.fleet.queue import Documents, QueueError, RefusedError, publish
from longhaul.fleet.runtime import Runtime, real
from longhaul.fleet.stack import Stack
from tests.contract.store.faults import Faults

KEYS, OTHER = QueueKeys("q"), QueueKeys("other")
TERMS = Terms.of(60)


def documents(*jobs: dict[str, Any], run: str = "run-1") -> Documents:
    """A queue's."""
    files = {"config.toml": b"[run]\n", "jobs.json": json.dumps(jobs or [{"id": "a"}, {"id": "b"}]).encode()}
    named = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    files["manifest.json"] = json.dumps({"run": run, "versions": {}, "sha256": named}).encode()
    return Documents.of(files)


@pytest.fixture
def runtime() -> Runtime:
    """Real, but quick to try again."""
    return replace(real(), sleep=lambda seconds: threading.Event().wait(seconds / 20) and None)


@pytest.fixture
def stack(client: Any, location: str) -> Stack:
    """An empty one."""
    return Stack(client, Location(bucket="fleet", prefix=location))


def put(stack: Stack, keys: QueueKeys, runtime: Runtime, *, slots: int = 2) -> queue.QueueDocument:
    """Publish the usual documents."""
    return publish(stack, keys, documents(), runtime, api_slots=slots, worker_version="1.0")


def finish(stack: Stack, keys: QueueKeys, job: str, outcome: Outcome = Outcome.SUCCESS) -> None:
    """Let a worker take a job and complete it."""
    holding = Holding(keys.claim(job), Owner(instance="i", worker="w"), stack.store, real(), TERMS)
    assert holding.take(lease.seen(stack.store.get(keys.claim(job)))) is Verdict.STANDS
    assert holding.complete(Completion(outcome=outcome)) is Verdict.COMPLETED


def names(stack: Stack, keys: QueueKeys) -> set[str]:
    """What stands below a queue's prefix."""
    prefix = f"fleet/{keys.queue}/"
    return {one.key[len(prefix) :] for one in stack.store.list(prefix).objects}


def test_what_was_published_is_read(stack: Stack, runtime: Runtime) -> None:
    """F25: every document, each named by its hash; before that the queue is not published."""
    assert queue.read(stack.store, KEYS) is None
    document = put(stack, KEYS, runtime)
    found = queue.read(stack.store, KEYS)
    assert found is not None
    assert found.document == document
    assert (document.api_slots, document.run_id, document.worker_version) == (2, "run-1", "1.0")
    assert found.documents == documents()
    assert names(stack, KEYS) == {"reservation.json", "config.toml", "manifest.json", "jobs.json", "queue.json"}
    assert stack.queues() == ["q"]


def test_the_queue_document_comes_last(stack: Stack, runtime: Runtime, client: Any) -> None:
    """F25: and the reservation first, so that no worker ever sees a part of a queue."""
    order: list[str] = []

    def note(params: dict[str, Any], **named: Any) -> None:
        assert "IfNoneMatch" in params
        order.append(params["Key"].rpartition("/")[2])

    client.meta.events.register("before-parameter-build.s3.PutObject", note)
    try:
        put(stack, KEYS, runtime)
    finally:
        client.meta.events.unregister("before-parameter-build.s3.PutObject", note)
    assert order == ["reservation.json", "config.toml", "manifest.json", "jobs.json", "queue.json"]


def test_a_name_works_once(stack: Stack, runtime: Runtime) -> None:
    """F25: and nothing of the first queue is touched."""
    put(stack, KEYS, runtime)
    before = {one.key: one.etag for one in stack.store.list("fleet/").objects}
    with pytest.raises(RefusedError, match="published already"):
        put(stack, KEYS, runtime)
    assert {one.key: one.etag for one in stack.store.list("fleet/").objects} == before


def test_a_name_that_somebody_reserved(stack: Stack, runtime: Runtime) -> None:
    """F25: is theirs, and stays so."""
    body = b'{"nonce": "n", "by": "ada@host", "at": "2030-01-01T00:00:00Z"}'
    stack.store.put(KEYS.document("reservation.json"), body, replaces=None)
    with pytest.raises(RefusedError, match="reserved by ada@host since 2030-01-01 00:00:00 UTC"):
        put(stack, KEYS, runtime)
    found = stack.store.get(KEYS.document("reservation.json"))
    assert found is not None
    assert found.body == body
    assert names(stack, KEYS) == {"reservation.json"}


def test_a_reservation_is_forgotten(stack: Stack, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """L4: of a publisher that died; it blocks neither its name nor the stack for ever, and no live one is forgotten."""
    assert queue.FORGOTTEN.total_seconds() >= 2 * queue.PUBLISH_SECONDS
    stack.store.put(KEYS.document("reservation.json"), b"{}", replaces=None)
    with pytest.raises(RefusedError, match="being published by somebody"):
        put(stack, OTHER, runtime)
    assert names(stack, OTHER) == set(), "the name is free again"
    monkeypatch.setattr(queue, "FORGOTTEN", timedelta(0))
    put(stack, OTHER, runtime)
    for job in ("a", "b"):
        finish(stack, OTHER, job)
    put(stack, KEYS, runtime)


def test_s75_one_unfinished_queue_a_stack(stack: Stack, runtime: Runtime) -> None:
    """S75: a second one would double the slots; done is done whatever the outcome, and the index is not asked."""
    put(stack, KEYS, runtime)
    for job, left in (("a", "2 jobs"), ("b", "1 jobs")):
        with pytest.raises(RefusedError, match=f"queue q of this stack is unfinished, {left}"):
            put(stack, OTHER, runtime)
        assert names(stack, OTHER) == set()
        finish(stack, KEYS, job, Outcome.FAILED)
    put(stack, OTHER, runtime)
    assert sorted(stack.queues()) == ["other", "q"]
    for job in ("a", "b"):
        finish(stack, OTHER, job)
    operations.requeue(stack.store, OTHER, "b", runtime, resume=True)
    with pytest.raises(RefusedError, match="queue other of this stack is unfinished, 1 jobs, b say"):
        put(stack, QueueKeys("third"), runtime)


def test_s75_of_many_that_publish_at_once_one_wins_at_most(stack: Stack, runtime: Runtime) -> None:
    """S75: they reserve before they look, so no two miss each other."""
    barrier = threading.Barrier(4)

    def one(number: int) -> bool:
        barrier.wait(20)
        try:
            put(stack, QueueKeys(f"q{number}"), runtime)
        except RefusedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(one, range(4)))
    assert sum(won) <= 1
    published = [name for name in stack.queues() if queue.read(stack.store, QueueKeys(name)) is not None]
    assert len(published) == sum(won)


APPLIED = ["reset after it was carried out", "time-out after it was carried out", "500 after it was carried out"]


@pytest.mark.parametrize("fault", [*APPLIED, "lost", "503", "409"])
def test_s49_publishing_survives_answers_that_say_nothing(
    stack: Stack, runtime: Runtime, client: Any, inject: Callable[..., Faults], fault: str
) -> None:
    """S49: at each of its writes; what was carried out is not taken for somebody else's."""
    injected = inject()
    hit: set[str] = set()

    def before_each(params: dict[str, Any], **named: Any) -> None:
        if params["Key"] not in hit:
            hit.add(params["Key"])
            injected.faults = [fault]

    client.meta.events.register("before-parameter-build.s3.PutObject", before_each)
    try:
        document = put(stack, KEYS, runtime)
    finally:
        client.meta.events.unregister("before-parameter-build.s3.PutObject", before_each)
    found = queue.read(stack.store, KEYS)
    assert found is not None
    assert found.document == document


@pytest.mark.parametrize("name", ["config.toml", "jobs.json"])
def test_publishing_that_failed_frees_the_name(
    stack: Stack, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """F25: with other documents too; only its own reservation goes."""
    whole = stack.store.put

    def fails(key: str, body: bytes, *, replaces: str | None) -> str | None:
        if key.endswith(name):
            raise UnansweredError("503")
        return whole(key, body, replaces=replaces)

    with monkeypatch.context() as patch:
        patch.setattr(stack.store, "put", fails)
        with pytest.raises(UnansweredError):
            put(stack, KEYS, runtime)
    assert not {"reservation.json", "queue.json"} & names(stack, KEYS)
    other = documents({"id": "c"})
    publish(stack, KEYS, other, runtime, api_slots=1, worker_version="1.0")
    found = queue.read(stack.store, KEYS)
    assert found is not None
    assert found.documents == other


def test_whether_it_is_published_is_not_known(stack: Stack, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: the last write may still land: then the name must not be anybody's."""
    whole = stack.store.put

    def deaf(key: str, body: bytes, *, replaces: str | None) -> str | None:
        if key.endswith("queue.json"):
            raise UnansweredError("503")
        return whole(key, body, replaces=replaces)

    with monkeypatch.context() as patch:
        patch.setattr(stack.store, "put", deaf)
        with pytest.raises(UnansweredError) as caught:
            put(stack, KEYS, runtime)
    assert "fleet status q" in caught.value.__notes__[0]
    assert "reservation.json" in names(stack, KEYS)


def test_a_publisher_that_stood_still_gives_up(stack: Stack, runtime: Runtime) -> None:
    """S75: long before others may forget its reservation."""
    times = iter([0.0, 1801.0])
    with pytest.raises(RefusedError, match="given up"):
        put(stack, KEYS, replace(runtime, clock=lambda: next(times)))
    assert not {"reservation.json", "queue.json"} & names(stack, KEYS)


def test_removing_what_is_another_version(stack: Stack) -> None:
    """F25: what somebody else wrote meanwhile stays, as far as the store knows conditional deletes; S3 does."""
    etag = stack.store.put("fleet/q/paused.json", b"1", replaces=None)
    assert etag is not None
    asked: list[str] = []
    stack._client.meta.events.register(
        "before-parameter-build.s3.DeleteObject", lambda params, **named: asked.append(params["IfMatch"]), "asked"
    )
    stack.remove("fleet/q/nothing", etag)
    stack._client.meta.events.unregister("before-parameter-build.s3.DeleteObject", unique_id="asked")
    assert asked == [f'"{etag}"']
    stack.remove("fleet/q/paused.json", etag)
    assert stack.store.get("fleet/q/paused.json") is None
    stack.remove("fleet/q/paused.json", etag)


# ---- documents that are none -----------------------------------------------------------------------------------------
def _files(jobs: object = None, **changes: bytes) -> dict[str, bytes]:
    text = json.dumps([{"id": "a"}] if jobs is None else jobs).encode()
    files = {"config.toml": b"", "jobs.json": text}
    named = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    files["manifest.json"] = json.dumps({"run": "r", "versions": {}, "sha256": named}).encode()
    return files | changes


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (_files([]), "names no job"),
        (_files([{"id": "a"}, {"id": "b"}, {"id": "a"}]), "names job a twice"),
        (_files([{"id": "../a"}]), "cannot be part of a key"),
        (_files([{"id": "a", "api_weight": -1}]), "less than 0"),
        (_files([{"api_weight": 1}]), "missing required field `id`"),
        (_files([{"id": "a", "api_weight": "2"}]), "api_weight"),
        (_files({"id": "a"}), "jobs.json cannot be read"),
        (_files() | {"jobs.json": b"["}, "not the one that manifest.json names"),
        (_files() | {"config.toml": b"x"}, "not the one that manifest.json names"),
        (_files() | {"manifest.json": b"{}"}, "manifest.json cannot be read"),
    ],
)
def test_documents_are_checked(files: dict[str, bytes], said: str) -> None:
    """I9, L4: before anything is published, and before anything is run."""
    with pytest.raises(QueueError, match=said):
        Documents.of(files)


def test_s74_a_job_heavier_than_all_slots(stack: Stack, runtime: Runtime) -> None:
    """S74, F6: it would wait for ever."""
    heavy = documents({"id": "a", "api_weight": 3})
    with pytest.raises(QueueError, match="job a needs 3 API slots, the queue has 2"):
        publish(stack, KEYS, heavy, runtime, api_slots=2, worker_version="1.0")
    with pytest.raises(QueueError, match="at least one"):
        publish(stack, KEYS, documents(), runtime, api_slots=0, worker_version="1.0")
    assert not stack.queues()


@pytest.mark.parametrize("name", ["jobs.json", "manifest.json", "queue.json"])
def test_a_broken_queue_is_said_to_be(stack: Stack, runtime: Runtime, name: str) -> None:
    """L4, S56: which document, and that it is no queue to wait for."""
    put(stack, KEYS, runtime)
    found = stack.store.get(KEYS.document(name))
    assert found is not None
    assert stack.store.put(KEYS.document(name), b"{}", replaces=found.etag)
    with pytest.raises(QueueError, match=name):
        queue.read(stack.store, KEYS)
    broken = stack.store.get(KEYS.document(name))
    assert broken is not None
    stack.remove(KEYS.document(name), broken.etag)
    if name == "queue.json":
        assert queue.read(stack.store, KEYS) is None
    else:
        with pytest.raises(QueueError, match="lifecycle rule"):
            queue.read(stack.store, KEYS)


def test_documents_of_another_queue(stack: Stack, runtime: Runtime) -> None:
    """F10: whole and consistent, but not those that were published."""
    put(stack, KEYS, runtime)
    for name, body in documents({"id": "c"}).files.items():
        found = stack.store.get(KEYS.document(name))
        assert found is not None
        if found.body != body:
            assert stack.store.put(KEYS.document(name), body, replaces=found.etag)
    with pytest.raises(QueueError, match=r"manifest.json is not the one that queue.json names"):
        queue.read(stack.store, KEYS)


# ---- requeue, pause --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("resume", "since"), [(False, 1), (True, 0)])
def test_a_done_job_is_requeued(stack: Stack, runtime: Runtime, resume: bool, since: int) -> None:
    """F25, S70: takeable in the next generation; the former index names another version of the claim."""
    put(stack, KEYS, runtime)
    finish(stack, KEYS, "a")
    body = operations.requeue(stack.store, KEYS, "a", runtime, resume=resume)
    now = lease.seen(stack.store.get(KEYS.claim("a")))
    assert now is not None
    assert now.lease == body
    assert (body.state, body.generation, body.since, body.attempt) == (State.RELEASED, 1, since, 1)
    assert body.completion is None
    assert lease.takeable(now, TERMS)
    with pytest.raises(RefusedError, match="is released, attempt 1 of i"):
        operations.requeue(stack.store, KEYS, "a", runtime, resume=resume)
    finish(stack, KEYS, "a")
    assert operations.requeue(stack.store, KEYS, "a", runtime, resume=True).since == since


def test_only_a_done_job_is_requeued(stack: Stack, runtime: Runtime) -> None:
    """F25: what runs or waits is left alone."""
    with pytest.raises(RefusedError, match="no claim yet"):
        operations.requeue(stack.store, KEYS, "a", runtime, resume=False)
    holding = Holding(KEYS.claim("a"), Owner(instance="i-7", worker="w"), stack.store, real(), TERMS)
    assert holding.take(None) is Verdict.STANDS
    with pytest.raises(RefusedError, match="is running, attempt 1 of i-7"):
        operations.requeue(stack.store, KEYS, "a", runtime, resume=False)
    assert holding.renew() is Verdict.STANDS
    stack.store.put(KEYS.claim("b"), b"{}", replaces=None)
    with pytest.raises(RefusedError, match="another version"):
        operations.requeue(stack.store, KEYS, "b", runtime, resume=False)


@pytest.mark.parametrize("fault", [*APPLIED, "lost", "503", "409"])
def test_a_requeue_whose_answer_is_lost(
    stack: Stack, runtime: Runtime, inject: Callable[..., Faults], fault: str
) -> None:
    """S49: it stands, once."""
    finish(stack, KEYS, "a")
    inject(None, fault)
    assert operations.requeue(stack.store, KEYS, "a", runtime, resume=False).generation == 1
    now = lease.seen(stack.store.get(KEYS.claim("a")))
    assert now is not None
    assert now.lease is not None
    assert (now.lease.generation, now.lease.sequence) == (1, 2)


def test_of_many_requeues_one_generation(stack: Stack, runtime: Runtime) -> None:
    """I2: whoever asks at the same moment asks for the same."""
    finish(stack, KEYS, "a")
    barrier = threading.Barrier(8)

    def one(_: int) -> int | None:
        barrier.wait(20)
        try:
            return operations.requeue(stack.store, KEYS, "a", runtime, resume=False).generation
        except RefusedError:
            return None

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    assert set(answers) <= {1, None}
    now = lease.seen(stack.store.get(KEYS.claim("a")))
    assert now is not None
    assert now.lease is not None
    assert now.lease.generation == 1


def test_pause_and_resume(stack: Stack, runtime: Runtime) -> None:
    """F21, F25: as long as the document is there."""
    assert not operations.resume(stack, KEYS)
    assert operations.pause(stack.store, KEYS, runtime, reason="a look")
    assert not operations.pause(stack.store, KEYS, runtime)
    found = stack.store.get(KEYS.document("paused.json"))
    assert found is not None
    assert json.loads(found.body)["reason"] == "a look"
    assert operations.resume(stack, KEYS)
    assert stack.store.get(KEYS.document("paused.json")) is None
