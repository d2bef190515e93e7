"""What a few repeated measurements say, and how surely: pure functions (B7)."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import msgspec

RESAMPLES = 2000
FEW = 5  # with fewer repetitions there is a warning (case-B02)
UNSTABLE = 0.1  # median absolute deviation beyond this share of the median


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Of one quantity, in its own unit. One measurement has no spread: None, which is shown as n/a, not as 0."""

    n: int
    median: float
    low: float | None = None  # 95 % interval of the median, by bootstrap
    high: float | None = None
    mad: float | None = None  # median absolute deviation from the median
    minimum: float
    p95: float | None = None

    @property
    def unstable(self) -> bool:
        """Whether half of the measurements are far from the median."""
        return self.mad is not None and self.mad > UNSTABLE * abs(self.median)


def estimate(values: Sequence[float], seed: str) -> Estimate | None:
    """Return None of no values. The same values in any order, with the same seed, give the same estimate."""
    if not values:
        return None
    ordered = sorted(values)
    median = statistics.median(ordered)
    if len(ordered) == 1:
        return Estimate(n=1, median=median, minimum=ordered[0])
    chance = random.Random(seed)  # noqa: S311  resampling, no secret
    medians = sorted(quantile(sorted(chance.choices(ordered, k=len(ordered))), 0.5) for _ in range(RESAMPLES))
    return Estimate(
        n=len(ordered),
        median=median,
        low=quantile(medians, 0.025),
        high=quantile(medians, 0.975),
        mad=statistics.median(abs(value - median) for value in ordered),
        minimum=ordered[0],
        p95=quantile(ordered, 0.95),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which that share of sorted values lies, between neighbours by a straight line."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
