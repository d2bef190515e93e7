"""JSON arrays read in a stream: lists and result files can be too large for memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, Protocol

import ijson

# Nothing that we or Step Functions write is nested deeper; `ijson.items` would take 20 GB for 100,000 levels.
MAX_DEPTH = 100
_OPENING, _CLOSING = frozenset({"start_map", "start_array"}), frozenset({"end_map", "end_array"})


class BrokenArrayError(ValueError):
    """The text is no JSON array, or not to its end."""


class Body(Protocol):
    """What S3 and files have in common."""

    def read(self, amount: int, /) -> bytes:
        """Return so many bytes at most."""


def read_array(body: Body) -> Iterator[Any]:
    """Yield the elements of a JSON array; BrokenArrayError where it stops being one, or is nested beyond all reason."""
    events = ijson.basic_parse(_ArrayReader(body), use_float=True)
    builder = ijson.ObjectBuilder()
    depth = 0
    while True:
        try:
            event, value = next(events)
        except StopIteration:
            return
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise BrokenArrayError(type(error).__name__) from error
        if event in _OPENING:
            depth += 1
            if depth == 1:
                continue  # the array itself
            if depth > MAX_DEPTH:
                raise BrokenArrayError(f"nested more than {MAX_DEPTH} levels deep")
        elif event in _CLOSING:
            depth -= 1
            if depth == 0:
                continue
        builder.event(event, value)
        if depth == 1:
            yield builder.value
            builder = ijson.ObjectBuilder()


class _ArrayReader:
    """A source for ijson that insists on an array: of anything else ijson yields nothing and says nothing."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._began = False

    def read(self, amount: int) -> bytes:
        """Return the next bytes, without a byte order mark before the first that counts."""
        data = self._body.read(amount)
        if not self._began and (start := data.removeprefix(codecs.BOM_UTF8).lstrip()):
            self._began = True
            if not start.startswith(b"["):
                raise BrokenArrayError("no array")
            return start
        return data
