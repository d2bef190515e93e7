"""Attempts between a host's folders and S3, over a client of their own (F8, F10, F15)."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import boto3
import msgspec
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from longhaul.fleet.directory import Directory
from longhaul.fleet.keys import Place, QueueKeys
from longhaul.fleet.lease import Record
from longhaul.fleet.location import Location
from longhaul.fleet.processes import CHECKPOINT
from longhaul.fleet.results import AlienAttemptError, TransferError
from longhaul.fleet.stack import side_by_side

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

logger = logging.getLogger(__name__)

# the record of a repetition; its name ends with the attempt's, and how often it was repeated within it
_REPETITION = re.compile(rf"/{CHECKPOINT}/([^/]+\.rep-\d+)(?:\.g\d+-a\d+(?:-\d+)?)?\.json$")

ENVIRONMENT = "environment.json"
STORED = ".stored.jsonl"  # of an attempt's folder: what S3 has of it, by the run and by uploads
CONCURRENT = 8  # files at once
TRIES = 4  # of an upload whose place was written meanwhile; botocore owns the tries after errors
_MOVED = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404"}

CONFIG = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 4},
    max_pool_connections=2 * CONCURRENT,
)


def transfer_client() -> S3Client:
    """A client for whole files: patient, and with connections that no lease needs (F8)."""
    return boto3.client("s3", config=CONFIG)


class _Environment(msgspec.Struct, frozen=True):
    """What decides whether an attempt can be resumed."""

    manifest_sha256: str
    worker_version: str


class _Stored(msgspec.Struct, frozen=True):
    """A file of an attempt that S3 has."""

    name: str
    etag: str


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """The `Results` of one queue, between S3 and a worker's directory. Threads may share it."""

    client: S3Client
    location: Location
    keys: QueueKeys
    directory: Directory
    manifest_sha256: str  # of the queue
    worker_version: str  # of the queue

    def attempts(self, job: str, generations: range) -> Sequence[Place]:
        """See `Results.attempts`: one listing for each generation, without what lies below an attempt."""
        found = []
        for generation in generations:
            prefix = f"{self.keys.results(job)}g{generation}/"
            for page in self._pages(prefix, Delimiter="/"):
                for one in page.get("CommonPrefixes", []):
                    attempt = self.keys.attempt_of(job, one["Prefix"][len(self.location.prefix) :])
                    if attempt is not None:
                        found.append(Place(job=job, attempt=attempt))
        return sorted(found, key=lambda place: (place.attempt.generation, place.attempt.number))

    def download(self, place: Place) -> None:
        """See `Results.download`. Afterwards the folder holds what S3 holds, and nothing else.

        What only this host knows of an attempt that ended would count as measured here, and never be merged.
        """
        folder = self.directory.attempt(place)
        there = self._there(place)
        with _transferring(f"download {_named(place)}"):
            if folder.is_symlink() or folder.is_file():
                folder.unlink()
            elif folder.exists():
                shutil.rmtree(folder)
            folder.mkdir(parents=True)
            if ENVIRONMENT in there:
                self._fetch(place, folder, ENVIRONMENT)
        self._refuse_alien(place, folder, there)
        with _transferring(f"download {_named(place)}"):
            side_by_side(
                lambda name: self._fetch(place, folder, name), sorted(there.keys() - {ENVIRONMENT}), CONCURRENT
            )

    def upload(self, place: Place, names: Sequence[str] | None = None) -> Sequence[Record]:
        """See `Results.upload`. Files are read as they are at that moment, whole: logs of an attempt fit into memory.

        What S3 has the folder itself knows; nobody else writes there. Each write demands that, so that an upload that
        stalled cannot land over a newer one (S26, S42); where it was wrong the refusal tells.
        """
        folder = self.directory.attempt(place)
        with _transferring(f"upload {_named(place)}"):
            there = _stored(folder)
            wanted = sorted(_files(folder)) if names is None else names
            records = side_by_side(lambda name: self._send(place, folder, name, there.get(name)), wanted, CONCURRENT)
            there |= {name: record.etag for name, record in zip(wanted, records, strict=True)}
            lines = (msgspec.json.encode(_Stored(name, etag)) + b"\n" for name, etag in there.items())
            (folder / STORED).write_bytes(b"".join(lines))
            return records

    def measured(self, place: Place) -> bool:
        """See `Results.measured`. One listing of the generation; names of records tell, whatever they say."""
        own: set[str] = set()
        before: set[str] = set()
        for page in self._pages(f"{self.keys.results(place.job)}g{place.attempt.generation}/"):
            for one in page.get("Contents", []):
                key = one["Key"][len(self.location.prefix) :]
                attempt, record = self.keys.attempt_of(place.job, key), _REPETITION.search(key)
                if attempt is not None and record is not None and attempt.number <= place.attempt.number:
                    (own if attempt == place.attempt else before).add(record[1])
        return not own <= before

    # ---- one attempt -------------------------------------------------------------------------------------------------
    def _there(self, place: Place) -> dict[str, str]:
        """ETags of what S3 has of an attempt, by name. Names that could leave the folder are left out (S47)."""
        prefix = self.keys.attempt(place.job, place.attempt)
        there = {}
        for page in self._pages(prefix):
            for one in page.get("Contents", []):
                name = one["Key"][len(self.location.prefix) + len(prefix) :]
                if contained(name):
                    there[name] = one["ETag"].strip('"')
                elif name:  # a folder marker has none
                    logger.warning("%s: no file can be named %r, it is left alone", _named(place), name)
        return there

    def _refuse_alien(self, place: Place, folder: Path, there: dict[str, str]) -> None:
        try:
            made = msgspec.json.decode((folder / ENVIRONMENT).read_bytes(), type=_Environment)
        except (OSError, msgspec.DecodeError) as error:
            if not any(name.startswith(f"{CHECKPOINT}/") for name in there):
                return  # it ended before it began: nothing to resume
            raise AlienAttemptError(f"{_named(place)} does not say in {ENVIRONMENT} what it was made for") from error
        for what, theirs, ours in (
            ("manifest", made.manifest_sha256, self.manifest_sha256),
            ("worker version", made.worker_version, self.worker_version),
        ):
            if theirs != ours:
                raise AlienAttemptError(f"{_named(place)} was made with {what} {theirs}, the queue has {ours}")

    def _fetch(self, place: Place, folder: Path, name: str) -> None:
        key = self.location.prefix + self.keys.attempt(place.job, place.attempt) + name
        body = self.client.get_object(Bucket=self.location.bucket, Key=key)["Body"].read()
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_bytes(body)
        new.replace(path)

    def _send(self, place: Place, folder: Path, name: str, etag: str | None) -> Record:
        body = (folder / name).read_bytes()
        md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
        key = self.keys.attempt(place.job, place.attempt) + name
        where: dict[str, Any] = {"Bucket": self.location.bucket, "Key": self.location.prefix + key}
        for _ in range(TRIES):
            if etag == md5:
                return Record(key=key, etag=md5)
            condition: dict[str, Any] = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": f'"{etag}"'}
            try:
                answer = self.client.put_object(**where, Body=body, **condition)
                return Record(key=key, etag=answer["ETag"].strip('"'))
            except ClientError as error:
                if error.response["Error"]["Code"] not in _MOVED:
                    raise
            etag = self._etag(where)  # an earlier try may have landed: the next look at the bytes tells
        raise TransferError(f"{key} was written by others again and again")

    def _etag(self, where: dict[str, Any]) -> str | None:
        try:
            return self.client.head_object(**where)["ETag"].strip('"')
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return None
            raise

    def _pages(self, prefix: str, **how: Any) -> Iterator[Any]:
        with _transferring(f"list {prefix}"):
            pages = self.client.get_paginator("list_objects_v2")
            yield from pages.paginate(Bucket=self.location.bucket, Prefix=self.location.prefix + prefix, **how)


