"""Times as logs write them."""

from __future__ import annotations

from datetime import UTC, datetime


def parse(text: object) -> datetime | None:
    """An ISO 8601 time as aware UTC (one without a zone is UTC); None when it is empty or no time at all."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        return None
