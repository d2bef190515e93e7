"""Rows in Postgres' binary COPY format: nothing to escape here, nothing to parse there."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from longhaul.warehouse.tables import Kind, Table

HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_length = struct.Struct("!i").pack
_integer = struct.Struct("!ii").pack
_bigint = struct.Struct("!iq").pack
_float = struct.Struct("!id").pack


class ValueRangeError(ValueError):
    """A number does not fit its column."""


def encoder(table: Table) -> Callable[[int, Sequence[object]], bytes]:
    """A function that makes one COPY row of a sample's number in the log and the values of the table's columns."""
    steps = [_STEPS[kind] for _, kind in table.columns]
    start = struct.pack("!hi", len(steps) + 1, 4)
    number = struct.Struct("!i").pack
    names = table.names

    def encode(sequence: int, values: Sequence[object]) -> bytes:
        fields = [start, number(sequence)]
        try:
            for step, value in zip(steps, values, strict=True):
                fields.append(_NULL if value is None else step(value))
        except (struct.error, OverflowError) as error:
            raise ValueRangeError(f"{table.name}.{names[len(fields) - 2]}: a number is out of range") from error
        return b"".join(fields)

    return encode


def _text(value: object) -> bytes:
    assert isinstance(value, str)  # noqa: S101 - the row's maker keeps the column's order
    data = value.encode()
    return _length(len(data)) + data


def _json(value: object) -> bytes:
    assert isinstance(value, bytes)  # noqa: S101
    return b"%b\x01%b" % (_length(len(value) + 1), value)


def _time(value: object) -> bytes:
    assert isinstance(value, datetime)  # noqa: S101
    since = value - _EPOCH
    return _bigint(8, (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


_STEPS: dict[Kind, Callable[[object], bytes]] = {
    Kind.TEXT: _text,
    Kind.JSON: _json,
    Kind.INTEGER: lambda value: _integer(4, value),
    Kind.BIGINT: lambda value: _bigint(8, value),
    Kind.FLOAT: lambda value: _float(8, value),
    Kind.TIME: _time,
    Kind.BOOLEAN: lambda value: b"\0\0\0\1" + bytes([bool(value)]),
}
