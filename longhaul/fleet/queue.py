"""The documents of a queue: read with every check that tells broken from unpublished, and published (F25)."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeVar

import msgspec

from longhaul.fleet import lease
from longhaul.fleet.errors import FleetError, UnansweredError
from longhaul.fleet.keys import IllegalNameError, QueueKeys
from longhaul.fleet.lease import State
from longhaul.fleet.objects import Found, Store
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.stack import Stack, ThereAlreadyError, side_by_side, write_once, write_over

QUEUE, RESERVATION, PAUSED = "queue.json", "reservation.json", "paused.json"
CONFIG, MANIFEST, JOBS = "config.toml", "manifest.json", "jobs.json"
FORGOTTEN = timedelta(minutes=10)  # a reservation that old, of a queue that is not published, blocks no other queue
PUBLISH_SECONDS = 300.0  # after which a publisher gives up, well before anybody could forget it
_T = TypeVar("_T")


class QueueError(FleetError):
    """The documents of a queue are not what they must be."""


class RefusedError(FleetError):
    """A queue cannot be published, or a job not be requeued, as things are."""


class QueueDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`queue.json`, written last: a queue without it is not published."""

    schema: Literal[1] = 1
    api_slots: int
    run_id: str
    published: datetime
    worker_version: str
    manifest_sha256: str  # and with it that of every other document


class JobDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `jobs.json`, as far as the fleet reads it."""

    id: str
    api_weight: int = 1  # API slots that it holds while it runs
    weight: float = 0.0  # how long it lasts beside the others


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json`, as far as the fleet reads it."""

    run: str
    sha256: dict[str, str]  # of the other documents


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """`reservation.json`: somebody publishes a queue of this name."""

    nonce: str
    by: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Documents:
    """A queue that is published, or is to be."""

    jobs: Sequence[JobDocument]
    manifest: Manifest
    files: Mapping[str, bytes]  # config.toml, manifest.json, jobs.json

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> Documents:
        """Read and check them; `QueueError` says which is wrong, and how."""
        manifest = _decoded(MANIFEST, files[MANIFEST], Manifest)
        for name in (CONFIG, JOBS):
            if manifest.sha256.get(name) != sha256(files[name]):
                raise QueueError(f"{name} is not the one that {MANIFEST} names: they were not made together")
        jobs = _decoded(JOBS, files[JOBS], tuple[JobDocument, ...])
        if not jobs:
            raise QueueError(f"{JOBS} names no job")
        for job in jobs:
            with _about(f"{JOBS}: "):
                QueueKeys("q").claim(job.id)
            if job.api_weight < 0:
                raise QueueError(f"{JOBS}: job {job.id} has API weight {job.api_weight}, less than 0")
        ids = [job.id for job in jobs]
        twice = next((one for one in ids if ids.count(one) > 1), None) if len(set(ids)) < len(ids) else None
        if twice:
            raise QueueError(f"{JOBS} names job {twice} twice")
        return cls(jobs=jobs, manifest=manifest, files=files)

    def check_slots(self, api_slots: int) -> None:
        """F6, S74: a job that is heavier than all slots would wait for ever."""
        if api_slots < 1:
            raise QueueError(f"a queue needs at least one API slot, not {api_slots}")
        heavy = next((job for job in self.jobs if job.api_weight > api_slots), None)
        if heavy:
            raise QueueError(f"job {heavy.id} needs {heavy.api_weight} API slots, the queue has {api_slots}")


@dataclass(frozen=True, kw_only=True)
class PublishedQueue:
    """A queue as it stands in S3."""

    document: QueueDocument
    documents: Documents


def sha256(body: bytes) -> str:
    """Return the hash by which documents name each other."""
    return hashlib.sha256(body).hexdigest()


def read(store: Store, keys: QueueKeys) -> PublishedQueue | None:
    """Read a queue; None if it is not published. `QueueError` if it is broken, an `UnansweredError` passes."""
    found = store.get(keys.document(QUEUE))
    if found is None:
        return None
    with _about(f"queue {keys.queue}: "):
        document = _decoded(QUEUE, found.body, QueueDocument)
        files = {}
        for name in (CONFIG, MANIFEST, JOBS):
            there = store.get(keys.document(name))
            if there is None:
                raise QueueError(f"{name} is missing, though {QUEUE} is there: a lifecycle rule may have removed it")
            files[name] = there.body
        if sha256(files[MANIFEST]) != document.manifest_sha256:
            raise QueueError(f"{MANIFEST} is not the one that {QUEUE} names")
        documents = Documents.of(files)
        documents.check_slots(document.api_slots)
    return PublishedQueue(document=document, documents=documents)


