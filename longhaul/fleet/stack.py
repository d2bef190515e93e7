"""What operators may do with the objects of a stack, beyond what workers may: list queues, take back a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from longhaul.fleet.errors import FleetError, UnansweredError
from longhaul.fleet.keys import IllegalNameError, QueueKeys
from longhaul.fleet.location import Location
from longhaul.fleet.objects import Found, Store
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.store import S3Store

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

CONCURRENT = 16  # reads at once
TRIES, PAUSE_SECONDS = 5, 0.5  # of a write that nobody answers, beyond botocore's own
_T = TypeVar("_T")
_R = TypeVar("_R")


class ThereAlreadyError(FleetError):
    """Something else stands where a document was to be written."""

    def __init__(self, key: str, found: Found) -> None:
        super().__init__(f"{key} is there already")
        self.found = found


class Stack:
    """The objects below one location."""

    def __init__(self, client: S3Client, location: Location) -> None:
        self.location = location
        self.store = S3Store(client, location.bucket, location.prefix)
        self._client = client

    def queues(self) -> Sequence[str]:
        """Names of all queues, also of those that are only reserved; an `UnansweredError` passes."""
        prefix = f"{self.location.prefix}fleet/"
        try:
            pages = self._client.get_paginator("list_objects_v2")
            found = [
                one["Prefix"][len(prefix) : -1]
                for page in pages.paginate(Bucket=self.location.bucket, Prefix=prefix, Delimiter="/")
                for one in page.get("CommonPrefixes", [])
            ]
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            raise UnansweredError(f"LIST {self.location}fleet/: {_code(error)}") from error
        return [name for name in found if name != "slots" and _legal(name)]

    def remove(self, key: str, etag: str) -> None:
        """Delete an object if it is still that version; if it is not, or is gone, nothing happens.

        An `UnansweredError` passes. Only reservations and pauses are deleted, never a lease (F2).
        """
        try:
            self._client.delete_object(Bucket=self.location.bucket, Key=self.location.prefix + key, IfMatch=f'"{etag}"')
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 409, 412):
                raise UnansweredError(f"DELETE {key}: {_code(error)}") from error
        except (BotoCoreError, ResponseParserError) as error:
            raise UnansweredError(f"DELETE {key}: {_code(error)}") from error


def write_once(store: Store, key: str, body: bytes, runtime: Runtime, *, replaces: str | None = None) -> str:
    """Write where nothing is, or over the version `replaces`; the ETag. `ThereAlreadyError` if something else stands.

    An answer that says nothing is settled by a look: these very bytes are this very write, so they hold a nonce or a
    hash (F3, S49). If nobody answers at all, an `UnansweredError` passes.
    """
    last: UnansweredError | None = None
    for turn in range(TRIES):
        if turn:
            runtime.sleep(runtime.jittered(PAUSE_SECONDS * 2 ** (turn - 1)))
        try:
            etag = store.put(key, body, replaces=replaces)
            if etag is not None:
                return etag
            found = store.get(key)
        except UnansweredError as error:
            last = error
            continue
        if found is not None and found.body == body:
            return found.etag
        if found is not None and found.etag != replaces:
            raise ThereAlreadyError(key, found)
    raise last or UnansweredError(f"PUT {key}: refused, though nothing stands there")


def write_over(store: Store, key: str, body: bytes, runtime: Runtime) -> str:
    """Write over whatever is there, as nobody else does at this time; its ETag."""
    for _ in range(TRIES):
        found = store.get(key)
        if found is not None and found.body == body:
            return found.etag
        try:
            return write_once(store, key, body, runtime, replaces=found.etag if found else None)
        except ThereAlreadyError:
            continue  # written between the look and the write
    raise UnansweredError(f"{key} is written by others again and again")


def side_by_side(ask: Callable[[_T], _R], about: Iterable[_T], at_once: int = CONCURRENT) -> list[_R]:
    """Ask about each, many at once; the first error ends it, once what is under way has come to an end."""
    with ThreadPoolExecutor(at_once) as pool:
        try:
            return list(pool.map(ask, about))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _legal(name: str) -> bool:
    try:
        QueueKeys(name)
    except IllegalNameError:
        return False
    return True


def _code(error: Exception) -> str:
    return str(error.response["Error"].get("Code")) if isinstance(error, ClientError) else type(error).__name__
