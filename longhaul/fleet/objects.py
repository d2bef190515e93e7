"""What the fleet asks of an object store: reads, lists and conditional writes. It deletes nothing (F2, S24)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An object as one GET saw it."""

    body: bytes
    etag: str  # without quotes
    modified: datetime  # LastModified, in whole seconds of the server's clock
    date: datetime  # Date of the same answer, in whole seconds of the server's clock


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """An object as a LIST names it."""

    key: str
    etag: str
    modified: datetime


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Every object below a prefix, and when the server said so."""

    objects: Sequence[Listed]
    date: datetime  # Date of the first page's answer
    pages: int = 1


class Store(Protocol):
    """S3, or a simulation of it. Every method raises `UnansweredError` when it cannot say what happened."""

    def get(self, key: str) -> Found | None:
        """Return the object, None if there is none."""

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """Write if the object still has the ETag `replaces`, or does not exist if that is None.

        The new ETag is returned; None stands for a refusal (412, 404) and a conflict (409). Neither says that this
        write did not happen: it may be the second try of one that did (F3, S49).
        """

    def list(self, prefix: str) -> Listing:
        """Return every object whose key starts with the prefix, from every page."""
