"""The time that executions live by; a test replaces it to let 14 or 90 days pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime


def _system() -> datetime:
    return datetime.now(tz=UTC)


_source: Callable[[], datetime] = _system


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return _source()


def use(source: Callable[[], datetime] | None) -> None:
    """Take the time from `source`; None goes back to the system's clock."""
    global _source
    _source = source or _system


def iso(moment: datetime) -> str:
    """As Step Functions writes times into context objects and result files: `2026-01-31T23:59:59.123Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(moment: datetime | None) -> int | None:
    """As EventBridge events carry times."""
    return None if moment is None else int(moment.timestamp() * 1000)


def monotonic() -> float:
    """For durations, which no test shifts."""
    return time.monotonic()