def contained(name: str) -> bool:
    """Whether a name, taken as a path, stays in its folder on any system (S47)."""
    parts = name.split("/")
    return "\\" not in name and "\0" not in name and all(part not in ("", ".", "..") for part in parts)


def _stored(folder: Path) -> dict[str, str]:
    """ETags of what S3 is known to have, by name. A line that a dying process left half-written is of no use."""
    there = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / STORED).read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                one = msgspec.json.decode(line, type=_Stored)
                there[one.name] = one.etag
    return there


def _files(folder: Path) -> Iterator[str]:
    """Names of what is to be uploaded: no links, and nothing that begins with a dot, such as half a file."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            if not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield str(PurePosixPath(path.relative_to(folder)))


def _named(place: Place) -> str:
    return f"{place.job} g{place.attempt.generation}/attempt-{place.attempt.number}"


@contextlib.contextmanager
def _transferring(what: str) -> Iterator[None]:
    """Everything that a transfer can end with becomes one type; half an answer has many (S14)."""
    try:
        yield
    except (TransferError, AlienAttemptError):
        raise
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        raise TransferError(f"{what}: {status} {error.response['Error'].get('Code')}") from error
    except (BotoCoreError, ResponseParserError, HTTPError, OSError, KeyError, ValueError) as error:
        raise TransferError(f"{what}: {type(error).__name__}: {error}") from error
