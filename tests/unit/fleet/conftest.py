"""Fixtures of the fleet's unit tests."""

from __future__ import annotations

import itertools
import threading

import pytest

from longhaul.fleet.runtime import Runtime
from tests.unit.fleet.memory import EPOCH, Clock, MemoryStore


@pytest.fixture
def clock() -> Clock:
    """Time."""
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    """An empty store."""
    return MemoryStore(clock)


@pytest.fixture
def runtime(clock: Clock) -> Runtime:
    """A host's surroundings without chance."""
    tokens = itertools.count(1)
    return Runtime(
        clock=lambda: clock.now,
        wall=lambda: EPOCH,
        sleep=clock.sleep,
        token=lambda: f"token-{next(tokens)}",
        fraction=lambda: 0.5,
        lock=threading.Lock,
        event=threading.Event,
        spawn=lambda what: threading.Thread(target=what, daemon=True).start(),
    )
