"""One conditional GET, one version, bounded by the disk (W3, W6)."""

from __future__ import annotations

import errno
import io
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from longhaul.importer import client, source


class Body(io.BytesIO):
    """A body that can break off."""

    def __init__(self, data: bytes, breaks_after: int | None = None) -> None:
        super().__init__(data if breaks_after is None else data[:breaks_after])
        self.breaks = breaks_after is not None

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if not data and self.breaks:
            raise ResponseStreamingError(error="connection reset")
        return data


class Store:
    """The two answers of S3 that matter here: whole or ranged, under conditions."""

    def __init__(
        self, data: bytes, *, breaks: list[int] = (), changes: bool = False, refuses: Exception | None = None
    ) -> None:
        self.data, self.breaks, self.changes, self.refuses = data, list(breaks), changes, refuses
        self.refuses_from = 0  # number of requests that are answered first
        self.requests: list[dict[str, Any]] = []

    def get_object(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        if self.refuses and len(self.requests) > self.refuses_from:
            raise self.refuses
        if request.get("IfNoneMatch") == '"v1"':
            raise answer("304", 304)
        if self.changes and "IfMatch" in request:
            raise answer("PreconditionFailed", 412)
        start = int(request["Range"].removeprefix("bytes=").rstrip("-")) if "Range" in request else 0
        body = Body(self.data[start:], self.breaks.pop(0) if self.breaks else None)
        modified = datetime(2026, 1, 1, tzinfo=UTC)
        return {"Body": body, "ETag": '"v1"', "ContentLength": len(self.data) - start, "LastModified": modified}


def answer(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetObject")


@pytest.fixture
def store(monkeypatch):
    def use(data: bytes = b"x" * 5_000_000, **how: Any) -> Store:
        found = Store(data, **how)
        monkeypatch.setattr(client, "s3", lambda: found)
        return found

    return use


def test_w6_one_request_spooled_to_a_file_without_a_name(store) -> None:
    asked = store()
    fetched = source.fetch_object("b", "k", None)
    assert fetched is not None
    assert (fetched.path.read_bytes(), fetched.etag, fetched.size_bytes) == (asked.data, "v1", 5_000_000)
    assert asked.requests == [{"Bucket": "b", "Key": "k"}]
    fetched.close()


def test_w3_an_unchanged_object_is_not_read(store) -> None:
    asked = store()
    assert source.fetch_object("b", "k", "v1") is None
    assert asked.requests == [{"Bucket": "b", "Key": "k", "IfNoneMatch": '"v1"'}]


def test_w6_a_body_that_breaks_off_is_resumed_under_if_match(store) -> None:
    asked = store(breaks=[3_000_000, 7])
    fetched = source.fetch_object("b", "k", None)
    assert fetched is not None
    assert fetched.path.read_bytes() == asked.data
    assert [(request.get("Range"), request.get("IfMatch")) for request in asked.requests[1:]] == [
        ("bytes=3000000-", '"v1"'),
        ("bytes=3000007-", '"v1"'),
    ]
    fetched.close()


def test_a_log_that_changes_while_it_is_read(store) -> None:
    store(breaks=[9], changes=True)
    with pytest.raises(source.LogChangedError):
        source.fetch_object("b", "k", None)


def test_a_body_that_breaks_off_for_good_may_be_whole_another_time(store) -> None:
    store(breaks=[1] * 9)
    with pytest.raises(source.LogUnreadableError, match="broke off after 4 of 5000000 bytes"):
        source.fetch_object("b", "k", None)


PASSING = [
    ("SlowDown", 503),
    ("InternalError", 500),
    ("TooManyRequests", 429),
    ("RequestTimeout", 400),
    ("ExpiredToken", 400),
]


@pytest.mark.parametrize(("code", "status"), PASSING)
@pytest.mark.parametrize("begun", [False, True], ids=["at once", "halfway"])
def test_an_s3_that_is_busy_is_worth_another_try(store, code: str, status: int, begun: bool) -> None:
    """Never exit 11, which nobody tries again."""
    asked = store(refuses=answer(code, status), breaks=[9])
    asked.refuses_from = 1 if begun else 0
    with pytest.raises(source.LogUnreadableError, match=code):
        source.fetch_object("b", "k", None)


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://s3"),
        ReadTimeoutError(endpoint_url="http://s3"),
        CredentialRetrievalError(provider="container", error_msg="timed out"),
    ],
)
@pytest.mark.parametrize("begun", [False, True], ids=["at once", "halfway"])
def test_an_s3_out_of_reach_is_worth_another_try(store, error: Exception, begun: bool) -> None:
    asked = store(refuses=error, breaks=[9])
    asked.refuses_from = 1 if begun else 0
    with pytest.raises(source.LogUnreadableError):
        source.fetch_object("b", "k", None)


def test_a_disk_that_fills_up_while_spooling(store, monkeypatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

    store()
    monkeypatch.setattr(source.tempfile, "TemporaryFile", Full)
    with pytest.raises(source.LogTooLargeError, match="disk is full"):
        source.fetch_object("b", "k", None)


@pytest.mark.parametrize("code", ["NoSuchKey", "404", "403", "AccessDenied", "NoSuchBucket"])
def test_a_missing_log_is_404_or_403(store, code: str) -> None:
    store(refuses=answer(code, 404))
    with pytest.raises(source.LogNotFoundError, match=code):
        source.fetch_object("b", "k", None)


def test_no_credentials_is_no_permission(store) -> None:
    store(refuses=NoCredentialsError())
    with pytest.raises(source.LogNotFoundError):
        source.fetch_object("b", "k", None)


def test_a_log_larger_than_the_spool_is_refused_before_the_download(store, monkeypatch) -> None:
    store(b"x" * 100)
    monkeypatch.setenv("LONGHAUL_SPOOL_BYTES", "99")
    with pytest.raises(source.LogTooLargeError, match="100 bytes"):
        source.fetch_object("b", "k", None)


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(source.LogNotFoundError):
        source.open_file(tmp_path / "a.eval", None)
