"""What a worker has around it on a real host: its queue's documents on disk, and a memory that outlives it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from longhaul.fleet import queue
from longhaul.fleet.directory import Directory
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.location import Location
from longhaul.fleet.objects import Store
from longhaul.fleet.queue import QueueError
from longhaul.fleet.surroundings import Published, Quarantine
from longhaul.fleet.taking import Job
from longhaul.fleet.transfer import Transfer
from longhaul.fleet.work import Work

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


PROBE_BYTES = 1_000_000  # more than the records and logs of most attempts


@dataclass(frozen=True, kw_only=True)
class QueueOnHost:
    """The `Queue` of a worker: read from S3, its documents laid into the directory."""

    store: Store
    keys: QueueKeys
    directory: Directory
    location: Location
    transfers: S3Client
    work: Work
    worker_version: str  # of this worker

    def published(self) -> Published | None:
        """See `Queue.published`. A queue for another version of the worker is a `QueueError` (F10)."""
        found = queue.read(self.store, self.keys)
        if found is None:
            return None
        wanted = found.document.worker_version
        if wanted != self.worker_version:
            raise QueueError(f"queue {self.keys.queue} is for workers {wanted}, this one is {self.worker_version}")
        self.directory.queue.mkdir(parents=True, exist_ok=True)
        for name, body in found.documents.files.items():
            write(self.directory.queue / name, body)
        return Published(
            jobs=tuple(Job(id=job.id, api_weight=job.api_weight) for job in found.documents.jobs),
            api_slots=found.document.api_slots,
            work=self.work,
            results=Transfer(
                client=self.transfers,
                location=self.location,
                keys=self.keys,
                directory=self.directory,
                manifest_sha256=found.document.manifest_sha256,
                worker_version=wanted,
            ),
        )

    def paused(self) -> bool:
        """See `Queue.paused`."""
        return self.store.get(self.keys.document(queue.PAUSED)) is not None


@dataclass(frozen=True)
class DiskJournal:
    """The `Journal` of a worker, in its directory."""

    directory: Directory

    def quarantine(self) -> Quarantine | None:
        """See `Journal.quarantine`. One that cannot be read is an OSError: it may hold anything."""
        path = self.directory.quarantine
        try:
            return msgspec.json.decode(path.read_bytes(), type=Quarantine)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise OSError(f"{path} cannot be read: {error}") from error

    def write(self, quarantine: Quarantine | None) -> None:
        """See `Journal.write`."""
        path = self.directory.quarantine
        if quarantine is None:
            path.unlink(missing_ok=True)
            _sync(path.parent)
        else:
            write(path, msgspec.json.encode(quarantine))

    def check(self) -> None:
        """See `Journal.check`."""
        path = self.directory.probe
        try:
            write(path, bytes(PROBE_BYTES))
        finally:
            for left in (path, _new(path)):
                left.unlink(missing_ok=True)

    def clear_rehearsal(self) -> None:
        """See `Journal.clear_rehearsal`."""
        self.directory.rehearsal.unlink(missing_ok=True)


def write(path: Path, body: bytes) -> None:
    """Write a file that is whole or as it was, whenever the host loses its power, and is there afterwards."""
    new = _new(path)
    with new.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    _sync(path.parent)


def _new(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
