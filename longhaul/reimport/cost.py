"""What importer jobs cost: one table of prices, and an estimate before a run (from sizes) and after it (from times)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from longhaul.reimport.sizing import JobSize, Tier, Tiers

MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Fargate prices in US dollars; other regions differ by up to about a third."""

    vcpu_hour: float
    gib_hour: float
    minimum_seconds: float
    source: str


FARGATE_LINUX_X86 = Prices(
    vcpu_hour=0.04048,
    gib_hour=0.004445,
    minimum_seconds=60.0,
    source="AWS Fargate on-demand, Linux/x86, us-east-1, as published in March 2026",
)

# Rough until past runs are used (R24): start of a task, then reading, decoding and writing the log.
START_SECONDS = 30.0
BYTES_PER_VCPU_SECOND = 16 * MIB  # compressed bytes of the log, as perf/importer measured a log of 60 MB


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """An estimate of a run before it starts."""

    dollars: float
    seconds: float  # at the given cap, all jobs alike


def job_dollars(size: JobSize, seconds: float, prices: Prices = FARGATE_LINUX_X86) -> float:
    """Return the price of a job of that size that is billed `seconds`, one minute at least."""
    hours = max(seconds, prices.minimum_seconds) / 3600
    return hours * (float(size.vcpu) * prices.vcpu_hour + size.memory_mib / 1024 * prices.gib_hour)


def job_seconds(size: JobSize, size_bytes: int | None) -> float:
    """Return how long a job of that size is expected to take for a log; an unknown size counts as empty."""
    return START_SECONDS + (size_bytes or 0) / (BYTES_PER_VCPU_SECOND * float(size.vcpu))


def forecast(items: Iterable[tuple[int | None, Tier]], tiers: Tiers, max_concurrency: int) -> Forecast:
    """Estimate price and duration of a run of logs of these sizes in bytes."""
    dollars = total = longest = 0.0
    for size_bytes, tier in items:
        size = tiers.size_of(tier)
        seconds = job_seconds(size, size_bytes)
        dollars += job_dollars(size, seconds)
        total += seconds
        longest = max(longest, seconds)
    return Forecast(dollars=dollars, seconds=math.ceil(max(total / max_concurrency, longest)))
