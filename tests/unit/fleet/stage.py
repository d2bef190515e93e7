"""Time, threads and S3 of one host, on virtual time or real. Calls that hang really do: nobody comes back (S61)."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longhaul.fleet.objects import Found, Listing
from longhaul.fleet.runtime import Runtime
from tests.simulation.world import Event, Lock, World
from tests.unit.fleet.memory import EPOCH, Clock, MemoryStore


@dataclass
class Host:
    """What tasks run on; what never goes on again has crashed."""

    paused_until: float = 0.0


class Stage:
    """A world with one host, and what happened in it."""

    def __init__(self, world: Any = None) -> None:
        self.world, self.host = world or World(), Host()
        self.lock = threading.Lock if world else lambda: Lock(self.world)
        self.event = threading.Event if world else lambda: Event(self.world)
        self.did: list[tuple[float, str]] = []
        tokens, fractions = itertools.count(), itertools.cycle((0.5, 0.2, 0.8))
        self.runtime = Runtime(
            clock=lambda: 1000 + self.world.now,
            wall=lambda: EPOCH,
            sleep=self.world.sleep,
            token=lambda: f"token-{next(tokens)}",
            fraction=lambda: next(fractions),
            lock=lambda: self.lock(),
            event=lambda: self.event(),
            spawn=lambda what: self.world.spawn(self.host, what),
        )

    def note(self, what: str) -> None:
        """It happened now."""
        self.did.append((self.world.now, what))

    def when(self, what: str) -> float:
        """It first happened then."""
        return next(at for at, did in self.did if did.startswith(what))

    def first(self, what: str) -> int:
        """Which of all that happened it was: of two things at one time, one came first all the same."""
        return next(number for number, (_, did) in enumerate(self.did) if did.startswith(what))

    def happened(self, what: str) -> bool:
        """Whether it ever did."""
        return any(did.startswith(what) for _, did in self.did)

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        """Let something happen then."""
        self.world.at(seconds, lambda: what() and None)

    def hang(self) -> None:
        """Never come back."""
        self.event().wait(None if isinstance(self.world, World) else 30)

    def play(self, main: Callable[[], Any], until: float = 20000) -> Any:
        """What it returns; an error if it does not end."""
        results: list[Any] = []

        def run() -> None:
            try:
                results.append(main())
            except Exception as error:  # noqa: BLE001  raised below, in the test's own greenlet
                results.append(error)
            self.note("end")

        self.world.spawn(self.host, run)
        self.world.run(until)
        assert results, "it never ended"
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]


class RealWorld:
    """The same on real time, with real threads."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._began

    def sleep(self, seconds: float) -> None:
        """Let time go by."""
        time.sleep(seconds)

    def at(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen then."""
        timer = threading.Timer(seconds, what)
        timer.daemon = True
        timer.start()

    def spawn(self, host: Host, what: Callable[[], None]) -> None:
        """Start a thread."""
        threading.Thread(target=what, daemon=True).start()

    def run(self, until: float) -> None:
        """Wait for that time, at most half a minute."""
        time.sleep(min(until, 30) - self.now)


class StageClock(Clock):
    """The stage's time, for the store."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def now(self) -> float:  # type: ignore[override]
        """Seconds."""
        return 1000 + self._stage.world.now


class StageStore(MemoryStore):
    """Requests take `seconds`, or hang where `hangs` says so."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(StageClock(stage))
        self._stage, self.seconds = stage, 0.05
        self.hangs: Callable[[str, str], bool] = lambda verb, key: False

    def _wait(self, verb: str, key: str) -> None:
        if self.hangs(verb, key):
            self._stage.note(f"hangs {verb} {key}")
            self._stage.hang()
        self._stage.world.sleep(self.seconds)

    def get(self, key: str) -> Found | None:
        """See `Store.get`."""
        self._wait("GET", key)
        return super().get(key)

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """See `Store.put`."""
        self._wait("PUT", key)
        etag = super().put(key, body, replaces=replaces)
        if etag is not None:
            state = self.lease(key).state if "/done/" not in key else "index"
            self._stage.note(f"{key} {state}")
        return etag

    def list(self, prefix: str) -> Listing:
        """See `Store.list`."""
        self._wait("LIST", prefix)
        return super().list(prefix)
