"""Look whether the warehouse's rows fit together: schema, logs to import again, counts that disagree."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from longhaul.warehouse.connection import connect
from longhaul.warehouse.migrate import current_version, newest_version

_COUNTS = ("eval", "sample", "score", "message", "log", "import_run")

# Each query lists what should not be; the first column says where.
_FAULTS = {
    "sample rows that their log does not hold": """
        SELECT s.uuid FROM sample s
        WHERE NOT EXISTS (SELECT FROM log_sample c WHERE c.location = s.location AND c.sample_uuid = s.uuid)
        ORDER BY 1""",
    "evals of which no log is left": """
        SELECT e.id FROM eval e WHERE NOT EXISTS (SELECT FROM log l WHERE l.eval_id = e.id) ORDER BY 1""",
    "evals whose sample count differs from what their log holds": """
        SELECT e.id FROM eval e JOIN log l ON l.location = e.location AND l.eval_id = e.id
        WHERE e.sample_count <> (SELECT count(*) FROM log_sample c WHERE c.location = l.location) ORDER BY 1""",
    "samples whose message count differs from their messages": """
        SELECT s.uuid FROM sample s JOIN log l ON l.location = s.location AND l.with_messages
        WHERE s.message_count <> (SELECT count(*) FROM message m WHERE m.sample_uuid = s.uuid) ORDER BY 1""",
}
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a check found."""

    version: str | None
    newest_version: str
    rows: dict[str, int]
    stale_logs: list[str]  # to import again: they hold what the warehouse lacks (W1)
    faults: dict[str, list[str]]

    @property
    def sound(self) -> bool:
        """Whether nothing is to be done."""
        return self.version == self.newest_version and not self.stale_logs and not any(self.faults.values())

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self) | {"sound": self.sound}

    def lines(self) -> list[str]:
        """For people."""
        current = self.version == self.newest_version
        found = [f"schema {self.version or 'none'}" + ("" if current else ": run `longhaul warehouse migrate`")]
        found += [f"{count:>10,} {name}" for name, count in self.rows.items()]
        found += [f"import again: {location}" for location in self.stale_logs]
        for fault, places in self.faults.items():
            if places:
                more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
                found.append(f"{len(places)} {fault}: {', '.join(places[:_SHOWN])}{more}")
        return [*found, "sound" if self.sound else "not sound"]


def check(conninfo: str) -> Findings:
    """Check the warehouse; reads only, in one snapshot."""
    newest = newest_version()
    with connect(conninfo, name="longhaul-check") as connection:
        connection.autocommit = False
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        version = current_version(connection)
        if version != newest:
            return Findings(version=version, newest_version=newest, rows={}, stale_logs=[], faults={})
        return Findings(
            version=version,
            newest_version=newest,
            rows={name: int(_column(connection, f"SELECT count(*) FROM {name}")[0]) for name in _COUNTS},  # noqa: S608
            stale_logs=_column(connection, "SELECT DISTINCT location FROM stale_log ORDER BY location"),
            faults={fault: _column(connection, query) for fault, query in _FAULTS.items()},
        )


def _column(connection: psycopg.Connection[Any], query: str) -> list[str]:
    return [str(value) for (value, *_) in connection.execute(query).fetchall()]
