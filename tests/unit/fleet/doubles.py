"""Doubles that block where the real thing blocks, until they are let go (S61); all on real time and real threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from longhaul.fleet.lease import Terms
from longhaul.fleet.machine import Notice, NoticeKind
from longhaul.fleet.objects import Found, Listing
from longhaul.fleet.runtime import real
from tests.unit.fleet.memory import Clock, MemoryStore

QUICK = Terms(lease_seconds=4, margin_seconds=0.4, grace_seconds=0.4, renew_seconds=0.1)
TERMINATE = Notice(kind=NoticeKind.TERMINATE, text="at noon")
PATIENCE = 30.0


def eventually(ready: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until it is so; a failure if it never is."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)


class Gate:
    """Where calls block while it is shut."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.waiting = 0

    def shut(self) -> None:
        """Let calls block from now on."""
        self._open.clear()

    def open(self) -> None:
        """Let all go."""
        self._open.set()

    def pass_through(self) -> None:
        """Block while it is shut, for half a minute at most."""
        self.waiting += 1
        try:
            assert self._open.wait(30)
        finally:
            self.waiting -= 1


class GatedStore(MemoryStore):
    """A store on real time whose requests block while its gate is shut; `only` says for which keys."""

    def __init__(self) -> None:
        super().__init__(_RealClock())
        self.gate = Gate()
        self.only: Callable[[str, str], bool] = lambda verb, key: True
        self._lock = threading.RLock()

    def _pass(self, verb: str, key: str) -> None:
        if self.only(verb, key):
            self.gate.pass_through()

    def get(self, key: str) -> Found | None:
        """See `Store.get`."""
        self._pass("GET", key)
        with self._lock:
            return super().get(key)

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """See `Store.put`; carried out in one piece, once it is let go."""
        self._pass("PUT", key)
        with self._lock:
            return super().put(key, body, replaces=replaces)

    def list(self, prefix: str) -> Listing:
        """See `Store.list`."""
        self._pass("LIST", prefix)
        with self._lock:
            return super().list(prefix)


class _RealClock(Clock):
    """Time that goes by itself."""

    @property
    def now(self) -> float:  # type: ignore[override]
        """Seconds."""
        return real().clock()

    @now.setter
    def now(self, seconds: float) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        """Let it go by."""
        time.sleep(seconds)


class NoticesDouble:
    """Finds what it is told to, blocks while its gate is shut, fails with `error`."""

    def __init__(self) -> None:
        self.found: Notice | None = None
        self.error: Exception | None = None
        self.gate = Gate()
        self.checks = 0

    def check(self) -> Notice | None:
        """See `Notices.check`."""
        self.gate.pass_through()
        self.checks += 1
        if self.error is not None:
            raise self.error
        return self.found
