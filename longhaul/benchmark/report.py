"""A job's summary as JSON, CSV and Markdown (B7)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import msgspec

from longhaul.benchmark.summary import PHASES, CaseSummary, Summary

JSON, CSV, MARKDOWN = "job-summary.json", "job-summary.csv", "job-summary.md"
NONE = "n/a"  # not 0: with one repetition there is no spread (case-B02)
_COLUMNS = (
    *("run", "job", "case", "scale", "n"),
    *("median", "low", "high", "mad", "minimum", "p95"),
    *PHASES,
    *("cpu_seconds", "peak_rss_bytes"),
    *("failed", "missing", "superseded"),
    *("hosts", "instance_types", "notes", "warnings"),
)


def files(summary: Summary) -> Mapping[str, bytes]:
    """Every format by its file's name; the first is the summary proper."""
    return {
        JSON: msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n",
        CSV: csv_of(summary).encode(),
        MARKDOWN: markdown_of(summary).encode(),
    }


def csv_of(summary: Summary) -> str:
    """One line a case. What begins like a formula is quoted, so that no spreadsheet runs it."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for case in summary.cases:
        total = msgspec.structs.asdict(case.total) if case.total else {}
        values = {
            **msgspec.structs.asdict(case),
            **case.phases,
            **total,
            "n": case.n,
            "run": summary.run,
            "job": summary.job,
            "hosts": "; ".join(host.host for host in case.hosts),
            "instance_types": "; ".join(sorted({host.instance_type for host in case.hosts})),
            "notes": "; ".join(case.notes),
            "warnings": "; ".join(case.warnings),
        }
        writer.writerow([_cell(values.get(column)) for column in _COLUMNS])
    return output.getvalue()


def markdown_of(summary: Summary) -> str:
    """A page for people."""
    counts = f"{summary.successful} successful, {summary.failed} failed, {summary.superseded} superseded"
    lines = [f"# {summary.job}", "", f"Run {summary.run}: {counts}.", ""]
    lines += [f"- **Warning:** {_safe(warning)}" for warning in summary.warnings]
    lines += [""] * bool(summary.warnings)
    lines += [
        "| case | scale | n | median | 95 % interval | MAD | minimum | p95 | peak memory | failed |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [_row(case) for case in summary.cases]
    for case in summary.cases:
        said = [*(f"**Warning:** {_safe(warning)}" for warning in case.warnings), *map(_safe, case.notes)]
        if said:
            lines += ["", f"## {case.case} at {case.scale}", "", *(f"- {one}" for one in said)]
    if summary.late:
        lines += ["", "## Late", "", *(f"- {_safe(name)}" for name in summary.late)]
    lines += ["", "## Attempts", ""]
    for one in summary.attempts:
        place = " ".join(filter(None, (one.host.host, one.host.instance_type, one.host.zone))) or "unknown"
        lines.append(f"- g{one.generation}/attempt-{one.attempt}: {_safe(place)}")
    return "\n".join(lines) + "\n"


def _row(case: CaseSummary) -> str:
    total = case.total
    interval = NONE
    if total is not None and total.low is not None and total.high is not None:
        interval = f"{_seconds(total.low)} to {_seconds(total.high)}"
    estimates = (total.mad, total.minimum, total.p95) if total else (None, None, None)
    peak = NONE if case.peak_rss_bytes is None else f"{case.peak_rss_bytes / 2**20:.1f} MiB"
    cells = [
        case.case,
        case.scale,
        "unsupported" if case.unsupported is not None else str(case.n),
        _seconds(total.median if total else None),
        interval,
        *map(_seconds, estimates),
        peak,
        str(case.failed + case.missing),
    ]
    return f"| {' | '.join(map(_safe, cells))} |"


def _seconds(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.3f} s" if abs(value) >= 0.1 else f"{value * 1000:.3f} ms"


def _safe(text: str) -> str:
    """Text of others in a cell or a line of Markdown: it cannot break out of either."""
    for character in "\\`*_<>|[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _cell(value: object) -> object:
    if value is None:
        return NONE
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
