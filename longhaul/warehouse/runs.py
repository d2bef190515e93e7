"""One row per attempt to import a log, kept when the attempt failed; and whether a log needs importing at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import psycopg


@dataclass(frozen=True, kw_only=True)
class ImportRun:
    """A row of `import_run`."""

    location: str
    eval_id: str | None
    etag: str | None
    file_size_bytes: int | None
    importer_version: str
    forced: bool
    with_messages: bool
    outcome: str
    exit_code: int
    reason: str | None
    samples: int | None
    scores: int | None
    messages: int | None
    rows_changed: int | None
    stale_logs: tuple[str, ...]
    batch_job_id: str | None
    batch_attempt: int | None
    started_at: datetime
    seconds: float
    peak_memory_bytes: int


def record(connection: psycopg.Connection[Any], run: ImportRun) -> None:
    """Add the row; never changed afterwards."""
    values = asdict(run) | {"stale_logs": json.dumps(run.stale_logs)}
    names = ", ".join(values)
    connection.execute(
        f"INSERT INTO import_run ({names}) VALUES ({', '.join(f'%({name})s' for name in values)})",  # noqa: S608
        values,
    )


def current_etag(connection: psycopg.Connection[Any], location: str, *, with_messages: bool) -> str | None:
    """The ETag whose import would change nothing, or None when the log has to be imported anyway (W1, W3)."""
    row = connection.execute(
        "SELECT etag FROM log WHERE location = %(location)s AND with_messages = %(with_messages)s"
        " AND NOT EXISTS (SELECT FROM stale_log s WHERE s.location = %(location)s)",
        {"location": location, "with_messages": with_messages},
    ).fetchone()
    return str(row[0]) if row else None
