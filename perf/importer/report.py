"""The results as one page of Markdown: a table for each part, ratios to the peer, the machine in words."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from perf.importer.process import Series

MEGABYTE, MIB = 1e6, 1 << 20
Measured = Mapping[str, Series]
_LABELS = {
    "longhaul": "Longhaul, without messages",
    "longhaul_messages": "Longhaul, with messages",
    "longhaul, with messages": "Longhaul, with messages",
    "longhaul, with messages, again": "Longhaul, with messages, unchanged log again (`--force true`)",
    "zstd_and_scan": "limit: zstd and a msgspec scan",
    "zstd": "limit: zstd alone",
    "peer": "peer (SQLAlchemy upserts of 300), without messages",
    "peer, with messages": "peer, with messages",
    "sqlalchemy_bulk": "SQLAlchemy bulk insert",
    "sqlalchemy_upsert": "SQLAlchemy upserts of 300",
}


class Report:
    """Collects the parts in the order in which they were measured."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._parts: list[str] = []

    def reading(self, log: Path, json_bytes: int, found: Measured) -> None:
        """Readers over one log; ratios of CPU seconds to `read_eval_log`."""
        title = f"Reading {log.stem}: {json_bytes / MEGABYTE:.1f} MB of JSON"
        rows = [
            (
                _LABELS.get(name, f"inspect_ai `{name}`"),
                f"{json_bytes / MEGABYTE / series.cpu_seconds:.0f}",
                _spread(series, "cpu_seconds"),
                _mib(series.peak_bytes),
                f"{found['read_eval_log'].cpu_seconds / series.cpu_seconds:.0f}×",
            )
            for name, series in found.items()
        ]
        self._table(title, ("", "MB/CPU-s", "CPU s", "peak MiB", "CPU to `read_eval_log`"), rows)

    def importing(self, log: Path, json_bytes: int, found: Measured) -> None:
        """Whole imports; ratios of wall time and CPU seconds to the peer without messages."""
        peer = found["peer"]
        rows = [
            (
                _LABELS[name],
                _spread(series, "wall_seconds"),
                _spread(series, "cpu_seconds"),
                _mib(series.peak_bytes),
                f"{peer.wall_seconds / series.wall_seconds:.0f}×",
                f"{peer.cpu_seconds / series.cpu_seconds:.0f}×",
            )
            for name, series in found.items()
        ]
        title = f"Importing {log.stem} ({json_bytes / MEGABYTE:.1f} MB of JSON) into an empty Postgres with all indexes"
        self._table(title, ("", "wall s", "CPU s", "peak MiB", "wall to peer", "CPU to peer"), rows)

    def loaded(self, log: Path, found: Measured) -> None:
        """Imports timed inside their processes; ratios as for whole ones."""
        told = {
            name: [[float(one.output.split()[at]) for one in series.runs] for at in (-2, -1)]
            for name, series in found.items()
        }
        base = [statistics.median(values) for values in told["peer"]]
        rows = [
            (
                _LABELS[name],
                *(_values(values) for values in both),
                *(f"{peer / statistics.median(values):.0f}×" for peer, values in zip(base, both, strict=True)),
            )
            for name, both in told.items()
        ]
        title = f"Importing {log.stem} likewise, timed inside the process once its libraries are loaded"
        self._table(title, ("", "wall s", "CPU s", "wall to peer", "CPU to peer"), rows)

    def writing(self, found: Measured) -> None:
        """Rows a second, without reading."""
        told = {name: [one.output.split()[-3:] for one in series.runs] for name, series in found.items()}
        rates = {
            name: [[int(rows) / float(seconds[at]) for rows, *seconds in runs] for at in (0, 1)]
            for name, runs in told.items()
        }
        base = statistics.median(rates["sqlalchemy_bulk"][1])
        rows = [
            (
                _LABELS[name] if name != "longhaul" else "Longhaul, whole transaction",
                *(f"{statistics.median(rate):,.0f} ({min(rate):,.0f}–{max(rate):,.0f})" for rate in both),
                f"{statistics.median(both[1]) / base:.1f}×",
            )
            for name, both in rates.items()
        ]
        columns = ("", "rows/s", "rows/CPU-s, Postgres' own included", "CPU to the bulk insert")
        self._table(f"Writing {int(told['longhaul'][0][0]):,} rows, reading left out", columns, rows)

    def starting(self, starts: Sequence[str], peer: Series) -> None:
        """From the process's start to the request for the log."""
        wall, cpu = ([float(one.split()[at]) for one in starts] for at in (0, 1))
        rows = [
            ("Longhaul: until the GET arrives, warehouse asked before", _values(wall), _values(cpu)),
            ("peer: until inspect_ai is imported", _spread(peer, "wall_seconds"), _spread(peer, "cpu_seconds")),
        ]
        self._table("Start", ("", "wall s", "CPU s"), rows)

    def long(self, name: str, json_bytes: int, series: Series) -> None:
        """One long sample."""
        row = (
            f"{series.wall_seconds:.0f}",
            f"{json_bytes / MEGABYTE / series.cpu_seconds:.0f}",
            _mib(series.peak_bytes),
        )
        title = f"Importing {name}, with messages ({json_bytes / MEGABYTE:,.0f} MB of JSON, one run)"
        self._table(title, ("wall s", "MB/CPU-s", "peak MiB"), [row])

    def disturbed(self, cores: float) -> None:
        """What else the machine did while the part reported last was measured."""
        self._parts.append(f"Other processes kept {cores:.2f} cores busy meanwhile.")

    def text(self) -> str:
        """The page."""
        names = ("inspect-ai", "msgspec", "zstandard", "isal", "psycopg", "SQLAlchemy")
        versions = ", ".join(f"{name} {version(name)}" for name in names)
        head = f"""# How fast the importer is

Written by `python -m perf.importer`; do not edit. Medians of {self._runs} runs, least and greatest in brackets. Every
subject is a process of its own, measured whole, its start included, unless a title says otherwise; all of a table run
in turn. Ratios are to the peer without messages, or to `read_eval_log`, which reads the greater log once only.

Machine: {os.cpu_count()} cores ({_processor()}), {_memory_gib():.0f} GiB, {platform.system()}, Python
{platform.python_version()}; {versions}. {datetime.now(UTC):%Y-%m-%d}."""
        return "\n\n".join([head, *self._parts]) + "\n"

    def _table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        lines = [" | ".join(row) for row in (columns, ["---"] * len(columns), *rows)]
        self._parts.append(f"## {title}\n\n" + "\n".join(f"| {line} |" for line in lines))


def _spread(series: Series, name: str) -> str:
    return _values([getattr(run, name) for run in series.runs])


def _values(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:,.0f}"


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        found = next((line for line in file if line.startswith("model name")), ": unknown")
    return found.split(":")[1].strip()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
