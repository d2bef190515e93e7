"""Keys files (R20, case-R03, "Bad input")."""

from __future__ import annotations

import pytest

from longhaul.reimport.errors import InvalidArgumentError
from longhaul.reimport.keys import read_keys, writable


def read(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return list(read_keys(data.splitlines(keepends=True), "logs", "keys.txt"))


def test_what_editors_write_is_accepted() -> None:
    """case-R03: a BOM, CRLF, spaces, comments and trailing blank lines leave clean keys."""
    text = "\ufeffevals/a/1.eval\r\n  evals/b/2.eval \r\n# a comment\r\n\r\ns3://logs/evals/c/3.eval\r\n\r\n\r\n\r\n"
    assert read(text) == ["evals/a/1.eval", "evals/b/2.eval", "evals/c/3.eval"]


def test_a_bom_before_a_comment() -> None:
    assert read("\ufeff# keys\nevals/a/1.eval") == ["evals/a/1.eval"]


@pytest.mark.parametrize("name", ["a b", "a+b", "%2B", "é", "a#b", "a?b", "a\\b", "a,b", "a'b", 'a"b', "..", "a\tb"])
def test_keys_are_literal(name: str) -> None:
    key = f"evals/{name}/log.eval"
    assert read(f"{key}\ns3://logs/{key}") == [key, key]


def test_all_problems_at_once_with_their_lines() -> None:
    text = "evals/a/1.eval\ns3://other/evals/a.eval\nlogs/a.eval\ns3://logs\n" + "evals/" + "é" * 510 + ".eval\n"
    with pytest.raises(InvalidArgumentError) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith("keys.txt has 4 bad lines:")
    for part in ("line 2: bucket other is not", "line 3: key is not below evals/", "line 4: ", "line 5: key has 1,031"):
        assert part in message


def test_the_limit_counts_bytes() -> None:
    longest = "evals/" + "é" * 509
    assert len(longest.encode()) == 1024
    assert read(longest) == [longest]
    with pytest.raises(InvalidArgumentError, match=r"line 1: key has 1,025 bytes"):
        read(longest + "a")


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match="line 2: not UTF-8 at byte 7"):
        read(b"evals/a.eval\nevals/\xff.eval\n")


def test_many_problems_are_counted() -> None:
    with pytest.raises(InvalidArgumentError, match=r"has 1,500 bad lines:(?s:.*)and 1,480 more") as caught:
        read("nope\n" * 1500)
    assert len(str(caught.value).splitlines()) == 22


def test_a_key_whose_line_would_say_something_else_is_not_writable() -> None:
    assert writable("evals/a b.eval", "logs")
    assert not writable("evals/a.eval ", "logs")
    assert not writable("evals/a\n.eval", "logs")
