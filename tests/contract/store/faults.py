"""Faults below botocore, one for each attempt that it makes: its own retries stay in force."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from botocore.httpsession import URLLib3Session


class _Raw:
    """What botocore wants of a response that came over a wire."""

    def __init__(self, body: bytes) -> None:
        self._body = io.BytesIO(body)

    def stream(self, *arguments: Any, **named: Any) -> Iterator[bytes]:
        """Chunks."""
        yield self._body.read()

    def read(self, *arguments: Any, **named: Any) -> bytes:
        """All of it."""
        return self._body.read()


def _answer(url: str, status: int, code: str) -> AWSResponse:
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>injected</Message></Error>'.encode()
    headers = {"content-type": "application/xml", "content-length": str(len(body))}
    return AWSResponse(url, status, headers, _Raw(body))


# answers instead of carrying a request out
BEFORE = {
    "503": (503, "SlowDown"),
    "409": (409, "ConditionalRequestConflict"),
    "403 ExpiredToken": (403, "ExpiredToken"),
    "403 RequestTimeTooSkewed": (403, "RequestTimeTooSkewed"),
    "403 AccessDenied": (403, "AccessDenied"),
    "404 NoSuchBucket": (404, "NoSuchBucket"),
}


class Faults:
    """Injects one fault after another into a client's attempts."""

    def __init__(self, client: Any, *faults: str | None) -> None:
        self.faults = list(faults)
        self.attempts = 0
        self._wire = URLLib3Session(timeout=5)
        self._events = client.meta.events
        self._events.register("before-send.s3", self._handle)

    def __enter__(self) -> Faults:
        """Faults are injected already."""
        return self

    def __exit__(self, *error: object) -> None:
        """No more of them."""
        self._events.unregister("before-send.s3", self._handle)
        self._wire.close()

    def _handle(self, request: Any, **named: Any) -> AWSResponse | None:
        self.attempts += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            return None
        if fault in BEFORE:
            return _answer(request.url, *BEFORE[fault])
        if fault == "lost":
            raise ConnectionClosedError(endpoint_url=request.url)
        answer = self._wire.send(request)
        whole = answer.content
        if fault == "reset after it was carried out":
            raise ConnectionClosedError(endpoint_url=request.url)
        if fault == "time-out after it was carried out":
            raise ReadTimeoutError(endpoint_url=request.url)
        if fault == "500 after it was carried out":
            return _answer(request.url, 500, "InternalError")
        if fault == "no XML":
            return AWSResponse(request.url, 200, dict(answer.headers), _Raw(b"<ListBucketResult><Name>fl"))
        if fault == "half a body":
            return AWSResponse(request.url, answer.status_code, answer.headers, _Raw(whole[: len(whole) // 2]))
        if fault == "stalled":
            time.sleep(0.5)
            return AWSResponse(request.url, answer.status_code, answer.headers, _Raw(whole))
        raise ValueError(fault)
