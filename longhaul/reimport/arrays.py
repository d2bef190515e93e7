"""JSON arrays read in a stream: lists and result files can be too large for memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, Protocol

import ijson


class BrokenArrayError(ValueError):
    """The text is no JSON array, or not to its end."""


class Body(Protocol):
    """What S3 and files have in common."""

    def read(self, amount: int, /) -> bytes:
        """Return so many bytes at most."""


def read_array(body: Body) -> Iterator[Any]:
    """Yield the elements of a JSON array; BrokenArrayError where it stops being one."""
    elements = ijson.items(_ArrayReader(body), "item", use_float=True)
    while True:
        try:
            element = next(elements)
        except StopIteration:
            return
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise BrokenArrayError(type(error).__name__) from error
        yield element


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
