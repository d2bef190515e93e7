"""Lists: keys with their sizes, without duplicates, uploaded under a name that is not taken (R8, R19, R20)."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.reimport.arrays import BrokenArrayError, read_array
from longhaul.reimport.errors import InvalidArgumentError, NameTakenError, ReimportError, SizeUnreadableError
from longhaul.reimport.sizing import Tier, choose_tier

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LISTS_PREFIX = "lists/"
EXAMPLES = 100  # missing and duplicate keys spelled out in a summary; the rest is counted
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
READERS = 32  # HeadObject calls in flight: the S3 client needs as many connections
_CHUNK = 1_000
_UPLOAD_ATTEMPTS = 6
_PUT_MAX_BYTES = 5 * 1024**3  # S3's limit of one PutObject; a million keys of the longest kind are about 1 GiB


@dataclass(frozen=True, kw_only=True)
class ListSummary:
    """What a list holds; the operator reads it before anything is uploaded."""

    items: int
    total_bytes: int
    small_items: int
    full_items: int
    missing: int
    missing_keys: tuple[str, ...]  # the first ones
    duplicates: int
    duplicate_keys: tuple[str, ...]  # the first ones


class Draft:
    """A list in the making, kept in a temporary database so that a million keys take little memory.

    With `small_max_bytes` None every log gets the full size: the list is written without sizes (R14).
    """

    def __init__(self, database: sqlite3.Connection, small_max_bytes: int | None) -> None:
        self._database = database
        self._with_sizes = small_max_bytes is not None
        self._small_max_bytes = small_max_bytes or 0
        self._duplicates = 0
        self._duplicate_keys: list[str] = []
        database.execute(
            "CREATE TABLE item (place INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, size INTEGER,"
            " missing INTEGER NOT NULL DEFAULT 0)"
        )

    def add(self, items: Iterable[tuple[str, int | None]]) -> None:
        """Append keys with their sizes, None where unknown; of equal keys the first one stays."""
        for key, size in items:
            added = self._database.execute("INSERT OR IGNORE INTO item (key, size) VALUES (?, ?)", (key, size))
            if not added.rowcount:
                self._duplicates += 1
                if len(self._duplicate_keys) < EXAMPLES and key not in self._duplicate_keys:
                    self._duplicate_keys.append(key)

    def read_sizes(self, s3: S3Client, bucket: str, progress: Callable[[int], object] = lambda done: None) -> None:
        """Ask S3 for the sizes that are unknown; a missing log stays, any other failure stops everything (R19)."""
        s3.head_bucket(Bucket=bucket)  # HeadObject answers 404 for a missing bucket too
        last = 0
        with ThreadPoolExecutor(READERS) as readers:
            while chunk := self._database.execute(
                "SELECT place, key FROM item WHERE size IS NULL AND place > ? ORDER BY place LIMIT ?", (last, _CHUNK)
            ).fetchall():
                sizes = list(readers.map(lambda row: size_of(s3, bucket, row[1]), chunk))
                self._database.executemany(
                    "UPDATE item SET size = ?, missing = ? WHERE place = ?",
                    [(size, size is None, row[0]) for size, row in zip(sizes, chunk, strict=True)],
                )
                last = chunk[-1][0]
                progress(len(chunk))

    def summary(self) -> ListSummary:
        """Count what the list holds."""
        items, total, small = self._database.execute(
            "SELECT count(*), coalesce(sum(size), 0), count(*) FILTER (WHERE size <= ? AND ? > 0) FROM item",
            (self._small_max_bytes, self._small_max_bytes),
        ).fetchone()
        missing = self._database.execute("SELECT count(*) FROM item WHERE missing").fetchone()[0]
        examples = self._database.execute("SELECT key FROM item WHERE missing ORDER BY place LIMIT ?", (EXAMPLES,))
        return ListSummary(
            items=items,
            total_bytes=total,
            small_items=small,
            full_items=items - small,
            missing=missing,
            missing_keys=tuple(key for (key,) in examples),
            duplicates=self._duplicates,
            duplicate_keys=tuple(self._duplicate_keys),
        )

    def sizes(self) -> Iterator[tuple[int | None, Tier]]:
        """Yield the size in bytes of each item, None where unknown, and its tier."""
        for (size,) in self._database.execute("SELECT size FROM item ORDER BY place"):
            yield size, choose_tier(size, self._small_max_bytes)

    def write(self, file: IO[bytes]) -> None:
        """Write the JSON array of R8, one item a line; an unknown size is left out."""
        separator = b"[\n"
        for key, size in self._database.execute("SELECT key, size FROM item ORDER BY place"):
            item = {"key": key, "size": size} if self._with_sizes and size is not None else {"key": key}
            file.write(separator + json.dumps(item, ensure_ascii=False).encode("utf-8"))
            separator = b",\n"
        file.write(b"[]\n" if separator == b"[\n" else b"\n]\n")

    def upload(self, s3: S3Client, bucket: str, name: str) -> str:
        """Upload the list as `lists/<name>.json` and return that key; NameTakenError if it exists."""
        with tempfile.TemporaryFile() as file:
            self.write(file)
            return upload_list(s3, bucket, name, file)


@contextmanager
def draft(small_max_bytes: int | None) -> Iterator[Draft]:
    """Open an empty draft; its temporary file is gone afterwards."""
    with tempfile.NamedTemporaryFile(prefix="longhaul-list-") as file:
        database = sqlite3.connect(file.name, isolation_level=None)
        try:
            database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-16000; BEGIN;")
            yield Draft(database, small_max_bytes)
        finally:
            database.close()


def check_name(name: str) -> str:
    """Return `name` if it can name a list and an execution (R20); case-R10: refused before anything is uploaded."""
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(f"a name has 1 to 80 of A-Z a-z 0-9 _ -, it is {name!r}")
    return name


def list_key(name: str) -> str:
    """Return the key of the list of that name in the re-import bucket."""
    return f"{LISTS_PREFIX}{check_name(name)}.json"


def size_of(s3: S3Client, bucket: str, key: str) -> int | None:
    """Return the size of a log in bytes, or None if it is missing; anything else raises SizeUnreadableError."""
    try:
        return s3.head_object(Bucket=bucket, Key=key)["ContentLength"]
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == 404:
            return None
        hint = " (S3 says 403 for a missing log too when the role lacks s3:ListBucket on the bucket)"
        raise SizeUnreadableError(
            f"the size of {key} in {bucket} cannot be read: S3 answers {status}{hint if status == 403 else ''};"
            " nothing was uploaded"
        ) from error


def exists(s3: S3Client, bucket: str, key: str) -> bool:
    """Say whether an object exists; errors other than 404 are raised."""
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True


def read_list(s3: S3Client, bucket: str, key: str) -> Iterator[Any]:
    """Yield the items of an uploaded list as they stand; ReimportError if it is no JSON array."""
    body = s3.get_object(Bucket=bucket, Key=key)["Body"]
    try:
        yield from read_array(body)
    except BrokenArrayError as error:
        raise ReimportError(f"the list {key} is no JSON array of items") from error


def upload_list(
    s3: S3Client, bucket: str, name: str, file: IO[bytes], sleep: Callable[[float], None] = time.sleep
) -> str:
    """Write the list unless the name is taken and return its key.

    The retries here are for S3's 409 alone, a conflicting write under way, after which the upload is to be tried
    again; botocore retries the rest. When it does so after a lost answer, S3 reports the object that we wrote
    ourselves as taken: a token in the metadata tells whose it is.
    """
    key = list_key(name)
    length = file.seek(0, 2)
    if length > _PUT_MAX_BYTES:
        raise InvalidArgumentError(f"the list has {length:,} bytes, S3 takes {_PUT_MAX_BYTES:,} at once; split it")
    token = uuid.uuid4().hex
    for attempt in range(_UPLOAD_ATTEMPTS):
        file.seek(0)
        try:
            s3.put_object(
                Bucket=bucket,
                Key=key,
                Body=file,
                IfNoneMatch="*",
                ContentType="application/json",
                Metadata={"longhaul-upload": token},
            )
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 409:
                sleep(min(0.2 * 2**attempt, 5))
                continue
            if status != 412:
                raise
            if not _is_ours(s3, bucket, key, token):
                raise NameTakenError(
                    f"the list {key} exists already and is never overwritten; take another --name,"
                    f" or start that very list with --list-key {key}"
                ) from error
        return key
    raise ReimportError(f"S3 kept answering 409 (conflicting write) for {key}; try again")


def _is_ours(s3: S3Client, bucket: str, key: str, token: str) -> bool:
    try:
        return s3.head_object(Bucket=bucket, Key=key)["Metadata"].get("longhaul-upload") == token
    except ClientError:  # the list is there, S3 has just said so, but it cannot be looked at: not known to be ours
        return False
