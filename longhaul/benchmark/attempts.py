"""The attempts of a job as a report reads them: from S3, or from folders of this host (F20)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from longhaul.benchmark.checkpoint import ENVIRONMENT, Trials
from longhaul.benchmark.errors import ReportError
from longhaul.benchmark.merge import Host
from longhaul.fleet.keys import Attempt

_NAME = re.compile(r"g(\d+)/attempt-(\d+)/(checkpoint/[^/]+\.json|environment\.json)")
MERGED = "merged.json"


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """An object below a job's results."""

    name: str  # g<generation>/attempt-<n>/…
    etag: str  # without quotes


class Source(Protocol):
    """A job's results. Methods raise `StoreError`."""

    def list(self) -> Sequence[Named]:
        """Every object."""

    def get(self, name: str) -> tuple[bytes, str]:
        """Body and ETag, both of one answer."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a summary is made of."""

    trials: Trials
    hosts: dict[tuple[int, int], Host]  # by generation and attempt
    records: tuple[Named, ...]  # what was read, in exactly these versions (I3)
    late: tuple[str, ...] = ()


class FolderSource:
    """A job's folder on this host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list(self) -> Sequence[Named]:
        """See `Source.list`."""
        return [
            Named(name=path.relative_to(self._folder).as_posix(), etag=etag_of(path.read_bytes()))
            for path in sorted(self._folder.glob("g*/attempt-*/**/*.json"))
            if not path.name.startswith(".")
        ]

    def get(self, name: str) -> tuple[bytes, str]:
        """See `Source.get`."""
        body = (self._folder / name).read_bytes()
        return body, etag_of(body)


class FirstAttempt:
    """The results of a job that nobody had before: all that S3 said that it stored, by its upload's account."""

    def __init__(self, source: Source, attempt: Attempt, stored: bytes) -> None:
        self._source = source
        self._prefix = f"g{attempt.generation}/attempt-{attempt.number}/"
        self._stored = [msgspec.json.decode(line, type=Named) for line in stored.splitlines()]

    def list(self) -> Sequence[Named]:
        """See `Source.list`."""
        return [Named(name=self._prefix + one.name, etag=one.etag) for one in self._stored]

    def get(self, name: str) -> tuple[bytes, str]:
        """See `Source.get`."""
        return self._source.get(name)


def read(
    source: Source,
    *,
    generations: range,
    until: Attempt | None = None,
    counted: frozenset[str] | None = None,
    here: Path | None = None,
) -> Read:
    """Read the records of the attempts in these generations, up to the attempt `until`.

    With `counted`, the names that a completion names, all others are late: listed, and never counted (S71). What lies
    in the folder `here` with the same content is not fetched again.
    """
    objects: dict[str, bytes] = {}
    records, late = [], []
    hosts: dict[tuple[int, int], Host] = {}
    for one in sorted(source.list(), key=lambda one: one.name):
        attempt = attempt_of(one.name)
        if attempt is None or attempt.generation not in generations:
            continue
        if counted is not None and one.name not in counted:
            late.append(one.name)
            continue
        if until is not None and (attempt.generation, attempt.number) > (until.generation, until.number):
            continue
        body, etag = _body(source, one, here)
        records.append(Named(name=one.name, etag=etag))
        if one.name.endswith(f"/{ENVIRONMENT}"):
            hosts[attempt.generation, attempt.number] = _host(one.name, body)
        else:
            objects[one.name] = body
            hosts.setdefault((attempt.generation, attempt.number), Host())
    return Read(trials=Trials.read(objects.items()), hosts=hosts, records=tuple(records), late=tuple(late))


def attempt_of(name: str) -> Attempt | None:
    """Which attempt an object is a record of; None of what is merged into no summary."""
    found = _NAME.fullmatch(name)
    return Attempt(generation=int(found[1]), number=int(found[2])) if found else None


def name_in(key: str) -> str:
    """From a key below a stack's location to a name below a job's results."""
    found = re.search(r"(?:^|/)(g\d+/attempt-\d+/.+)$", key)
    return found[1] if found else key


def latest(names: Iterable[str]) -> Attempt | None:
    """The last attempt that left any record."""
    found = [attempt for attempt in map(attempt_of, names) if attempt]
    return max(found, key=lambda attempt: (attempt.generation, attempt.number), default=None)


def etag_of(body: bytes) -> str:
    """The ETag that S3 gives an object that it encrypts with no customer key."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def _body(source: Source, one: Named, here: Path | None) -> tuple[bytes, str]:
    if here is not None and (here / one.name).is_file():
        body = (here / one.name).read_bytes()
        if etag_of(body) == one.etag:
            return body, one.etag
    return source.get(one.name)


def _host(name: str, body: bytes) -> Host:
    try:
        environment: Mapping[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ReportError(f"{name} is no environment of an attempt: {error}") from error
    return Host(**{field: str(environment.get(field) or "") for field in ("host", "instance_type", "zone")})
