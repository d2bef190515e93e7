"""Fixtures of the re-import tests: an S3 with both buckets, and a state machine that does as it is told."""

from __future__ import annotations

from collections.abc import Iterator
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


@pytest.fixture
def s3(aws: None) -> Any:
    client = boto3.client("s3")
    client.create_bucket(Bucket=LOGS)
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def sfn() -> FakeStepFunctions:
    return FakeStepFunctions()
