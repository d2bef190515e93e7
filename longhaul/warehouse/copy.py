"""Rows in Postgres' binary COPY format: nothing to escape here, nothing to parse there."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

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
        try:
            fields = [_NULL if value is None else step(value) for step, value in zip(steps, values, strict=True)]
        except (struct.error, OverflowError) as error:
            name = next(name for name, step, value in zip(names, steps, values, strict=True) if _refuses(step, value))
            raise ValueRangeError(f"{table.name}.{name}: a number is out of range") from error
        return b"".join((start, number(sequence), *fields))

    return encode


def _refuses(step: Callable[[Any], bytes], value: object) -> bool:
    try:
        return value is not None and not step(value)
    except (struct.error, OverflowError):
        return True


# Each takes the one type that the row's maker has for the kind of column.
def _text(value: str) -> bytes:
    data = value.encode()
    return _length(len(data)) + data


def _json(value: bytes) -> bytes:
    return b"%b\x01%b" % (_length(len(value) + 1), value)


def _time(value: datetime) -> bytes:
    since = value - _EPOCH
    return _bigint(8, (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


_STEPS: dict[Kind, Callable[[Any], bytes]] = {
    Kind.TEXT: _text,
    Kind.JSON: _json,
    Kind.INTEGER: partial(_integer, 4),
    Kind.BIGINT: partial(_bigint, 8),
    Kind.FLOAT: partial(_float, 8),
    Kind.TIME: _time,
    Kind.BOOLEAN: lambda value: b"\0\0\0\1" + bytes([bool(value)]),
}
