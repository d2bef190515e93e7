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

MAX_VALUE_BYTES = 64 << 20  # of one column's value, or one message
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
    fields: list[bytes] = []
    message_count = 0
    cursor = Cursor(source())
    for key in cursor.keys():  # noqa: SIM118 - not a mapping
        if key in _FIELDS:
            fields.append(b'"%s":%s' % (key.encode(), _value(cursor, f"{key} of {name}")))
        elif key == "events":
            _count(cursor, tally)
        elif key == "attachments":
            _spool(cursor, attachments)
        elif key == "transcript":
            for part in cursor.keys():  # noqa: SIM118
                {"events": _count_into(tally), "content": _spool_into(attachments)}.get(part, Cursor.skip)(cursor)
        elif key == "messages":
            for _ in cursor.items():
                cursor.skip()
                message_count += 1
        elif key == "message_refs":
            raise UnsupportedLogError(f"{name} lies in several parts: such samples cannot be imported")
        else:
            cursor.skip()
    read = decode(records.sample_fields, b"{%s}" % b",".join(fields), name, doubles_only=doubles_only)
    fields.clear()

    def messages() -> Iterator[MessageRecord]:
        again = Cursor(source())
        for key in again.keys():  # noqa: SIM118
            if key != "messages":
                again.skip()
                continue
            for ordinal, _ in enumerate(again.items()):
                data = _value(again, f"message {ordinal} of {name}")
                message = decode(records.message, data, f"message {ordinal} of {name}", doubles_only=doubles_only)
                yield message_record(message, ordinal, attachments)

    return build(read, header, tally, attachments, message_count, messages)


def _value(cursor: Cursor, what: str) -> bytes:
    try:
        return cursor.read(MAX_VALUE_BYTES)
    except TooLargeError:
        raise OversizedValueError(f"{what} is longer than {MAX_VALUE_BYTES >> 20} MiB") from None


def _count_into(tally: Tally) -> Callable[[Cursor], None]:
    return lambda cursor: _count(cursor, tally)


def _spool_into(attachments: SpooledAttachments) -> Callable[[Cursor], None]:
    return lambda cursor: _spool(cursor, attachments)


def _spool(cursor: Cursor, attachments: SpooledAttachments) -> None:
    if cursor.peek() != b"{":
        cursor.skip()
        return
    for name in cursor.keys():  # noqa: SIM118
        attachments.add(name, cursor.pieces())


def _count(cursor: Cursor, tally: Tally) -> None:
    if cursor.peek() != b"[":
        cursor.skip()
        return
    for _ in cursor.items():
        try:
            data = cursor.read(MAX_EVENT_BYTES)
        except TooLargeError:
            data = _short_event(cursor)
        tally.add([decode(records.event, data, "an event")])


def _short_event(cursor: Cursor) -> bytes:
    """The fields of a long event that are looked at; the rest is passed over."""
    fields = []
    for key in cursor.keys():  # noqa: SIM118
        if key in _EVENT_FIELDS:
            fields.append(b'"%s":%s' % (key.encode(), _value(cursor, f"{key} of an event")))
        else:
            cursor.skip()
    return b"{%s}" % b",".join(fields)