def unfinished(store: Store, keys: QueueKeys, queue: PublishedQueue) -> Sequence[str]:
    """Jobs that are not done, by their claims; an `UnansweredError` passes."""

    def done(job: JobDocument) -> bool:
        now = lease.seen(store.get(keys.claim(job.id)))
        return now is not None and now.lease is not None and now.lease.state is State.DONE

    claimed = {one.key for one in store.list(keys.claims).objects}
    without = [job.id for job in queue.documents.jobs if keys.claim(job.id) not in claimed]
    if without:
        return without
    answers = side_by_side(done, queue.documents.jobs)
    return [job.id for job, is_done in zip(queue.documents.jobs, answers, strict=True) if not is_done]


# ---- publishing ------------------------------------------------------------------------------------------------------
def publish(
    stack: Stack, keys: QueueKeys, documents: Documents, runtime: Runtime, *, api_slots: int, worker_version: str
) -> QueueDocument:
    """Publish a queue: reserve its name, look for another unfinished queue, write, and `queue.json` last.

    Of two that publish at once in a stack at least one sees the other, because both reserve before they look (S75).
    `RefusedError` says why it cannot be; then the name is free again, unless the reservation was somebody else's.
    """
    documents.check_slots(api_slots)
    check_free(stack, keys)
    began = runtime.clock()
    reservation, etag = _reserve(stack, keys, runtime)
    document = QueueDocument(
        api_slots=api_slots,
        run_id=documents.manifest.run,
        published=reservation.at,
        worker_version=worker_version,
        manifest_sha256=sha256(documents.files[MANIFEST]),
    )
    try:
        check_alone(stack, keys)
        for name in (CONFIG, MANIFEST, JOBS):
            write_over(stack.store, keys.document(name), documents.files[name], runtime)
        if runtime.clock() - began > PUBLISH_SECONDS:
            raise RefusedError(f"publishing took more than {PUBLISH_SECONDS / 60:.0f} min and was given up: try again")
    except BaseException:
        with contextlib.suppress(UnansweredError):  # it is forgotten in ten minutes
            stack.remove(keys.document(RESERVATION), etag)
        raise
    try:
        write_once(stack.store, keys.document(QUEUE), msgspec.json.encode(document), runtime)
    except UnansweredError as error:  # it may still land: the name stays reserved
        error.add_note(f"whether {keys.queue} is published is not known; ask `longhaul fleet status {keys.queue}`")
        raise
    except ThereAlreadyError as error:
        raise RefusedError(f"queue {keys.queue} was published by somebody else meanwhile") from error
    return document


def check_free(stack: Stack, keys: QueueKeys) -> None:
    """`RefusedError` if a queue of this name is published."""
    if stack.store.get(keys.document(QUEUE)) is not None:
        raise RefusedError(f"queue {keys.queue} is published already; choose another name")


def check_alone(stack: Stack, keys: QueueKeys) -> None:
    """`RefusedError` if another queue of the stack is unfinished, or is being published (S75)."""
    for name in stack.queues():
        if name == keys.queue:
            continue
        other = QueueKeys(name)
        queue = read(stack.store, other)
        if queue is not None:
            left = unfinished(stack.store, other, queue)
            if left:
                raise RefusedError(
                    f"queue {name} of this stack is unfinished, {len(left)} jobs, {left[0]} say: its workers share the"
                    " API slots. Wait for it, or use another stack"
                )
            continue
        found = stack.store.get(other.document(RESERVATION))
        if found is not None and not _forgotten(found):
            raise RefusedError(
                f"queue {name} of this stack is being published by {_holder(found.body)}; if that failed, its"
                f" reservation is forgotten {FORGOTTEN.total_seconds() / 60:.0f} min after it was made"
            )


def _reserve(stack: Stack, keys: QueueKeys, runtime: Runtime) -> tuple[Reservation, str]:
    reservation = Reservation(nonce=runtime.token(), by=_me(), at=runtime.wall())
    key, body = keys.document(RESERVATION), msgspec.json.encode(reservation)
    there = stack.store.get(key)
    try:
        if there is not None and _forgotten(there):
            return reservation, write_once(stack.store, key, body, runtime, replaces=there.etag)
        return reservation, write_once(stack.store, key, body, runtime)
    except ThereAlreadyError as error:
        raise RefusedError(
            f"the name {keys.queue} is reserved by {_holder(error.found.body)}; if that failed,"
            f" try again {FORGOTTEN.total_seconds() / 60:.0f} min after it began"
        ) from error


def _forgotten(reservation: Found) -> bool:
    """By the server's clock; whoever made it has given up long since."""
    return reservation.modified + FORGOTTEN <= reservation.date


def _holder(body: bytes) -> str:
    try:
        made = msgspec.json.decode(body, type=Reservation)
    except msgspec.DecodeError:
        return "somebody"
    return f"{made.by} since {made.at:%Y-%m-%d %H:%M:%S} UTC"


def _me() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name
        user = "?"
    return f"{user}@{socket.gethostname()}"


def _decoded(name: str, body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise QueueError(f"{name} cannot be read: {error}") from error


@contextlib.contextmanager
def _about(what: str) -> Iterator[None]:
    """Say of which document an error is."""
    try:
        yield
    except (QueueError, IllegalNameError) as error:
        raise QueueError(f"{what}{error}") from error
