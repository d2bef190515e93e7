"""Time, chance and locks, handed in: a host's own in production, virtual ones in the simulation."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Lock(Protocol):
    """`threading.Lock`, as far as it is used here."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Return whether it was got within the time-out, in seconds."""

    def release(self) -> None:
        """Give it back."""


class Event(Protocol):
    """`threading.Event`, as far as it is used here."""

    def set(self) -> None:
        """Wake whoever waits, now and from now on."""

    def clear(self) -> None:
        """Let whoever waits from now on wait again."""

    def is_set(self) -> bool:
        """Whether it was set since it was last cleared."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it was set within the time-out, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What code of the fleet takes from the machine that it runs on."""

    clock: Callable[[], float]  # seconds that never stop nor jump, not even in suspend (F4)
    wall: Callable[[], datetime]  # what this host takes for the time of day; only ever shown, never compared (S50)
    sleep: Callable[[float], None]
    token: Callable[[], str]  # a text that was never returned before, by any host
    fraction: Callable[[], float]  # at random, 0 <= fraction < 1
    lock: Callable[[], Lock]
    event: Callable[[], Event]
    spawn: Callable[[Callable[[], None]], None]  # a thread that nobody has to wait for

    def jittered(self, seconds: float) -> float:
        """Half to one and a half times as long, at random, so that hosts do not move in step."""
        return seconds * (0.5 + self.fraction())


# CLOCK_MONOTONIC stands still while a Linux host is suspended (S66); macOS has no CLOCK_BOOTTIME, there it does not.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def real() -> Runtime:
    """Of this machine."""
    return Runtime(
        clock=lambda: time.clock_gettime(CLOCK),
        wall=lambda: datetime.now(UTC),
        sleep=time.sleep,
        token=lambda: uuid.uuid4().hex,
        fraction=random.SystemRandom().random,
        lock=threading.Lock,
        event=threading.Event,
        spawn=lambda what: threading.Thread(target=what, daemon=True).start(),
    )
