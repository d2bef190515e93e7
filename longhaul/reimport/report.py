"""The report of a Map Run: summary.json, failures.jsonl, retry-keys.txt and report.md below its results (R18).

The content depends only on the run and its result files, so writing it again changes nothing.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from longhaul.reimport.cost import FARGATE_LINUX_X86, job_dollars
from longhaul.reimport.keys import writable
from longhaul.reimport.results import RESULTS_PREFIX, Item, Results
from longhaul.reimport.runs import MapRun, Run
from longhaul.reimport.sizing import Tier, Tiers, choose_tier

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MANIFEST_ETAG = "longhaul-manifest-etag"  # metadata of summary.json: the manifest that the report was made from
_SHOWN = 20
_COST_NOTE = "an item's time includes its wait for a place; what ran before a redrive is missing"


@dataclass(frozen=True, kw_only=True)
class Report:
    """Where the report of a Map Run stands, and its summary."""

    prefix: str
    summary: dict[str, Any]
    markdown: str


def report_prefix(map_run_id: str) -> str:
    """Return the folder of the report in the re-import bucket."""
    return f"{RESULTS_PREFIX}{map_run_id}/report/"


def write_report(s3: S3Client, bucket: str, run: Run, map_run: MapRun, results: Results, tiers: Tiers) -> Report:
    """Write the four files, the summary last: its metadata says that the report is whole."""
    prefix = report_prefix(map_run.id)
    summary = summarize(run, map_run, results, tiers)
    _write_lines(s3, bucket, f"{prefix}failures.jsonl", map(failure_line, results.failed()))
    skipped = 0

    def keys() -> Iterator[str]:
        nonlocal skipped
        for key in results.unfinished_keys():
            if writable(key, ""):
                yield key
            else:
                skipped += 1

    _write_lines(s3, bucket, f"{prefix}retry-keys.txt", keys())
    summary["retry_keys_left_out"] = skipped  # a line of a keys file cannot name them; `retry` can
    markdown = as_markdown(summary, results)
    s3.put_object(Bucket=bucket, Key=f"{prefix}report.md", Body=markdown.encode(), ContentType="text/markdown")
    s3.put_object(
        Bucket=bucket,
        Key=f"{prefix}summary.json",
        Body=(json.dumps(summary, indent=2, ensure_ascii=False) + "\n").encode(),
        ContentType="application/json",
        Metadata={MANIFEST_ETAG: (results.manifest_etag or "none").strip('"')},
    )
    return Report(prefix=prefix, summary=summary, markdown=markdown)


def summarize(run: Run, map_run: MapRun, results: Results, tiers: Tiers) -> dict[str, Any]:
    """Return the figures of a Map Run; durations in seconds, sizes in bytes, cost in US dollars."""
    counts = {outcome.value: number for outcome, number in results.counts().items()}
    counted = sum(counts.values())
    times = [row[0] for row in results.query("SELECT seconds FROM item WHERE seconds IS NOT NULL ORDER BY seconds")]
    by_tier: dict[Tier, dict[str, Any]] = {
        tier: {"items": 0, "succeeded": 0, "seconds": 0.0, "dollars": 0.0} for tier in Tier
    }
    for size, succeeded, seconds in results.query("SELECT size, succeeded, seconds FROM item"):
        tier = choose_tier(size, tiers.small_max_bytes)
        figures = by_tier[tier]
        figures["items"] += 1
        figures["succeeded"] += succeeded
        if seconds is not None:
            figures["seconds"] += seconds
            figures["dollars"] += job_dollars(tiers.size_of(tier), seconds)
    total_bytes, done_bytes = next(
        results.query("SELECT coalesce(sum(size), 0), coalesce(sum(size) FILTER (WHERE succeeded), 0) FROM item")
    )
    stopped = map_run.stopped or run.stopped
    return {
        "run": run.name,
        "execution_arn": run.arn,
        "status": run.status,
        "error": run.error,
        "map_run_arn": map_run.arn,
        "redrives": map_run.redrive_count,
        "started": run.started.isoformat(),
        "stopped": stopped.isoformat() if stopped else None,
        "complete": not results.problems,
        "problems": results.problems,
        "items": map_run.total,
        "not_in_results": max(0, map_run.total - counted),
        "counts": counts,
        "failure_classes": dict(results.classes()),
        "tiers": {
            tier.value: {k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}
            for tier, figures in by_tier.items()
        },
        "bytes": {"items": total_bytes, "succeeded": done_bytes},
        "item_seconds": {
            "median": _quantile(times, 0.5),
            "p95": _quantile(times, 0.95),
            "longest": _quantile(times, 1.0),
        },
        "cost_estimate": {
            "dollars": round(sum(figures["dollars"] for figures in by_tier.values()), 4),
            "prices": FARGATE_LINUX_X86.source,
            "note": _COST_NOTE,
        },
    }


def failure_line(item: Item) -> str:
    """Return a line of failures.jsonl."""
    return json.dumps(as_failure(item), ensure_ascii=False)


def as_failure(item: Item) -> dict[str, Any]:
    """Return a failure as reports and `failures --json` print it."""
    return {
        "key": item.key,
        "outcome": item.outcome.value,
        "class": item.failure_class.value if item.failure_class else None,
        "exit_code": item.exit_code,
        "reason": item.reason,
        "status_reason": item.status_reason,
        "log_stream": item.log_stream,
        "job_id": item.job_id,
        "attempts": item.attempts,
    }


def as_markdown(summary: dict[str, Any], results: Results) -> str:
    """Return the report for people."""
    counts = summary["counts"]
    sizes, cost = summary["bytes"], summary["cost_estimate"]
    lines = [
        f"# Re-import {summary['run']}: {summary['status']}",
        "",
        f"{counts['succeeded']:,} of {summary['items']:,} logs imported.",
        f"{sizes['succeeded']:,} of {sizes['items']:,} bytes imported.",
        f"Started {_when(summary['started'])}, ended {_when(summary['stopped'])}.",
        f"Redriven {_times(summary['redrives'])}.",
        f"Estimated cost ${cost['dollars']:.2f} ({cost['prices']}; {cost['note']}).",
        "",
        *(("| outcome | items |", "|---|---:|") if any(counts.values()) else ()),
        *(f"| {outcome} | {number:,} |" for outcome, number in counts.items() if number),
        "",
    ]
    if summary["problems"]:
        lines += ["Results that could not be read (their items count as not imported):", ""]
        lines += [*(f"- {_code(problem)}" for problem in summary["problems"]), ""]
    if summary["not_in_results"]:
        lines += [f"{summary['not_in_results']:,} items of the Map Run stand in no result file.", ""]
    if summary["failure_classes"]:
        lines += ["| failure class | items |", "|---|---:|"]
        lines += [*(f"| {name} | {number:,} |" for name, number in summary["failure_classes"].items()), ""]
        failed = list(itertools.islice(results.failed(), _SHOWN + 1))
        more = len(failed) > _SHOWN
        lines += [f"The first {_SHOWN} failures; failures.jsonl has them all:" if more else "What failed:", ""]
        for item in failed[:_SHOWN]:
            lines.append(f"- {_code(item.key or 'no key')}: {_code(item.reason or item.outcome.value)}")
        lines.append("")
    if summary["retry_keys_left_out"]:
        lines += [
            f"{summary['retry_keys_left_out']:,} keys do not fit a line of retry-keys.txt; `retry` takes them along.",
            "",
        ]
    return "\n".join(lines)


def _when(moment: str | None) -> str:
    """Return a time of the summary to the second, in UTC."""
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "not yet"


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _code(text: str) -> str:
    """Return text as a Markdown code span, whatever stands in it; control characters are escaped."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"`{shown}`" if fence == "`" else f"{fence} {shown} {fence}"


def _quantile(ordered: list[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3) if ordered else None


def _write_lines(s3: S3Client, bucket: str, key: str, lines: Iterator[str] | map[str]) -> None:
    with tempfile.TemporaryFile() as file:
        _each_line(file.write, lines)
        file.seek(0)
        _put(s3, bucket, key, file)


def _each_line(write: Callable[[bytes], object], lines: Iterator[str] | map[str]) -> None:
    for line in lines:
        write(f"{line}\n".encode())


def _put(s3: S3Client, bucket: str, key: str, file: IO[bytes]) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=file, ContentType="text/plain; charset=utf-8")
