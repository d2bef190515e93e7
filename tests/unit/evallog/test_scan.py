"""The walk over a document in pieces agrees with reading it whole, wherever the pieces end (W7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.evallog.errors import DamagedLogError
from longhaul.evallog.scan import Cursor, TooLargeError

TEXT = st.text(st.sampled_from('ab"\\{}[],: é\n'), max_size=9)
VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def pieces(data: bytes, length: int) -> Iterator[bytes]:
    return (data[at : at + length] for at in range(0, len(data), length))


@given(st.dictionaries(TEXT, VALUES, max_size=5), st.integers(1, 40), st.sampled_from([None, 1]), st.data())
def test_reading_skipping_and_walking_agree_with_json(
    document: dict[str, Any], length: int, indent: int | None, data: st.DataObject
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False).encode()
    cursor = Cursor(pieces(text, length))
    found = {}
    for key in cursor.keys():  # noqa: SIM118
        value = document[key]
        how = data.draw(st.sampled_from(["read", "skip", "pieces", "small"]))
        if how == "skip":
            cursor.skip()
            found[key] = value
        elif how == "pieces":
            found[key] = json.loads(b"".join(cursor.pieces()))
        elif how == "small":
            try:
                found[key] = json.loads(cursor.read(3))
            except TooLargeError:
                found[key] = json.loads(cursor.read(1 << 20))
        elif isinstance(value, list):
            found[key] = [json.loads(cursor.read(1 << 20)) for _ in cursor.items()]
        else:
            found[key] = json.loads(cursor.read(1 << 20))
    assert found == document
    with pytest.raises(DamagedLogError):
        cursor.peek()


def test_a_long_string_is_skipped_without_being_kept() -> None:
    def document() -> Iterator[bytes]:
        yield b'{"long": "'
        for _ in range(200):
            yield b"x" * (1 << 20)
        yield b'", "short": 1}'

    cursor = Cursor(document())
    assert [key for key in cursor.keys() if not cursor.skip()] == ["long", "short"]  # noqa: SIM118


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b'{"a', b'{"a"', b'{"a":', b'{"a":[1', b'{"a":"x', b'{"a" 1}', b"{1:2}", b'{"a":1 2}', b'{"a":,}'),
        *(b'{"\\q": 1}', b'{"\xff\\x": 1}', b'{"%s": 1}' % (b"k" * (2 << 20))),
    ],
)
def test_broken_documents_are_damage(text: bytes) -> None:
    cursor = Cursor([text])
    with pytest.raises(DamagedLogError):
        [cursor.skip() for _ in cursor.keys()]  # noqa: SIM118


def test_keys_are_cleaned_like_values() -> None:
    """A lone surrogate, a NUL and bytes that are no UTF-8 in a key are no damage (case L06)."""
    cursor = Cursor([b'{"a\\u0000\\ud800": 1, "\xff": 2}'])
    assert [key for key in cursor.keys() if not cursor.skip()] == ["a\ufffd", "\ufffd"]  # noqa: SIM118


# Elements that begin alike and hold, in strings and deeper, what looks like the beginning of a next one.
ALIKE = st.lists(
    st.fixed_dictionaries(
        {"uuid": TEXT | st.just('},{"uuid":"') | st.just('"},{"uuid":1},')},
        optional={"nested": st.lists(st.fixed_dictionaries({"uuid": TEXT}), max_size=3), "b": VALUES},
    ),
    max_size=12,
)


@given(ALIKE | st.lists(VALUES, max_size=6), st.integers(1, 400), st.sampled_from([",", ", "]), st.integers(0, 200))
def test_elements_agree_with_json(elements: list[Any], length: int, comma: str, limit: int) -> None:
    """Whatever the guess at where elements end; those beyond the limit are left to the caller, who skips or reads."""
    text = json.dumps([elements, "end"], separators=(comma, ":"), ensure_ascii=False).encode()
    cursor = Cursor(pieces(text, length))
    outer = cursor.items()
    next(outer)
    found = []
    for number, element in enumerate(cursor.elements(limit)):
        if element is None:
            assert len(json.dumps(elements[number], separators=(comma, ":"), ensure_ascii=False).encode()) > limit
            element = cursor.read(1 << 20)
        else:
            assert len(element) <= limit
        found.append(json.loads(element))
    assert found == elements
    next(outer)
    assert json.loads(cursor.read(9)) == "end"


@pytest.mark.parametrize("odd", [b"NaN", b'"\\ud800"', b"1e999"])
def test_elements_with_what_a_strict_parser_refuses(odd: bytes) -> None:
    """Case L04: they are read one by one then."""
    element = b'{"uuid":%s}' % odd
    cursor = Cursor([b"[" + b",".join([element] * 5) + b"]"])
    assert list(cursor.elements(99)) == [element] * 5


@pytest.mark.parametrize("depth", [1, 6, 11, 12, 13, 40, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":[', b"]}"), (b'{"a":', b"}"), (b"[", b"]")])
@pytest.mark.parametrize("length", [7, 1 << 20])
def test_nesting_of_any_depth(depth: int, length: int, opening: bytes, closing: bytes) -> None:
    """Deeper than the pattern for whole values goes, and than Python's own stack."""
    value = opening * depth + b"1" + closing * depth
    document = b'{"deep":%s,"after":1}' % value
    cursor = Cursor(pieces(document, length))
    assert [key for key in cursor.keys() if not cursor.skip()] == ["deep", "after"]  # noqa: SIM118
    cursor = Cursor(pieces(document, length))
    assert [cursor.read(1 << 30) for _ in cursor.keys()] == [value, b"1"]  # noqa: SIM118


def test_what_is_skipped_may_have_keys_of_any_length() -> None:
    key = b"k" * (2 << 20)
    cursor = Cursor(pieces(b'{"skipped":{"%s":[1,{"x":2}]},"after":1}' % key, 1 << 20))
    assert [name for name in cursor.keys() if not cursor.skip()] == ["skipped", "after"]  # noqa: SIM118
