"""Arrays read in a stream: equal to what json makes of them, refused where they are none, in bounded memory."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest

from longhaul.reimport.arrays import MAX_DEPTH, BrokenArrayError, read_array


def nested(levels: int, opening: str, closing: str) -> bytes:
    """An array whose last element is that deep, the array itself counted."""
    return b'[{"key": "fine"}, %b%b]' % (opening.encode() * (levels - 1), closing.encode() * (levels - 1))


@pytest.mark.parametrize(
    "elements",
    [
        [],
        [1, 1.5, -(2**62), True, None, "text", "", [], {}],
        [{"key": "a", "size": 3}, {"key": "b"}, [[1], {"x": [{}, [[]]]}], {"a": {"b": {"c": [1, 2, {"d": None}]}}}],
    ],
)
def test_elements_are_those_of_the_array(elements: list[object]) -> None:
    assert list(read_array(io.BytesIO(json.dumps(elements).encode()))) == elements


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":[', "]}")])
def test_nesting_beyond_all_reason_is_refused_after_what_came_before_it(opening: str, closing: str) -> None:
    """Case: a list nested 100,000 levels deep took 20 GB, and the operator's machine with it."""
    elements = read_array(io.BytesIO(nested(100_000, opening, closing)))
    tracemalloc.start()
    try:
        assert next(elements) == {"key": "fine"}
        with pytest.raises(BrokenArrayError, match="nested more than 100 levels deep"):
            next(elements)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_the_deepest_that_is_read() -> None:
    assert len(list(read_array(io.BytesIO(nested(MAX_DEPTH, "[", "]"))))) == 2
    with pytest.raises(BrokenArrayError):
        list(read_array(io.BytesIO(nested(MAX_DEPTH + 1, "[", "]"))))


@pytest.mark.parametrize("text", [b'{"a": 1}', b'"text"', b"1", b"[1", b'[{"a": ', b"[1] 2", b'["\xff"]', b"[1,]"])
def test_what_is_no_array_is_refused(text: bytes) -> None:
    with pytest.raises(BrokenArrayError):
        list(read_array(io.BytesIO(text)))
