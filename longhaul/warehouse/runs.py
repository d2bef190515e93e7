"""One row per attempt to import a log, kept when the attempt failed; and which version of a log was imported last."""

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


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the warehouse knows of a log."""

    etag: str | None  # of the version that was imported last
    current: bool  # whether importing that version again would change nothing (W1, W3)


def known(connection: psycopg.Connection[Any], location: str, *, with_messages: bool, force: bool) -> Known:
    """Which version of the log was imported last; with `force` it is never taken for current."""
    row = connection.execute(
        "SELECT etag, NOT %(force)s AND with_messages = %(with_messages)s"
        " AND NOT EXISTS (SELECT FROM stale_log s WHERE s.location = %(location)s)"
        " FROM log WHERE location = %(location)s",
        {"location": location, "with_messages": with_messages, "force": force},
    ).fetchone()
    return Known(etag=row[0], current=row[1]) if row else Known(etag=None, current=False)
