"""How fast a run goes and when it will be done, from its counts over time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

WINDOW = timedelta(minutes=5)


@dataclass(kw_only=True)
class Pace:
    """The last minutes of a run's counts."""

    _seen: deque[tuple[datetime, int]] = field(default_factory=deque)

    def note(self, now: datetime, ended: int) -> None:
        """Take down how many items have ended by now; a lower number than before, a redrive, starts anew."""
        if self._seen and ended < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, ended))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW:
            self._seen.popleft()

    @property
    def per_minute(self) -> float | None:
        """Items that ended a minute, None while nobody can say."""
        if len(self._seen) < 2:
            return None
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        seconds = (last - first).total_seconds()
        return (after - before) * 60 / seconds if seconds > 0 and after > before else None

    def remaining(self, left: int) -> timedelta | None:
        """Return how long `left` items will take at this pace."""
        rate = self.per_minute
        return timedelta(minutes=left / rate) if rate else None
