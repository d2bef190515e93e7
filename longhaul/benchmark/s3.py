"""Records in S3: written by an orchestrator between trials, read by a report (F8, F19)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from longhaul.benchmark.attempts import Named
from longhaul.benchmark.errors import StoreError
from longhaul.fleet.location import Location

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

# One try of at most 8 s: the orchestrator owns all further ones, and has 20 s to end after SIGINT (F13).
RECORDS = Config(connect_timeout=3, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
# Of a report, which waits for nobody: botocore owns the tries.
READING = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 4})


def client(config: Config) -> S3Client:
    """A client of its own, so that it shares no connection with leases."""
    return boto3.client("s3", config=config)


class S3Folder:
    """Objects below a location: a `Remote` of records, and the `Source` of a report."""

    def __init__(self, client: S3Client, location: Location) -> None:
        self._client, self._location = client, location

    def put(self, name: str, body: bytes) -> str:
        """See `Remote.put`. Every name is written with one content only, so no condition is needed."""
        with _asking("PUT", name):
            answer = self._client.put_object(
                Bucket=self._location.bucket,
                Key=self._location.prefix + name,
                Body=body,
                ContentType="application/json",
            )
            return answer["ETag"].strip('"')

    def list(self) -> Sequence[Named]:
        """See `Source.list`."""
        found = []
        prefix = self._location.prefix
        with _asking("LIST", prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._location.bucket, Prefix=prefix
            ):
                found += [
                    Named(name=one["Key"][len(prefix) :], etag=one["ETag"].strip('"'))
                    for one in page.get("Contents", [])
                ]
        return found

    def get(self, name: str) -> tuple[bytes, str]:
        """See `Source.get`."""
        with _asking("GET", name):
            answer = self._client.get_object(Bucket=self._location.bucket, Key=self._location.prefix + name)
            return answer["Body"].read(), answer["ETag"].strip('"')


@contextlib.contextmanager
def _asking(verb: str, name: str) -> Iterator[None]:
    """Whatever an answer can be instead of a success: one type. Half an answer has many (S14)."""
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        raise StoreError(f"{verb} {name}: {status} {error.response['Error'].get('Code')}") from error
    except (BotoCoreError, ResponseParserError, HTTPError, OSError) as error:
        raise StoreError(f"{verb} {name}: {type(error).__name__}: {error}") from error
