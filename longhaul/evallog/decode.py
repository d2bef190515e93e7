"""Typed decoding that takes what Inspect writes: strict first, which nearly every record passes, then step by step."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from longhaul.evallog import clean
from longhaul.evallog.errors import DamagedLogError
from longhaul.evallog.records import NULL, Number

T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], data: bytes, name: str, *, doubles_only: bool = False) -> T:
    """Decode the record `name`; raw parts of the result are valid JSON that jsonb takes.

    `doubles_only` also replaces numbers that no double holds, for warehouses that refuse them. Raises DamagedLogError.
    """
    data = clean.storable(data)
    if doubles_only:
        data = clean.within_double(clean.finite(data))
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass  # a bare NaN, or a number beyond a double where a double is wanted, or damage
    try:
        return decoder.decode(clean.likely_finite(data))
    except (msgspec.DecodeError, RecursionError):
        pass  # the guess was wrong, or was not what was missing
    data = clean.finite(data)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        data = clean.within_double(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedLogError(f"{name} is not valid: {error}") from error
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise DamagedLogError(f"{name} is not as expected: {error}") from error


def optional(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a raw value; None for null."""
    if raw is NULL:  # what an absent field has
        return None
    data = bytes(raw)
    return None if data == b"null" else data


def number(value: float | str | None) -> float | None:
    """A number that may have been written as NaN or an infinity."""
    if isinstance(value, str):
        return {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.get(value)
    return value


def whole_number(value: Number) -> int | None:
    """A count; None when it is not a finite number."""
    if isinstance(value, int):
        return value
    found = number(value)
    if found is None or found != found or found in (float("inf"), float("-inf")):
        return None
    return int(found)
