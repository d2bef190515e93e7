"""JSON that Postgres takes, with nothing lost that could be kept."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.evallog import clean, records
from longhaul.evallog.decode import decode

TEXT = st.text(st.characters(codec=None, categories=None) | st.sampled_from('NaInfity-"\\u0{}[],:'), max_size=12)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def as_stored(value: Any) -> Any:
    """What the warehouse should hold of a value."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value if char != "\0")
    if isinstance(value, list):
        return [as_stored(one) for one in value]
    if isinstance(value, dict):
        return {as_stored(key): as_stored(one) for key, one in value.items()}
    return value


@given(DOCUMENTS)
def test_any_document_becomes_storable(document: Any) -> None:
    """NaN and infinities stay distinguishable, NUL goes, lone surrogates are replaced, all else stays (L04, L06)."""
    data = clean.finite(clean.storable(json.dumps(document).encode()))
    strict = json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is left"))
    assert strict == as_stored(json.loads(json.dumps(document)))


@given(TEXT)
def test_text_in_utf_8_with_surrogates_written_raw(text: str) -> None:
    data = clean.storable(json.dumps({"t": text}, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    found = json.loads(data)["t"]
    assert found.replace("\ufffd", "") == "".join(c for c in as_stored(text) if c != "\ufffd")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"[1e400,-1e400,1e-400]", b'["Infinity","-Infinity",0]'),
        (b'["1e400",1e100,1.0e300,12,-5,0.5e10]', b'["1e400",1e100,1.0e300,12,-5,0.5e10]'),
        (b"[1180591620717411303424]", b"[1180591620717411303424]"),
    ],
)
def test_numbers_beyond_a_double(before: bytes, after: bytes) -> None:
    assert clean.within_double(before) == after


def test_numbers_of_any_length_are_left_alone_at_first() -> None:
    data = b'{"a": 1180591620717411303424, "b": 1e400, "c": 0.1000000000000000055511151231257827}'
    assert clean.finite(clean.storable(data)) == data


@pytest.mark.timeout(20)
@pytest.mark.parametrize("data", [b'"\\' * 400_000, b'["NaN, ' * 200_000, b"[-" * 400_000, b"\\u0000\\" * 200_000])
def test_damaged_text_takes_linear_time(data: bytes) -> None:
    clean.finite(data)
    clean.storable(data)
    clean.within_double(data)


WORDS = st.sampled_from(
    ["NaN", "-Infinity", "Infinity", " NaN ", "[NaN, 1]", ":NaN,", "x NaN", '"NaN"', "-NaN", "\\", '"']
)
WORDY = st.recursive(
    st.floats() | WORDS | TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4)
)


@given(WORDY, st.sampled_from([None, 1]), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_a_guess_at_numbers_that_are_not_finite_is_right_or_no_json(
    document: Any, indent: int | None, separators: tuple[str, str]
) -> None:
    """Case L04: a text that holds the like makes the guess fail; it never changes a text."""
    data = clean.storable(json.dumps(document, indent=indent, separators=separators).encode())
    guess = clean.likely_finite(data)
    try:
        msgspec.json.decode(guess, type=msgspec.Raw)
    except msgspec.DecodeError:
        return
    assert guess == clean.finite(data)


def test_the_guess_is_right_for_what_inspect_writes() -> None:
    data = b'{"a":NaN,"b":[Infinity,-Infinity, NaN],"c":{"d":-Infinity},"e":"plain text, NaN."}'
    assert clean.likely_finite(data) == clean.finite(data)


def test_a_text_that_holds_the_like_is_left_alone_beside_a_bare_one() -> None:
    found = decode(records.score, b'{"value": NaN, "answer": "so [NaN, 1]: -Infinity ,"}', "a score")
    assert (bytes(found.value), found.answer) == (b'"NaN"', "so [NaN, 1]: -Infinity ,")
