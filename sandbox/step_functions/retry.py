"""Retriers: whether a failed task is tried again, and after how long.

AWS:
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html#error-handling-retrying-after-an-error
Nothing here sleeps: the interpreter waits, so that a stop ends a wait at once.
"""

from __future__ import annotations

import random
from typing import Any

from sandbox.step_functions.errors import matches


class Retriers:
    """Counts the retries of one visit to a state."""

    def __init__(self, retriers: list[dict[str, Any]], chance: random.Random | None = None) -> None:
        self._retriers = [(retrier, [0]) for retrier in retriers]
        self._chance = chance or random.Random()  # noqa: S311 (jitter)
        self.count = 0

    def delay_seconds(self, error: str | None) -> float | None:
        """Seconds to wait before the next attempt; None when the error is not retried, or not again."""
        for retrier, used in self._retriers:
            if matches(retrier["ErrorEquals"], error):
                if used[0] >= retrier.get("MaxAttempts", 3):
                    return None
                delay = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2.0) ** used[0]
                delay = min(delay, retrier.get("MaxDelaySeconds", delay))
                used[0] += 1
                self.count += 1
                return self._chance.uniform(0, delay) if retrier.get("JitterStrategy", "NONE") == "FULL" else delay
        return None
