"""Texts that a log holds once and refers to as `attachment://<hash>` (old logs: `tc://<hash>`).

Every reference is replaced by what it stands for before anything is stored (case L15). One that leads nowhere becomes a
note that says so, never a text that looks like a reference.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Raw

from longhaul.evallog import records
from longhaul.evallog.clean import storable
from longhaul.evallog.errors import OversizedValueError

MAX_ATTACHMENT_BYTES = 32 << 20  # of one, and of all that one value refers to (W7)
_REFERENCE = re.compile(rb'"(?:attachment|tc)://([0-9a-fA-F]{32})"')
REFERENCE_STARTS = ("attachment://", "tc://")
_TEXT_REFERENCE = re.compile(r"(?:attachment|tc)://([0-9a-fA-F]{32})\Z")


class Attachments(Protocol):
    """Attachments by hash, each a JSON string as it stands in the log."""

    def get(self, name: str, /) -> bytes | None:
        """The JSON string, or None."""


class HeldAttachments:
    """Attachments of a sample that was decoded in one go."""

    def __init__(self, held: Mapping[str, Raw] | None) -> None:
        self._held = held or {}

    def get(self, name: str, /) -> bytes | None:
        """The JSON string, or None."""
        raw = self._held.get(name)
        return None if raw is None else bytes(raw)


class SpooledAttachments:
    """Attachments of a large sample, kept on disk; only where each stands is kept in memory (W7)."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        """Keep one attachment."""
        start = self._file.seek(0, 2)
        for piece in pieces:
            self._file.write(piece)
        self._places[name] = (start, self._file.tell() - start)

    def get(self, name: str, /) -> bytes | None:
        """The JSON string, or None."""
        if name not in self._places:
            return None
        start, length = self._places[name]
        if length > MAX_ATTACHMENT_BYTES:
            raise OversizedValueError(f"an attachment of {length} bytes is more than a column takes")
        self._file.seek(start)
        return storable(self._file.read(length))

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()


def resolve_json(raw: bytes | None, attachments: Attachments) -> bytes | None:
    """`raw` with every string that is a reference replaced."""
    if raw is None or b"://" not in raw:
        return raw
    left = MAX_ATTACHMENT_BYTES

    def found(match: re.Match[bytes]) -> bytes:
        nonlocal left
        text = _found(match[1].decode(), attachments)
        left -= len(text)
        if left < 0:
            raise OversizedValueError(f"attachments of one value: more than {MAX_ATTACHMENT_BYTES >> 20} MiB")
        return text

    return _REFERENCE.sub(found, raw)


def resolve_text(text: str | None, attachments: Attachments) -> str | None:
    """`text`, or what it refers to."""
    if text is None or not text.startswith(REFERENCE_STARTS):
        return text
    match = _TEXT_REFERENCE.match(text)
    return records.text.decode(_found(match[1], attachments)) if match else text


def _found(name: str, attachments: Attachments) -> bytes:
    return attachments.get(name) or f'"[the log lacks attachment {name}]"'.encode()
