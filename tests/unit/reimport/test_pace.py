"""Rate and remaining time (R21)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from longhaul.reimport.pace import Pace

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_rate_over_the_last_minutes() -> None:
    pace = Pace()
    for minute in range(20):
        pace.note(NOON + timedelta(minutes=minute), 0 if minute < 10 else (minute - 9) * 6)
    assert pace.per_minute == 6
    assert pace.remaining(60) == timedelta(minutes=10)


def test_nobody_can_say_at_first_or_while_nothing_ends() -> None:
    pace = Pace()
    assert pace.per_minute is None
    pace.note(NOON, 5)
    pace.note(NOON + timedelta(minutes=1), 5)
    assert pace.per_minute is None
    assert pace.remaining(3) is None


def test_a_redrive_starts_anew() -> None:
    pace = Pace()
    pace.note(NOON, 0)
    pace.note(NOON + timedelta(minutes=1), 50)
    pace.note(NOON + timedelta(minutes=2), 40)
    pace.note(NOON + timedelta(minutes=3), 42)
    assert pace.per_minute == 2
