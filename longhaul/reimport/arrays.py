"""JSON arrays read in a stream: lists and result files can be too large for memory."""

from __future__ import annotations

from typing import Protocol


class NotAnArrayError(ValueError):
    """The JSON text is no array."""


class Body(Protocol):
    """What S3 and files have in common."""

    def read(self, amount: int, /) -> bytes:
        """Return so many bytes at most."""


class ArrayReader:
    """A source for `ijson.items` that insists on an array: of anything else ijson yields nothing and says nothing."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._began = False

    def read(self, amount: int) -> bytes:
        """Return the next bytes; NotAnArrayError if the first that counts is not an opening bracket."""
        data = self._body.read(amount)
        if not self._began and (start := data.lstrip()):
            self._began = True
            if not start.startswith(b"["):
                raise NotAnArrayError
        return data
