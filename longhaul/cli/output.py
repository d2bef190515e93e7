"""What verbs print: data on stdout, talk on stderr, and nothing that a terminal would obey (R20 to R22)."""

from __future__ import annotations

import contextlib
import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}  # controls, direction marks, surrogates, line separators


def safe(text: str) -> str:
    """Return text in which every control character is spelled out: keys and causes are other people's data."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def say(text: str = "") -> None:
    """Tell the operator something, on stderr; line breaks are ours and stay.

    A reader that has gone (`2>&1 | head`) must not end a verb half-way, such as between upload and start.
    """
    with contextlib.suppress(BrokenPipeError):
        click.echo("\n".join(safe(line) for line in text.split("\n")), err=True)


def warn(text: str) -> None:
    """Warn the operator, on stderr."""
    say(f"Warning: {text}")


def put(text: str) -> None:
    """Print a line of data on stdout, made safe."""
    click.echo(safe(text))


def put_raw(text: str) -> None:
    """Print a line of data for another program; made safe only if a person reads it on a terminal."""
    if sys.stdout.isatty():
        click.echo("\n".join("\t".join(map(safe, line.split("\t"))) for line in text.split("\n")))
    else:
        line = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        click.echo(line.encode() + b"\n", nl=False)


def put_json(value: Any) -> None:
    """Print a value as JSON; non-ASCII and control characters are escaped by JSON itself."""
    click.echo(json.dumps(value, indent=2, default=_plain))


def put_table(headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Print a table on stdout, as wide as the terminal; in a pipe no line is cut."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        numeric = heading in right
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in rows:
        table.add_row(*(Text(safe(str(cell))) if cell is not None else Text("-") for cell in row))
    if not sys.stdout.isatty():
        console.width = 10_000
    console.print(table)


def when(moment: datetime | None) -> str:
    """Return a time as a person reads it, in local time with its zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if moment else "-"


def lasting(seconds: float) -> str:
    """Return a duration as a person reads it."""
    whole = timedelta(seconds=round(seconds))
    hours, rest = divmod(int(whole.total_seconds()), 3600)
    minutes, second = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {second:02} s" if minutes else f"{second} s"


def sized(size_bytes: float) -> str:
    """Return a size as a person reads it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def counted(number: int, noun: str) -> str:
    """Return "1 log", "2 logs", "1,000 logs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")
