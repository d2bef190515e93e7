"""S3 as the fleet's store, with time-outs short enough for leases (F8).

Retries: botocore tries once more after a time-out, a broken connection, a throttle or a 5xx, which can turn a write
that was carried out into a 412. What a write really did is settled by `longhaul.fleet.holding`, which owns all further
tries.
"""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import boto3.session
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.utils import parse_timestamp

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.objects import Found, Listed, Listing

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

CONNECT_SECONDS, READ_SECONDS, TRIES = 3, 5, 2
_REFUSED = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}
_ANSWERS = (BotoCoreError, ResponseParserError)  # the latter, of half an answer, derives from Exception alone (S14)


CONFIG = Config(
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    retries={"mode": "standard", "total_max_attempts": TRIES},
    max_pool_connections=32,
)


def session() -> boto3.session.Session:
    """Whose clients read the times in answers fast: three quarters of a long listing's cost are botocore's way to."""
    made = botocore.session.get_session()
    made.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
    return boto3.session.Session(botocore_session=made)


def timestamp(value: Any) -> datetime:
    """A time as XML has it, or whatever else botocore knows to read."""
    if isinstance(value, str) and value.endswith("Z"):
        return datetime.fromisoformat(value)
    return parse_timestamp(value)


def lease_client() -> S3Client:
    """A client for leases only; bulk transfers use another, or they would starve renewals of connections (F8)."""
    return session().client("s3", config=CONFIG)


class S3Store:
    """Objects below `s3://<bucket>/<location>`; a location is empty or ends with a slash. Threads may share it."""

    def __init__(self, client: S3Client, bucket: str, location: str = "") -> None:
        if location and not location.endswith("/"):
            raise ValueError("a location ends with a slash")
        self._client, self._bucket, self._location = client, bucket, location

    def get(self, key: str) -> Found | None:
        """See `Store.get`. A missing object is a 404 only for a role that may list the bucket (S13)."""
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._location + key)
            body = answer["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                return None
            raise _unanswered("GET", key, error) from error
        except _ANSWERS as error:
            raise _unanswered("GET", key, error) from error
        return Found(
            body=body, etag=_plain(answer["ETag"]), modified=answer["LastModified"], date=_date("GET", key, answer)
        )

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """See `Store.put`."""
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": f'"{replaces}"'}
        try:
            answer = self._client.put_object(
                Bucket=self._bucket,
                Key=self._location + key,
                Body=body,
                ContentType="application/json",
                **condition,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in _REFUSED:
                return None
            raise _unanswered("PUT", key, error) from error
        except _ANSWERS as error:
            raise _unanswered("PUT", key, error) from error
        return _plain(answer["ETag"])

    def list(self, prefix: str) -> Listing:
        """See `Store.list`."""
        objects: list[Listed] = []
        dates: list[datetime] = []
        try:
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._location + prefix):
                dates.append(_date("LIST", prefix, page))
                objects += [
                    Listed(
                        key=one["Key"][len(self._location) :], etag=_plain(one["ETag"]), modified=one["LastModified"]
                    )
                    for one in page.get("Contents", [])
                ]
        except (ClientError, *_ANSWERS) as error:
            raise _unanswered("LIST", prefix, error) from error
        return Listing(objects=objects, date=dates[0], pages=len(dates))


def _plain(etag: str) -> str:
    """S3 quotes ETags, other stores not always."""
    return etag.removeprefix("W/").strip('"')


def _date(verb: str, key: str, answer: Any) -> datetime:
    """When the server answered, by its own clock (F4)."""
    text = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        return parsedate_to_datetime(text)
    except ValueError as error:
        raise UnansweredError(f"{verb} {key}: the answer's Date is {text!r}") from error


def _unanswered(verb: str, key: str, error: Exception) -> UnansweredError:
    if isinstance(error, ClientError):
        status = error.response["ResponseMetadata"].get("HTTPStatusCode")
        return UnansweredError(f"{verb} {key}: {status} {error.response['Error']['Code']}")
    return UnansweredError(f"{verb} {key}: {type(error).__name__}")
