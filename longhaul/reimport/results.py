"""What came of each item: the result files of a Map Run, read through its manifest in bounded memory (R17)."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.reimport.arrays import BrokenArrayError, read_array
from longhaul.reimport.failures import FailureClass, classify

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RESULTS_PREFIX = "results/"
TSV_CAUSE_CHARACTERS = 200


class Outcome(Enum):
    """How an item stands; only SUCCEEDED means that its log was imported."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"
    PENDING = "pending"  # never started
    MALFORMED = "malformed"  # an entry that does not say what it should; never counted as success (case-R07)


@dataclass(frozen=True, kw_only=True)
class Item:
    """One child execution, or one item that never became one."""

    identity: str  # ExecutionArn, unchanged by a redrive
    outcome: Outcome
    redrive_count: int = 0
    key: str | None = None
    size_bytes: int | None = None
    error: str | None = None
    cause_head: str | None = None  # the first 200 characters
    failure_class: FailureClass | None = None
    reason: str | None = None
    exit_code: int | None = None
    status_reason: str | None = None
    job_id: str | None = None
    log_stream: str | None = None
    attempts: int | None = None
    seconds: float | None = None  # start to stop of the child, waiting for a place included


class Results:
    """The items of one Map Run in a temporary database: one row for each, the better answer kept."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.problems: list[str] = []  # what could not be read, in words
        self.manifest_etag: str | None = None  # None: there is no manifest (yet)
        columns = ", ".join(name for name, _ in _COLUMNS)
        self._insert = (
            f"INSERT INTO item ({columns}, succeeded) VALUES ({', '.join('?' * len(_COLUMNS))}, ?)"  # noqa: S608
            f" ON CONFLICT (identity) DO UPDATE SET {', '.join(f'{n} = excluded.{n}' for n, _ in _COLUMNS)},"
            " succeeded = excluded.succeeded"
            " WHERE (excluded.succeeded, excluded.redrive_count) > (item.succeeded, item.redrive_count)"
        )
        database.execute(
            f"CREATE TABLE item (place INTEGER PRIMARY KEY, {', '.join(' '.join(c) for c in _COLUMNS)},"
            " succeeded INTEGER NOT NULL, UNIQUE (identity))"
        )
        database.execute("CREATE INDEX item_key ON item (key, succeeded)")

    def add(self, item: Item) -> None:
        """Keep an item: of entries of one child SUCCEEDED wins, then the highest redrive count (R17)."""
        values = (
            hashlib.blake2b(item.identity.encode("utf-8", "replace"), digest_size=16).digest(),
            item.outcome.value,
            item.redrive_count,
            item.key,
            item.size_bytes,
            item.error,
            item.cause_head,
            item.failure_class and item.failure_class.value,
            item.reason,
            item.exit_code,
            item.status_reason,
            item.job_id,
            item.log_stream,
            item.attempts,
            item.seconds,
        )
        clean = (v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in values)  # lone surrogates
        self._database.execute(self._insert, (*clean, item.outcome is Outcome.SUCCEEDED))

    def counts(self) -> dict[Outcome, int]:
        """Return the number of items of every outcome, zeros included."""
        found = dict(self._database.execute("SELECT outcome, count(*) FROM item GROUP BY outcome"))
        return {outcome: found.get(outcome.value, 0) for outcome in Outcome}

    def items(self, *outcomes: Outcome) -> Iterator[Item]:
        """Yield the items of these outcomes in the order of the files."""
        return self._select(f"outcome IN ({', '.join('?' * len(outcomes))})", *(o.value for o in outcomes))

    def failed(self) -> Iterator[Item]:
        """Yield the items that failed, timed out or were aborted, and those whose entry is malformed."""
        return self.items(Outcome.FAILED, Outcome.TIMED_OUT, Outcome.ABORTED, Outcome.MALFORMED)

    def unfinished_keys(self) -> Iterator[str]:
        """Yield each key once that no item imported, in the order of the files."""
        rows = self._database.execute(
            "SELECT key FROM item AS i WHERE key IS NOT NULL AND NOT succeeded AND NOT EXISTS"
            " (SELECT 1 FROM item AS done WHERE done.key = i.key AND done.succeeded) GROUP BY key ORDER BY min(place)"
        )
        return (key for (key,) in rows)

    def classes(self) -> list[tuple[str, int]]:
        """Return the failure classes and their numbers of items, the most frequent first."""
        found = self.query("SELECT class, count(*) FROM item WHERE class NOT NULL GROUP BY class ORDER BY 2 DESC, 1")
        return [(name, number) for name, number in found]

    def find(self, key: str) -> list[Item]:
        """Return the items of one key."""
        return list(self._select("key = ?", key))

    def imported(self, key: str) -> bool:
        """Say whether an item of this key succeeded."""
        return next(self.query("SELECT 1 FROM item WHERE key = ? AND succeeded LIMIT 1", key), None) is not None

    def query(self, sql: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        """Ask the table of items, for the figures of a report."""
        yield from self._database.execute(sql, arguments)

    def _select(self, condition: str, *arguments: object) -> Iterator[Item]:
        names = ", ".join(name for name, _ in _COLUMNS[1:])
        rows = self._database.execute(
            f"SELECT hex(identity), {names} FROM item WHERE {condition} ORDER BY place",  # noqa: S608
            arguments,
        )
        for identity, outcome, redrive, key, size, error, cause, class_, *facts in rows:
            reason, exit_code, status_reason, job_id, log_stream, attempts, seconds = facts
            yield Item(
                identity=identity,
                outcome=Outcome(outcome),
                redrive_count=redrive,
                key=key,
                size_bytes=size,
                error=error,
                cause_head=cause,
                failure_class=FailureClass(class_) if class_ else None,
                reason=reason,
                exit_code=exit_code,
                status_reason=status_reason,
                job_id=job_id,
                log_stream=log_stream,
                attempts=attempts,
                seconds=seconds,
            )

    def read(self, s3: S3Client, bucket: str, map_run_id: str) -> None:
        """Read every file that the manifest names, and nothing else.

        Files of earlier redrives may lie beside them. What is absent or broken becomes a problem, never an exception
        and never a success; other S3 errors are raised.
        """
        manifest_key = f"{RESULTS_PREFIX}{map_run_id}/manifest.json"
        try:
            answer = s3.get_object(Bucket=bucket, Key=manifest_key)
        except ClientError as error:
            if not _is_missing(error):
                raise
            self.problems.append(f"{manifest_key} does not exist: the results are not written, or never will be")
            return
        try:
            files = list(_files(json.load(answer["Body"])))
        except ValueError as error:
            self.problems.append(f"{manifest_key} cannot be read: {error}")
            return
        self.manifest_etag = answer["ETag"]
        for kind, key in files:
            self.read_file(s3, bucket, key, kind)

    def read_successes(self, s3: S3Client, bucket: str, map_run_id: str) -> None:
        """Read every SUCCEEDED file of a Map Run, manifest or not: what was imported once stays imported (R21)."""
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{RESULTS_PREFIX}{map_run_id}/SUCCEEDED_"
        )
        for page in pages:
            for found in page.get("Contents", ()):
                self.read_file(s3, bucket, found["Key"], "SUCCEEDED")

    def read_file(self, s3: S3Client, bucket: str, key: str, kind: str) -> None:
        """Read one result file of a kind (SUCCEEDED, FAILED, PENDING)."""
        try:
            body = s3.get_object(Bucket=bucket, Key=key)["Body"]
        except ClientError as error:
            if not _is_missing(error):
                raise
            self.problems.append(f"{key} is named in the manifest but absent")
            return
        place = -1
        try:
            for place, entry in enumerate(read_array(body)):
                self.add(read_entry(entry, kind, f"{key}#{place}"))
        except BrokenArrayError as error:
            self.problems.append(f"{key} cannot be read after {place + 1:,} entries: {error}")


@contextmanager
def results() -> Iterator[Results]:
    """Open an empty store; its temporary file is gone afterwards."""
    with tempfile.NamedTemporaryFile(prefix="longhaul-results-") as file:
        database = sqlite3.connect(file.name, isolation_level=None)
        try:
            database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-32000; BEGIN;")
            yield Results(database)
        finally:
            database.close()


def read_entry(entry: Any, kind: str, fallback_identity: str) -> Item:
    """Return the item of an entry of a file of that kind.

    Success needs all of: a SUCCEEDED file, no other status, an Input that names a key, an Output that is JSON.
    """
    if not isinstance(entry, dict):
        return Item(identity=fallback_identity, outcome=Outcome.MALFORMED, reason="the entry is no object")
    identity = entry.get("ExecutionArn")
    status = entry.get("Status") if isinstance(entry.get("Status"), str) else None
    given = _decode(entry.get("Input"))
    key = given.get("key") if isinstance(given, dict) else None
    size = given.get("size") if isinstance(given, dict) else None
    redrives = entry.get("RedriveCount")
    common: dict[str, Any] = {
        "identity": identity if isinstance(identity, str) and identity else fallback_identity,
        "redrive_count": _count(redrives) or 0,
        "key": key if isinstance(key, str) else None,
        "size_bytes": _count(size),
        "seconds": _seconds(entry.get("StartDate"), entry.get("StopDate")),
    }
    if kind == "PENDING":
        return Item(outcome=Outcome.PENDING, **common)
    if kind == "SUCCEEDED":
        output = _decode(entry.get("Output"))
        if common["identity"] == fallback_identity or common["key"] is None:
            problem = "the entry of a success names no child execution or no key"
        elif status not in (None, "SUCCEEDED"):
            problem = f"an entry among the successes has status {status}"
        elif not isinstance(output, dict):
            problem = "the Output of a success is no JSON object"
        else:
            job_id = output.get("JobId")
            return Item(outcome=Outcome.SUCCEEDED, job_id=job_id if isinstance(job_id, str) else None, **common)
        return Item(outcome=Outcome.MALFORMED, reason=problem, **common)
    error, cause = (entry.get(n) if isinstance(entry.get(n), str) else None for n in ("Error", "Cause"))
    failure = classify(status, error, cause)
    outcomes = {"TIMED_OUT": Outcome.TIMED_OUT, "ABORTED": Outcome.ABORTED}
    return Item(
        outcome=outcomes.get(status or "", Outcome.FAILED),
        error=error,
        cause_head=cause and cause[:TSV_CAUSE_CHARACTERS],
        failure_class=failure.failure_class,
        reason=failure.reason,
        exit_code=_count(failure.facts.exit_code),
        status_reason=failure.facts.status_reason,
        job_id=failure.facts.job_id,
        log_stream=failure.facts.log_stream,
        attempts=failure.facts.attempts,
        **common,
    )


def map_run_id(map_run_arn: str) -> str:
    """Return the id below `results/`: what follows the last colon of the ARN."""
    return map_run_arn.rsplit(":", 1)[1]


_COLUMNS = (
    ("identity", "BLOB NOT NULL"),
    ("outcome", "TEXT NOT NULL"),
    ("redrive_count", "INTEGER NOT NULL"),
    ("key", "TEXT"),
    ("size", "INTEGER"),
    ("error", "TEXT"),
    ("cause", "TEXT"),
    ("class", "TEXT"),
    ("reason", "TEXT"),
    ("exit_code", "INTEGER"),
    ("status_reason", "TEXT"),
    ("job_id", "TEXT"),
    ("log_stream", "TEXT"),
    ("attempts", "INTEGER"),
    ("seconds", "REAL"),
)


def _files(manifest: Any) -> Iterator[tuple[str, str]]:
    listed = manifest.get("ResultFiles") if isinstance(manifest, dict) else None
    if not isinstance(listed, dict):
        raise ValueError("no ResultFiles")
    for kind in ("SUCCEEDED", "FAILED", "PENDING"):
        for file in listed.get(kind) or ():
            if not isinstance(file, dict) or not isinstance(file.get("Key"), str):
                raise ValueError(f"a {kind} file without a Key")
            yield kind, file["Key"]


def _is_missing(error: ClientError) -> bool:
    return error.response.get("Error", {}).get("Code") in ("NoSuchKey", "404")


def _decode(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _count(value: Any) -> int | None:
    """Return a whole number that the database can hold, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _seconds(start: Any, stop: Any) -> float | None:
    try:
        return (_moment(stop) - _moment(start)).total_seconds()
    except (TypeError, ValueError):
        return None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
