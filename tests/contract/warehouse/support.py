"""Running an import in this process, and reading what the warehouse says afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from longhaul.importer.job import Job, run
from longhaul.importer.outcome import Outcome, Result

# Everything an import decides; when it ran, and how often, is not part of what the warehouse says.
TABLES = ("eval", "sample", "score", "message", "sample_model", "model_role", "log", "log_sample")
TIMES = {"first_imported_at", "last_imported_at"}


def attempt(url: str, path: Path, **options: Any) -> Result:
    """Import one file."""
    return run(Job(conninfo=url, file=path, **options))


def imported(url: str, path: Path, **options: Any) -> Result:
    """Import one file, which must succeed."""
    result = attempt(url, path, **options)
    assert result.outcome is Outcome.IMPORTED, result
    return result


def rows(url: str, query: str, **parameters: object) -> list[dict[str, Any]]:
    """The rows of a query."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query, parameters).fetchall()


def values(url: str, query: str, **parameters: object) -> list[Any]:
    """The first column of a query."""
    return [next(iter(row.values())) for row in rows(url, query, **parameters)]


def contents(url: str) -> dict[str, list[str]]:
    """All that the warehouse says, comparable between two warehouses."""
    found = {}
    with psycopg.connect(url, row_factory=dict_row) as connection:
        for table in TABLES:
            found[table] = sorted(
                repr({name: value for name, value in row.items() if name not in TIMES})
                for row in connection.execute(f"SELECT * FROM {table}").fetchall()
            )
    return found
