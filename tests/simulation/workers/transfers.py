"""Whole attempts to and from the simulated S3: slow, stalled, refused, cut off (the worker's `Results`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from longhaul.benchmark.attempts import Named
from longhaul.benchmark.checkpoint import STORED
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.keys import Place, QueueKeys
from longhaul.fleet.lease import Record
from longhaul.fleet.results import TransferError
from tests.simulation.workers.instance import Instance

SECONDS = (0.3, 20.0, 90.0)  # that a file may take
TRIES = 4


class Transfers:
    """The `Results` of a worker. Its client tries longer than that of leases."""

    def __init__(self, instance: Instance, keys: QueueKeys) -> None:
        self._instance, self._keys = instance, keys
        self._server = instance.server

    def attempts(self, job: str, generations: range) -> Sequence[Place]:
        """See `Results.attempts`."""
        listed = self._list(self._keys.results(job))
        found = {self._keys.attempt_of(job, key) for key in listed}
        places = [Place(job=job, attempt=one) for one in found if one is not None and one.generation in generations]
        return sorted(places, key=lambda place: (place.attempt.generation, place.attempt.number))

    def download(self, place: Place) -> None:
        """See `Results.download`."""
        prefix = self._keys.attempt(place.job, place.attempt)
        listed = self._list(prefix)
        self._take_time()
        folder = {}
        for key in listed:
            found = self._ask("GET", key, partial(self._server.get, key))
            if found is not None:
                folder[key[len(prefix) :]] = found.body
        self._instance.disk[place] = folder

    def upload(self, place: Place, names: Sequence[str] | None = None) -> Sequence[Record]:
        """See `Results.upload`. Each write demands what the folder knows of S3 (S26)."""
        prefix = self._keys.attempt(place.job, place.attempt)
        folder = self._instance.folder(place)
        known = [msgspec.json.decode(line, type=Named) for line in folder.get(STORED, b"").splitlines()]
        there = {one.name: one.etag for one in known}
        wanted = names or sorted(name for name in folder if name != STORED)
        records = [self._send(prefix + name, folder[name], there.get(name)) for name in wanted]
        there |= {name: record.etag for name, record in zip(wanted, records, strict=True)}
        lines = (msgspec.json.encode(Named(name=name, etag=etag)) + b"\n" for name, etag in there.items())
        folder[STORED] = b"".join(lines)
        return records

    def measured(self, place: Place) -> bool:
        """See `Results.measured`."""
        own: set[str] = set()
        before: set[str] = set()
        for key in self._list(f"{self._keys.results(place.job)}g{place.attempt.generation}/"):
            attempt = self._keys.attempt_of(place.job, key)
            repetition, found, _ = key.rsplit("/", 1)[1].partition(".g")
            if attempt and found and ".rep-" in repetition and not key.endswith("-start.json"):
                (own if attempt == place.attempt else before).add(repetition)
        return not own <= before

    def _send(self, key: str, body: bytes, etag: str | None) -> Record:
        for _ in range(TRIES):
            if etag is not None and etag == self._server.etag_of(body):
                return Record(key=key, etag=etag)
            self._take_time()
            written = self._ask("PUT", key, partial(self._server.put, key, body, etag))
            if written is not None:
                return Record(key=key, etag=written)
            found = self._ask("GET", key, partial(self._server.get, key))
            etag = found.etag if found is not None else None
        raise TransferError(f"{key} was written by others again and again")

    def _list(self, prefix: str) -> dict[str, str]:
        listing = self._ask("LIST", prefix, partial(self._server.list, prefix))
        return {one.key: one.etag for one in listing.objects}

    def _take_time(self) -> None:
        instance = self._instance
        instance.world.sleep(SECONDS[instance.choices.pick(len(SECONDS), instance.oddity)])

    def _ask(self, verb: str, key: str, carry_out: Any) -> Any:
        try:
            return self._instance.request(verb, key, carry_out, TRIES)
        except UnansweredError as error:
            raise TransferError(str(error)) from error
