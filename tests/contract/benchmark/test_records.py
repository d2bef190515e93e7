"""Records in S3, whatever it answers (F19, S14)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from longhaul.benchmark import s3
from longhaul.benchmark.errors import StoreError
from longhaul.fleet.location import Location
from tests.contract.store.faults import Faults
from tests.sandbox.conftest import Bare

LOCATION = Location(bucket="records", prefix="a/b/")


def connect(bare: Bare, config: Config, url: str | None = None) -> Any:
    """A client with one of the two settings."""
    return boto3.client(
        "s3",
        endpoint_url=url or bare.env["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id=bare.env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=bare.env["AWS_SECRET_ACCESS_KEY"],
        config=config,
    )


@pytest.fixture
def client(bare: Bare) -> Iterator[Any]:
    """As an orchestrator has it."""
    client = connect(bare, s3.RECORDS)
    client.create_bucket(Bucket="records")
    yield client
    client.close()


def test_what_is_stored_can_be_read(client: Any) -> None:
    """F19, F20: names are below the location."""
    folder = s3.S3Folder(client, LOCATION)
    folder.put("checkpoint/x.json", b"{}")
    client.put_object(Bucket="records", Key="a/c/other.json", Body=b"{}")
    (listed,) = folder.list()
    assert listed.name == "checkpoint/x.json"
    assert folder.get(listed.name) == (b"{}", listed.etag)


@pytest.mark.parametrize(
    "fault",
    [
        "503",
        "403 ExpiredToken",
        "403 AccessDenied",
        "404 NoSuchBucket",
        "lost",
        "reset after it was carried out",
        "time-out after it was carried out",
        "500 after it was carried out",
    ],
)
def test_any_answer_but_success_is_one_error_after_one_try(client: Any, fault: str) -> None:
    """F19: the orchestrator owns the tries, and looks at the deadline before each."""
    folder = s3.S3Folder(client, LOCATION)
    with Faults(client, fault) as faults:
        with pytest.raises(StoreError, match="PUT x"):
            folder.put("x", b"1")
        assert faults.attempts == 1
    folder.put("x", b"1")
    assert folder.get("x")[0] == b"1"


@pytest.mark.parametrize("fault", ["half a body", "lost", "403 AccessDenied"])
def test_half_an_answer_is_an_error_too(client: Any, fault: str) -> None:
    """S14: it is no OSError."""
    folder = s3.S3Folder(client, LOCATION)
    folder.put("x", b"1234")
    with Faults(client, fault), pytest.raises(StoreError, match="GET x"):
        folder.get("x")
    with Faults(client, "no XML"), pytest.raises(StoreError, match="LIST"):
        folder.list()


def test_a_store_that_never_answers_is_given_up(bare: Bare) -> None:
    """S25, F13: within seconds, as there are 20 after a SIGINT."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = connect(bare, s3.RECORDS, f"http://127.0.0.1:{server.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(StoreError):
            s3.S3Folder(client, LOCATION).put("x", b"1")
        assert time.monotonic() - began < 30
        client.close()
