"""Prices and estimates (R18, R24)."""

from __future__ import annotations

import pytest

from longhaul.reimport.cost import MIB, forecast, job_dollars
from longhaul.reimport.sizing import JobSize, Tier, Tiers

SMALL, FULL = JobSize(vcpu="0.5", memory_mib=1024), JobSize(vcpu="2", memory_mib=4096)
TIERS = Tiers(small_max_bytes=10 * MIB, small=SMALL, full=FULL)


def test_an_hour_of_a_full_job() -> None:
    assert job_dollars(FULL, 3600) == pytest.approx(2 * 0.04048 + 4 * 0.004445)


def test_a_minute_is_the_least_that_is_billed() -> None:
    assert job_dollars(SMALL, 1) == job_dollars(SMALL, 60) < job_dollars(SMALL, 61)


def test_a_forecast_is_shared_among_the_jobs_at_once() -> None:
    items = [(0, Tier.SMALL)] * 16
    assert forecast(items, TIERS, 8).seconds == 60
    assert forecast(items, TIERS, 16).seconds == 30
    assert forecast([], TIERS, 8).dollars == 0


def test_a_run_takes_as_long_as_its_longest_log() -> None:
    items = [(8000 * MIB, Tier.FULL), (None, Tier.FULL)]
    assert forecast(items, TIERS, 32).seconds == 280
