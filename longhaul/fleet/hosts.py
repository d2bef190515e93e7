"""Records of hosts: what a worker says of itself and what it runs on, kept in the queue for people (F9)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.machine import Identity
from longhaul.fleet.objects import Found, Store
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.surroundings import Doing, HostRecord

WAIT_SECONDS = 20.0  # for a record that is being written by another thread
TRIES = 3  # of a write that another worker of the same host came before; the store owns those after errors


class StoredQuarantine(msgspec.Struct, frozen=True, kw_only=True):
    """Queries that may still run."""

    queries: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()


class StoredHost(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `hosts/<instance id>.json`. When the host was last seen its LastModified says."""

    schema: Literal[1] = 1
    instance: str
    lifecycle: str
    instance_type: str
    zone: str
    worker_version: str
    directory: str  # of the worker, on the host
    worker: str
    doing: Doing
    since: datetime  # it does that; by the host's wall clock, as the next two, so that they can be compared
    written: datetime
    started: datetime  # the worker
    job: str | None = None
    quarantine: StoredQuarantine | None = None
    why: str | None = None  # it ended


class HostRecords:
    """The `Hosts` of a queue, for one host. Threads may share it: one record after the other is written."""

    def __init__(
        self,
        store: Store,
        keys: QueueKeys,
        identity: Identity,
        runtime: Runtime,
        *,
        worker_version: str,
        directory: str,
    ) -> None:
        self._store, self._identity, self._runtime = store, identity, runtime
        self._key = keys.host(identity.instance)
        self._worker_version, self._directory = worker_version, directory
        self._there: Found | None = None  # as last seen
        self._known = False  # whether that is known
        self._lock = runtime.lock()

    def write(self, record: HostRecord) -> None:
        """See `Hosts.write`. A write that nobody answered is made again with the next record."""
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise UnansweredError(f"{self._key}: an earlier record is still being written")
        try:
            self._write(record)
        finally:
            self._lock.release()

    def _write(self, record: HostRecord) -> None:
        for _ in range(TRIES):
            if not self._known:
                self._there, self._known = self._store.get(self._key), True
            body = msgspec.json.encode(self._stored(record, stored(self._there)))
            self._known = False  # until it is seen what became of this write
            if self._store.put(self._key, body, replaces=self._there.etag if self._there else None) is not None:
                return
        raise UnansweredError(f"{self._key} is written by others again and again")

    def _stored(self, record: HostRecord, before: StoredHost | None) -> StoredHost:
        quarantine, now = record.quarantine, self._runtime.wall()
        goes_on = before is not None and before.doing is record.doing  # also across a worker's restart
        return StoredHost(
            instance=self._identity.instance,
            lifecycle=self._identity.lifecycle,
            instance_type=self._identity.instance_type,
            zone=self._identity.zone,
            worker_version=self._worker_version,
            directory=self._directory,
            worker=record.worker,
            doing=record.doing,
            since=before.since if before is not None and goes_on else now,
            written=now,
            started=record.started,
            job=record.job,
            quarantine=StoredQuarantine(queries=quarantine.queries, prefixes=quarantine.prefixes)
            if quarantine
            else None,
            why=record.why,
        )


def stored(found: Found | None) -> StoredHost | None:
    """Read a record; None if it is none, or of another version."""
    if found is None:
        return None
    try:
        return msgspec.json.decode(found.body, type=StoredHost)
    except msgspec.DecodeError:
        return None
