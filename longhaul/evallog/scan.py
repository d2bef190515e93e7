"""A forward-only walk over a JSON document that comes in pieces, for documents too large to hold (W7).

What is skipped is neither kept nor decoded, however long a single string in it is; what is read is returned as bytes.
Nesting and strings are followed; whether the skipped parts are otherwise valid is left to the archive's checksums.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from longhaul.evallog.clean import storable
from longhaul.evallog.errors import DamagedLogError

MAX_KEY_BYTES = 1 << 20
_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb"[^ \t\r\n,:\[\]{}\"]*+")
_PLAIN = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_QUOTE, _OPEN, _CLOSE = 0x22, b"[{", b"]}"


class TooLargeError(Exception):
    """The value is longer than the limit; the cursor still stands at its beginning."""


class Cursor:
    """Stands at one place of a document; every method moves it forward."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._buffer = b""
        self._at = 0

    def keys(self) -> Iterator[str]:
        """Keys of the object at hand; before the next one the caller reads, walks or skips the value."""
        self._expect(b"{")
        if self.peek() == b"}":
            self._at += 1
            return
        while True:
            if self.peek() != b'"':
                raise DamagedLogError("the JSON is damaged: a key is missing")
            key = self._key()
            self._expect(b":")
            yield key
            if not self._another(b"}"):
                return

    def items(self) -> Iterator[None]:
        """Elements of the array at hand; before the next one the caller reads, walks or skips the value."""
        self._expect(b"[")
        if self.peek() == b"]":
            self._at += 1
            return
        while True:
            yield None
            if not self._another(b"]"):
                return

    def peek(self) -> bytes:
        """The next byte that is not space."""
        while True:
            found = _SPACE.match(self._buffer, self._at)
            assert found is not None  # noqa: S101 - the pattern matches the empty string
            self._at = found.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            if not self._refill():
                raise DamagedLogError("the JSON ends too early")

    def read(self, limit_bytes: int) -> bytes:
        """The value at hand. Raises TooLargeError, without having moved, when it is longer than `limit_bytes`."""
        kept: list[bytes] = []
        length = 0
        for piece in self._walk():
            kept.append(piece)
            length += len(piece)
            if length > limit_bytes:
                self._buffer = b"".join([*kept, self._buffer[self._at :]])
                self._at = 0
                raise TooLargeError
        return kept[0] if len(kept) == 1 else b"".join(kept)

    def skip(self) -> None:
        """Pass over the value at hand."""
        for _ in self._walk():
            pass

    def pieces(self) -> Iterator[bytes]:
        """The value at hand in pieces."""
        return self._walk()

    def _walk(self) -> Iterator[bytes]:
        """The value at hand in pieces, each as long as what is buffered; the cursor then stands behind them."""
        first = self.peek()
        if first not in b'"[{':
            yield from self._walk_scalar()
            return
        depth, in_string = 0, False
        at = self._at
        while True:
            buffer = self._buffer
            if in_string:
                at = _end(_STRING_REST, buffer, at)
                if at < len(buffer) and buffer[at] == _QUOTE:
                    in_string, at = False, at + 1
                    if depth == 0:
                        break
                    continue
            else:
                at = _end(_PLAIN, buffer, at) if depth else at
                if at < len(buffer):
                    byte = buffer[at]
                    at += 1
                    if byte == _QUOTE:
                        in_string = True
                    elif byte in _OPEN:
                        depth += 1
                    else:
                        depth -= 1
                        if depth == 0:
                            break
                    continue
            piece, self._at = buffer[self._at : at], at
            yield piece
            if not self._refill():
                raise DamagedLogError("the JSON ends too early")
            at = self._at
        piece, self._at = self._buffer[self._at : at], at
        yield piece

    def _walk_scalar(self) -> Iterator[bytes]:
        length = 0
        while True:
            end = _end(_SCALAR, self._buffer, self._at)
            piece, self._at = self._buffer[self._at : end], end
            length += len(piece)
            yield piece
            if end < len(self._buffer) or not self._refill():
                break
        if length == 0:
            raise DamagedLogError("the JSON is damaged: a value is missing")

    def _key(self) -> str:
        try:
            return msgspec.json.decode(storable(self.read(MAX_KEY_BYTES)), type=str)
        except TooLargeError:
            raise DamagedLogError(f"the JSON is damaged: a key is longer than {MAX_KEY_BYTES >> 20} MiB") from None
        except msgspec.DecodeError as error:
            raise DamagedLogError(f"the JSON is damaged: a key is no text: {error}") from error

    def _another(self, close: bytes) -> bool:
        found = self.peek()
        self._at += 1
        if found == b",":
            return True
        if found == close:
            return False
        raise DamagedLogError("the JSON is damaged: a comma is missing")

    def _expect(self, byte: bytes) -> None:
        if self.peek() != byte:
            raise DamagedLogError(f"the JSON is damaged: {byte.decode()} is missing")
        self._at += 1

    def _refill(self) -> bool:
        """Drop what has been passed and append the next piece; False at the end."""
        for chunk in self._chunks:
            if chunk:
                self._buffer = self._buffer[self._at :] + chunk
                self._at = 0
                return True
        return False


def _end(pattern: re.Pattern[bytes], buffer: bytes, at: int) -> int:
    found = pattern.match(buffer, at)
    assert found is not None  # noqa: S101 - the patterns match the empty string
    return found.end()
