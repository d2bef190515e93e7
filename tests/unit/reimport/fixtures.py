"""Fixtures of the re-import tests: an S3 with both buckets, and a state machine that does as it is told."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.unit.reimport.fake_step_functions import FakeStepFunctions

LOGS, BUCKET = "logs-bucket", "reimport-bucket"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield


@functools.cache
def client(service: str) -> Any:
    """Return one client for all tests, made inside the first mock: making one costs more than a test."""
    return boto3.client(service)


@pytest.fixture
def s3(aws: None) -> Any:
    s3 = client("s3")
    s3.create_bucket(Bucket=LOGS)
    s3.create_bucket(Bucket=BUCKET)
    return s3


@pytest.fixture
def hook(s3: Any) -> Iterator[Callable[[str, Callable[..., Any]], None]]:
    """Register a handler of the S3 client's events for one test."""
    registered: list[tuple[str, Callable[..., Any]]] = []

    def register(event: str, handler: Callable[..., Any]) -> None:
        s3.meta.events.register(event, handler)
        registered.append((event, handler))

    yield register
    for event, handler in registered:
        s3.meta.events.unregister(event, handler)


@pytest.fixture
def sfn() -> FakeStepFunctions:
    return FakeStepFunctions()
