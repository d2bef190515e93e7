"""Samples too large to be decoded in one go: read twice, a piece at a time (W7).

The first reading keeps the short fields, counts events and messages and puts the attachments on disk; the second one,
made only if messages are wanted, reads them one by one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from longhaul.evallog import records
from longhaul.evallog.attachments import SpooledAttachments
from longhaul.evallog.decode import decode
from longhaul.evallog.errors import OversizedValueError, UnsupportedLogError
from longhaul.evallog.header import Header
from longhaul.evallog.records import Event, SampleFields
from longhaul.evallog.sample import MessageRecord, Sample, Tally, build, message_record
from longhaul.evallog.scan import Cursor, TooLargeError

# Of one message, and of all short fields together: on the way into a row a text lies in memory up to six times (W7).
MAX_VALUE_BYTES = 32 << 20
MAX_EVENT_BYTES = 4 << 20  # longer events are walked field by field
_FIELDS = frozenset(SampleFields.__struct_encode_fields__)
_EVENT_FIELDS = frozenset(Event.__struct_encode_fields__)

Source = Callable[[], Iterator[bytes]]


@contextlib.contextmanager
def large(source: Source, name: str, header: Header, *, doubles_only: bool = False) -> Iterator[Sample]:
    """A sample read in pieces, valid within the context; `source` starts one more reading at each call."""
    attachments = SpooledAttachments()
    try:
        yield _read(source, name, header, attachments, doubles_only)
    finally:
        attachments.close()


def _read(source: Source, name: str, header: Header, attachments: SpooledAttachments, doubles_only: bool) -> Sample:
    tally = Tally()
    fields = Fields(name)
    message_count = message_lists = 0
    cursor = Cursor(source())
    for key in cursor.keys():  # noqa: SIM118 - not a mapping
        if key in _FIELDS:
            fields.add(key, cursor)
        elif key == "events":
            _count(cursor, tally, name, doubles_only)
        elif key == "attachments":
            _spool(cursor, attachments)
        elif key == "transcript":
            if cursor.peek() != b"{":
                cursor.skip()
                continue
            for part in cursor.keys():  # noqa: SIM118
                if part == "events":
                    _count(cursor, tally, name, doubles_only)
                elif part == "content":
                    _spool(cursor, attachments)
                else:
                    cursor.skip()
        elif key == "messages":
            message_lists += 1
            for element in cursor.elements(MAX_EVENT_BYTES):
                message_count += 1
                if element is None:
                    cursor.skip()
        elif key == "message_refs":
            raise UnsupportedLogError(f"{name} lies in several parts: such samples cannot be imported")
        else:
            cursor.skip()
    cursor.end()
    read = decode(records.sample_fields, fields.document(), name, doubles_only=doubles_only)

    def messages() -> Iterator[MessageRecord]:
        again = Cursor(source())
        left = message_lists
        for key in again.keys():  # noqa: SIM118
            if key != "messages":
                again.skip()
                continue
            for ordinal, element in enumerate(again.elements(MAX_VALUE_BYTES)):
                yield message_record(
                    _message(element, f"message {ordinal} of {name}", doubles_only), ordinal, attachments
                )
            left -= 1
            if not left:
                return  # the long rest need not be read again

    return build(read, header, tally, attachments, message_count, messages)


class Fields:
    """Short fields of a long record, as bytes; all together at most MAX_VALUE_BYTES or the limit given."""

    def __init__(self, record: str, limit_bytes: int | None = None) -> None:
        self._record, self._limit = record, MAX_VALUE_BYTES if limit_bytes is None else limit_bytes
        self._left = self._limit
        self._found: list[bytes] = []

    def add(self, key: str, cursor: Cursor) -> None:
        """Read the value at hand. Raises OversizedValueError."""
        try:
            self._found.append(b'"%s":%s' % (key.encode(), cursor.read(self._left)))
        except TooLargeError:
            limit = self._limit >> 20
            raise OversizedValueError(
                f"{key} of {self._record}: more than {limit} MiB with what comes before"
            ) from None
        self._left = max(self._left - len(self._found[-1]), 0)

    def document(self) -> bytes:
        """All of them as one object; they are forgotten here."""
        document = b"{%s}" % b",".join(self._found)
        self._found.clear()
        return document


def _message(data: bytes | None, name: str, doubles_only: bool) -> records.Message:
    if data is None:
        raise OversizedValueError(f"{name} is longer than {MAX_VALUE_BYTES >> 20} MiB")
    return decode(records.message, data, name, doubles_only=doubles_only)


def _spool(cursor: Cursor, attachments: SpooledAttachments) -> None:
    if cursor.peek() != b"{":
        cursor.skip()
        return
    for name in cursor.keys():  # noqa: SIM118
        attachments.add(name, cursor.pieces())


def _count(cursor: Cursor, tally: Tally, name: str, doubles_only: bool) -> None:
    if cursor.peek() != b"[":
        cursor.skip()
        return
    for element in cursor.elements(MAX_EVENT_BYTES):
        data = _short_event(cursor, name) if element is None else element
        tally.add([decode(records.event, data, f"an event of {name}", doubles_only=doubles_only)])
        if tally.let_go() > MAX_VALUE_BYTES:
            raise OversizedValueError(f"intermediate scores of {name}: more than {MAX_VALUE_BYTES >> 20} MiB")


def _short_event(cursor: Cursor, name: str) -> bytes:
    """The fields of a long event that are looked at; the rest is passed over."""
    fields = Fields(f"an event of {name}")
    for key in cursor.keys():  # noqa: SIM118
        if key in _EVENT_FIELDS:
            fields.add(key, cursor)
        else:
            cursor.skip()
    return fields.document()
