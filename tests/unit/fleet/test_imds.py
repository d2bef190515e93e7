"""The metadata service's client against a service that really misbehaves (S58)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from longhaul.fleet.imds import Metadata, MetadataError
from longhaul.fleet.machine import Identity, Lifecycle
from tests.unit.fleet.metadata_server import META, TOKEN, MetadataServer, metadata_server

ITEM = f"{META}tags/instance/KeepHost"
TROUBLE = ["hang", "reset", "drip", "drip of a head", "half", "half a head", "no HTTP", "flood", 400, 403, 500, 503]


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    """A service that behaves, so far."""
    with metadata_server() as running:
        yield running


@pytest.fixture
def metadata(server: MetadataServer, monkeypatch: pytest.MonkeyPatch) -> Metadata:
    """A client, told where to ask as any AWS client is."""
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint + "/")
    return Metadata()


def test_a_token_comes_first_and_is_kept(server: MetadataServer, metadata: Metadata) -> None:
    """F24: IMDSv2 alone; an item that is not there is none."""
    server.items[ITEM] = "true"
    assert metadata.item("tags/instance/KeepHost") == "true"
    assert metadata.item("spot/instance-action") is None
    assert server.requests == [f"PUT {TOKEN}", f"GET {ITEM}", f"GET {META}spot/instance-action"]


def test_what_an_instance_is(server: MetadataServer, metadata: Metadata) -> None:
    """From its identity document and its way of being paid for."""
    expected = Identity(
        instance="i-0123456789abcdef0", lifecycle=Lifecycle.SPOT, instance_type="m7i.large", zone="us-west-2b"
    )
    assert metadata.identity() == expected
    assert metadata.region() == "us-west-2"
    server.items[f"{META}instance-life-cycle"] = "on-demand"
    assert metadata.identity().lifecycle is Lifecycle.ON_DEMAND
    server.items["/latest/dynamic/instance-identity/document"] = "{}"
    with pytest.raises(MetadataError, match="identity document"):
        metadata.identity()


def test_s58_an_expired_token_is_replaced(server: MetadataServer, metadata: Metadata) -> None:
    """S58: in the same call; a service that takes none is an error and not a loop."""
    server.items[ITEM] = "true"
    assert metadata.item("tags/instance/KeepHost") == "true"
    server.forget_tokens()
    assert metadata.item("tags/instance/KeepHost") == "true"
    server.trouble[ITEM] = 401
    server.requests.clear()
    with pytest.raises(MetadataError, match="401"):
        metadata.item("tags/instance/KeepHost")
    assert len(server.requests) <= 4
    server.trouble.clear()
    assert metadata.item("tags/instance/KeepHost") == "true"


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("path", [ITEM, TOKEN])
def test_trouble_ends_in_time_and_as_one_type(
    server: MetadataServer, metadata: Metadata, path: str, trouble: object
) -> None:
    """S14, S58, L4: whatever it does, also to the token's PUT, and whatever drips; the next call is well again."""
    server.items[ITEM] = "true"
    server.trouble[path] = trouble
    before = time.monotonic()
    with pytest.raises(MetadataError):
        metadata.item("tags/instance/KeepHost", seconds=0.4)
    assert time.monotonic() - before < 5
    server.trouble.clear()
    assert metadata.item("tags/instance/KeepHost") == "true"


def test_an_answer_ends_where_it_said(server: MetadataServer, metadata: Metadata) -> None:
    """F12: a connection that stays open is not waited for."""
    server.items[ITEM], server.trouble[ITEM] = "true", "stays"
    assert metadata.item("tags/instance/KeepHost", seconds=2) == "true"


def test_no_call_takes_more_than_two_seconds(server: MetadataServer, metadata: Metadata) -> None:
    """F12: whatever time the caller has."""
    server.trouble[TOKEN] = "drip"
    before = time.monotonic()
    with pytest.raises(MetadataError, match=r"in time|timed out"):
        metadata.item("tags/instance/KeepHost", seconds=60)
    assert time.monotonic() - before < 10


def test_nobody_there() -> None:
    """On a machine that is no instance."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(MetadataError, match="ConnectionRefused"):
        Metadata(f"http://127.0.0.1:{port}").item("x")
    with pytest.raises(MetadataError, match="no http:// address"):
        Metadata("169.254.169.254")
