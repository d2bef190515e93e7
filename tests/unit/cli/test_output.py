"""What reaches a terminal (R20 to R22)."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from longhaul.cli import output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("evals/a b+%2B.eval", "evals/a b+%2B.eval"),
        ("é 語 #?\\", "é 語 #?\\"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\x07\r\n\t\x00\x7f", "a\\x07\\r\\n\\t\\x00\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevals", "\\u202eevals"),
        ("\u2028x", "\\u2028x"),
        ("\ud800", "\\ud800"),
    ],
)
def test_nothing_that_a_terminal_obeys(text: str, shown: str) -> None:
    assert output.safe(text) == shown


def test_raw_lines_are_raw_in_a_pipe_and_safe_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.put_raw("key\x1b[31m\terror\ncause \ud800")
    assert capsys.readouterr().out == "key\x1b[31m\terror\ncause \ufffd\ufffd\ufffd\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    output.put_raw("key\x1b[31m\terror\ncause")
    assert capsys.readouterr().out == "key\\x1b[31m\terror\ncause\n"


def test_tables_are_safe_and_never_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    output.put_table(("KEY", "N"), [("evals/" + "x" * 300 + "\x1b[31m[bold]", None)], right=("N",))
    out = capsys.readouterr().out
    assert "x" * 300 + "\\x1b[31m[bold]" in out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def test_json_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.put_json({"key": "\x1b[31mé", "at": datetime(2026, 6, 1, tzinfo=UTC)})
    out = capsys.readouterr().out
    assert "\\u001b[31m\\u00e9" in out
    assert "2026-06-01T00:00:00+00:00" in out


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 1024**3, "3.0 GiB"), (5e15, "4547.5 TiB")]
)
def test_sizes(value: float, text: str) -> None:
    assert output.sized(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.4, "0 s"), (61, "1 min 01 s"), (3661, "1 h 01 min")])
def test_durations(value: Any, text: str) -> None:
    assert output.lasting(value) == text


def test_a_reader_that_has_gone_ends_no_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("click.echo", gone)
    output.say("between upload and start")
    with pytest.raises(BrokenPipeError):
        output.put("data")
