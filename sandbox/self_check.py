"""Conditional writes, tried before anybody relies on them: whoever ignores the conditions loses leases (case-Q06).

Source: "Conditional writes" of the S3 user guide. A sandbox that does not enforce them must not get ready.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from sandbox.state import SandboxError

RACERS = 16


def conditional_writes(s3: Any) -> None:
    """Create, refuse, replace and race in a bucket of its own; a SandboxError says what was not enforced."""
    bucket = f"self-check-{uuid.uuid4().hex}"
    region = s3.meta.region_name
    elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": region}} if region != "us-east-1" else {}
    s3.create_bucket(Bucket=bucket, **elsewhere)

    def write(key: str, **condition: str) -> str | None:
        try:
            return str(s3.put_object(Bucket=bucket, Key=key, Body=uuid.uuid4().bytes, **condition)["ETag"])
        except ClientError as error:
            if error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"):
                return None
            raise

    try:
        first = write("lease", IfNoneMatch="*")
        _demand(first is not None, "an object that does not exist cannot be created with If-None-Match: *")
        _demand(write("lease", IfNoneMatch="*") is None, "If-None-Match: * lets an object be replaced")
        second = write("lease", IfMatch=str(first))
        _demand(second is not None, "If-Match refuses the ETag that the object has")
        _demand(write("lease", IfMatch=str(first)) is None, "If-Match accepts an ETag that the object had before")
        winners = _race(lambda: write("race", IfNoneMatch="*"))
        _demand(winners == 1, f"of {RACERS} that create one object at once {winners} win")
    finally:
        for key in ("lease", "race"):
            s3.delete_object(Bucket=bucket, Key=key)
        s3.delete_bucket(Bucket=bucket)


def _race(write: Callable[[], str | None]) -> int:
    with ThreadPoolExecutor(RACERS) as pool:
        return sum(etag is not None for etag in pool.map(lambda _: write(), range(RACERS)))


def _demand(true: bool, otherwise: str) -> None:
    if not true:
        raise SandboxError(f"this S3 does not enforce conditional writes, so no lease is safe on it: {otherwise}")
