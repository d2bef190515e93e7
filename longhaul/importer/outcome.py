"""How an import ends: exit codes that Batch's retry strategy and operators read (R14)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum


class Outcome(Enum):
    """Name and exit code of each end."""

    IMPORTED = ("imported", 0)
    UNCHANGED = ("unchanged", 0)
    UNKNOWN = ("unknown", 1)
    DAMAGED_LOG = ("damaged_log", 10)
    LOG_NOT_FOUND = ("log_not_found", 11)
    REFUSED = ("refused", 12)
    WAREHOUSE_UNAVAILABLE = ("warehouse_unavailable", 20)
    LOG_CHANGED = ("log_changed", 21)
    TERMINATED = ("terminated", 143)

    def __init__(self, label: str, exit_code: int) -> None:
        self.label = label
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True)
class Result:
    """What the importer prints on stdout, as one line of JSON."""

    outcome: Outcome
    location: str | None = None
    reason: str | None = None
    eval_id: str | None = None
    etag: str | None = None
    file_size_bytes: int | None = None
    samples: int | None = None
    superseded_samples: int | None = None  # a later sample of the same log had their uuid, or their id and epoch
    scores: int | None = None
    messages: int | None = None
    rows_changed: int | None = None
    stale_logs: tuple[str, ...] = ()  # logs to import again: they hold what the warehouse lacks now
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def line(self) -> str:
        """The line, without what is not known."""
        known = {name: value for name, value in asdict(self).items() if value is not None and name != "outcome"}
        return json.dumps({"outcome": self.outcome.label, "exit_code": self.outcome.exit_code, **known})
