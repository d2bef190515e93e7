"""The metadata service of an EC2 instance, version 2 only, with an end to every request (F12, S58)."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from longhaul.fleet.machine import Identity, Lifecycle, MachineError

ENDPOINT = "http://169.254.169.254"
REQUEST_SECONDS = 2.0  # for a whole request, however slowly its answer drips
TOKEN_SECONDS = 21_600  # that a token lasts
LARGEST_BYTES = 65_536  # of an answer

_TOKEN = "/latest/api/token"  # noqa: S105 - a path
_DOCUMENT = "/latest/dynamic/instance-identity/document"
_META = "/latest/meta-data/"


class MetadataError(MachineError):
    """The metadata service did not say what was asked."""


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    instance_id: str
    instance_type: str
    availability_zone: str
    region: str


class Metadata:
    """What the service says, each time that it is asked. One thread uses it at a time."""

    def __init__(self, endpoint: str | None = None) -> None:
        """Without an endpoint, that of the ordinary variable AWS_EC2_METADATA_SERVICE_ENDPOINT, else EC2's own."""
        endpoint = endpoint or os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or ENDPOINT
        parts = urlsplit(endpoint)
        if parts.scheme != "http" or not parts.hostname:
            raise MetadataError(f"the metadata service's endpoint {endpoint!r} is no http:// address")
        self.endpoint = endpoint
        self._address = (parts.hostname, parts.port or 80)
        self._token: str | None = None

    def item(self, path: str, *, seconds: float = REQUEST_SECONDS) -> str | None:
        """Return an item of the category `meta-data`; None if there is none (404).

        A token that the service does not know any more is replaced, once. All of it takes `seconds` at most, 2 s
        unless less is left to the caller, and `MetadataError` says what went wrong.
        """
        return self._get(_META + path, time.monotonic() + min(seconds, REQUEST_SECONDS))

    def identity(self) -> Identity:
        """What the instance is."""
        document = self._document()
        lifecycle = self.item("instance-life-cycle")
        return Identity(
            instance=document.instance_id,
            lifecycle=Lifecycle.SPOT if lifecycle == "spot" else Lifecycle.ON_DEMAND,
            instance_type=document.instance_type,
            zone=document.availability_zone,
        )

    def region(self) -> str:
        """Where it runs."""
        return self._document().region

    def _document(self) -> _Document:
        text = self._get(_DOCUMENT, time.monotonic() + REQUEST_SECONDS)
        try:
            return msgspec.json.decode((text or "").encode(), type=_Document)
        except msgspec.DecodeError as error:
            raise MetadataError(f"the instance's identity document is none: {error}") from error

    def _get(self, path: str, until: float) -> str | None:
        for fresh in (False, True):
            if self._token is None or fresh:
                self._token = self._new_token(until)
            status, text = _exchange(self._address, "GET", path, {"X-aws-ec2-metadata-token": self._token}, until)
            if status == 401:
                self._token = None
                continue
            if status == 404:
                return None
            if status != 200:
                raise MetadataError(f"GET {path}: {status}")
            return text
        raise MetadataError(f"GET {path}: 401, with a token that was just made")

    def _new_token(self, until: float) -> str:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        status, text = _exchange(self._address, "PUT", _TOKEN, headers, until)
        if status != 200 or not text or not text.isascii() or not text.isprintable():
            raise MetadataError(f"PUT {_TOKEN}: {status}")
        return text


class _Received:
    """A socket, as far as `HTTPResponse` needs one, on which all has arrived."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, *how: Any) -> io.BytesIO:
        """What arrived."""
        return io.BytesIO(self._received)


def _exchange(
    address: tuple[str, int], verb: str, path: str, headers: Mapping[str, str], until: float
) -> tuple[int, str]:
    """One request on a connection of its own, over at `until`: a time-out of each read would let it drip for ever."""
    what = f"{verb} {path}"
    lines = [f"{verb} {path} HTTP/1.1", f"Host: {address[0]}", "Connection: close", "Content-Length: 0"]
    request = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()
    try:
        with socket.create_connection(address, timeout=_left(what, until)) as connection:
            connection.sendall(request)
            received = b""
            while not _whole(received):
                connection.settimeout(_left(what, until))
                some = connection.recv(LARGEST_BYTES)
                if not some:
                    break
                received += some
                if len(received) > LARGEST_BYTES:
                    raise MetadataError(f"{what}: more than {LARGEST_BYTES} bytes")
        response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]  # as far as it is used
        with contextlib.closing(response):
            response.begin()
            return response.status, response.read().decode()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise MetadataError(f"{what}: {type(error).__name__}: {error}") from error


def _whole(received: bytes) -> bool:
    """Whether as much arrived as the answer announced; one that announces nothing ends with its connection."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return False


def _left(what: str, until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise MetadataError(f"{what}: no answer in time")
    return left
