"""What the fleet takes from a real machine."""

from __future__ import annotations

import sys
import time

import pytest

from longhaul.fleet import runtime


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the monotonic clock runs on in suspend")
def test_the_clock_runs_on_in_suspend() -> None:
    """F4, S66."""
    assert runtime.CLOCK == time.CLOCK_BOOTTIME
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= runtime.real().clock() <= before + 5


def test_jitter_is_between_half_and_one_and_a_half() -> None:
    """F8."""
    real = runtime.real()
    assert all(5 <= real.jittered(10) <= 15 for _ in range(100))
    assert len({real.token() for _ in range(100)}) == 100
