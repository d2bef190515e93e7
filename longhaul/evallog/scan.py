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
ALIKE_BYTES = 8  # such as `{"uuid":`
SKIPPED_AT_ONCE_BYTES = 4 << 20
SKIPPED_BY_PARTS = 6  # levels; what lies deeper is walked, so that nesting costs no stack
_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb"[^ \t\r\n,:\[\]{}\"]*+")
_PLAIN = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_QUOTE, _OPEN = 0x22, b"[{"


def _whole_value(depth: int) -> re.Pattern[bytes]:
    """A string, array or object of at most `depth` levels that ends within the buffer."""
    string = rb'"(?:[^"\\]++|\\.)*+"'
    inside = rb'(?:[^"\[\]{}]++|%s)*+' % string
    for _ in range(depth - 1):
        inside = rb'(?:[^"\[\]{}]++|%s|[\[{]%s[\]}])*+' % (string, inside)
    return re.compile(rb"%s|[\[{]%s[\]}]" % (string, inside), re.DOTALL)


# Nearly every element of a transcript; what is deeper, or not all there yet, is walked: five times as slow.
_WHOLE = _whole_value(12)


_elements = msgspec.json.Decoder(list[msgspec.Raw])


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

    def elements(self, limit_bytes: int) -> Iterator[bytes | None]:
        """The elements of the array at hand; None for one longer than `limit_bytes`: the caller walks or skips it."""
        self._expect(b"[")
        if self.peek() == b"]":
            self._at += 1
            return
        searched: bytes | None = None
        while True:
            batch: list[msgspec.Raw] = []
            if self._buffer is not searched:
                searched = self._buffer
                batch = self._batch(limit_bytes)
            for raw in batch:
                yield bytes(raw)
            if not batch:
                try:
                    element: bytes | None = self.read(limit_bytes)
                except TooLargeError:
                    element = None
                yield element
            if not self._another(b"]"):
                return

    def end(self) -> None:
        """Read to the end, where nothing may follow; not before is a member's checksum known to fit."""
        while True:
            found = _SPACE.match(self._buffer, self._at)
            assert found is not None  # noqa: S101 - the pattern matches the empty string
            self._at = found.end()
            if self._at < len(self._buffer):
                raise DamagedLogError("something follows the end of the JSON document")
            if not self._refill():
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
        end = self._whole()
        if end and end - self._at <= limit_bytes:
            found, self._at = self._buffer[self._at : end], end
            return found
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
        self._skip(0)

    def _skip(self, level: int) -> None:
        end = self._whole()
        first = self._buffer[self._at : self._at + 1]
        if end:
            self._at = end
        elif level == SKIPPED_BY_PARTS or first not in (b"[", b"{"):
            for _ in self._walk():
                pass
        elif first == b"{":
            self._skip_object(level + 1)
        else:
            for element in self.elements(SKIPPED_AT_ONCE_BYTES):
                if element is None:
                    self._skip(level + 1)

    def _skip_object(self, level: int) -> None:
        self._expect(b"{")
        if self.peek() == b"}":
            self._at += 1
            return
        while True:
            self._skip(level)  # the key, however long
            self._expect(b":")
            self._skip(level)
            if not self._another(b"}"):
                return

    def pieces(self) -> Iterator[bytes]:
        """The value at hand in pieces."""
        return self._walk()

    def _batch(self, limit_bytes: int) -> list[msgspec.Raw]:
        """Elements of an array that are all in the buffer; the cursor then stands behind them. Empty if unsure.

        The elements of an array mostly begin alike: the last such beginning in the buffer is taken for the end of those
        before it. A strict parser says whether it is one: what it takes for a whole array cannot end inside a string or
        a deeper level.
        """
        self.peek()
        start = self._at
        end = self._buffer.rfind(b"," + self._buffer[start : start + ALIKE_BYTES], start)
        if not start < end <= start + limit_bytes:
            return []
        try:
            batch = _elements.decode(b"[%b]" % self._buffer[start:end])
        except msgspec.DecodeError:
            return []
        self._at = end
        return batch

    def _whole(self) -> int:
        """Where the value at hand ends; 0 if it must be walked to tell."""
        self.peek()
        found = _WHOLE.match(self._buffer, self._at)
        return found.end() if found else 0

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
