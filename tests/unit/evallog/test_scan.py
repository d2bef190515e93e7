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
