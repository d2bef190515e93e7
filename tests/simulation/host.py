"""A host: clocks that are wrong, a network that loses and delays, and botocore's one retry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding
from longhaul.fleet.objects import Found, Listing
from longhaul.fleet.runtime import Runtime
from tests.simulation.choices import Choices
from tests.simulation.server import EPOCH, Server
from tests.simulation.world import Event, Lock, World

READ_SECONDS = 5.0
TRIES = 2
DELAYS = (0.05, 0.4, 2.0, 4.5)
LATE = (20.0, 90.0, 350.0)
SKEWS = (0, 400, -400)  # seconds that the wall clock is off
RATES = (1.0, 1.08, 0.92)  # a margin of a tenth bears a tenth
FRACTIONS = (0.5, 0.0, 0.99)
FAULTS = (
    "none",
    "the request is lost",
    "the answer is lost",
    "reset after it was carried out",
    "it lands late",
    "503",
    "409",
    "500 after it was carried out",
    "403",
)
FAILED = object()


class Host:
    """What code on one host has of the world: a `Runtime` and a `Store`."""

    def __init__(self, world: World, server: Server, choices: Choices, name: str, fault_likelihood: float) -> None:
        self.world, self.server, self.choices, self.name = world, server, choices, name
        self.fault_likelihood = fault_likelihood
        self.dead, self.paused_until, self.cut_off_until, self.noticed = False, 0.0, 0.0, False
        self.at_next_write: Callable[[], None] | None = None
        self.at_done_only = False  # not at a renewal
        self.troubled = False  # whether anything but slowness has befallen it
        self._skew = SKEWS[choices.pick(3, 0.3)]
        self._rate = RATES[choices.pick(3, 0.3)]
        self._tokens = 0
        self.runtime = Runtime(
            clock=self.clock,
            wall=self._wall,
            sleep=lambda seconds: world.sleep(max(0.0, seconds) / self._rate),
            token=self._token,
            fraction=self._fraction,
            lock=lambda: Lock(world),
            event=lambda: Event(world),
            spawn=lambda what: world.spawn(self, what),
        )

    def alive(self) -> bool:
        """Whether it may ever act again; one that stands still may."""
        return not self.dead

    def clock(self) -> float:
        """Seconds that never stop, not even while the host does (S66)."""
        return 1000 + self.world.now * self._rate

    def _wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self.world.now + self._skew)

    def _token(self) -> str:
        self._tokens += 1
        return f"{self.name}-{self._tokens}"

    def _fraction(self) -> float:
        return FRACTIONS[self.choices.pick(3, 0.5)]

    # ---- the store -------------------------------------------------------------------------------------------------
    def get(self, key: str) -> Found | None:
        """See `Store.get`."""
        found: Found | None = self._request(f"GET {key}", lambda: self.server.get(key))
        return found

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """See `Store.put`."""

        def carry_out() -> str | None:
            etag = self.server.put(key, body, replaces)
            if self.at_next_write is not None and (not self.at_done_only or b'"done"' in body):
                self.world.at(0, self.at_next_write)
            return etag

        etag: str | None = self._request(f"PUT {key}", carry_out, write=True)
        return etag

    def list(self, prefix: str) -> Listing:
        """See `Store.list`."""
        listing: Listing = self._request(f"LIST {prefix}", lambda: self.server.list(prefix))
        return listing

    def _request(self, what: str, carry_out: Callable[[], Any], *, write: bool = False) -> Any:
        for _ in range(TRIES):
            answer = self._try(what, carry_out, write)
            if answer is not FAILED:
                return answer
            self.world.sleep(0.5)
        raise UnansweredError(what)

    def _try(self, what: str, carry_out: Callable[[], Any], write: bool) -> Any:
        world, pick = self.world, self.choices.pick
        if world.now < self.cut_off_until:
            world.sleep(READ_SECONDS)
            return FAILED
        fault = pick(len(FAULTS), self.fault_likelihood)
        delay = DELAYS[pick(len(DELAYS), self.fault_likelihood)]
        if fault:
            self.troubled = True
            world.note(f"{self.name} {what}: {FAULTS[fault]}")
        if fault == 0 and delay == DELAYS[0]:
            answer = carry_out()
            world.sleep(delay)
            return self._unless_cut_off(answer)
        if fault in (5, 8):
            world.sleep(delay)
            if fault == 8:
                raise UnansweredError(what)
            return FAILED
        if fault == 6:
            world.sleep(delay)
            return None if write else FAILED
        if fault == 4:
            delay = LATE[pick(len(LATE), 0.5)]
        return self._wait(carry_out, fault, delay)

    def _wait(self, carry_out: Callable[[], Any], fault: int, delay: float) -> Any:
        """For an answer, or for the time-out."""
        world, settled = self.world, []
        task = world.task

        def answer(what: Any) -> None:
            if not settled:
                settled.append(True)
                task.resume(what)

        def arrive() -> None:
            result = carry_out()
            if fault in (3, 7):
                result = FAILED
            if fault != 2:
                world.at(DELAYS[0], lambda: answer(result))

        if fault != 1:
            world.at(delay, arrive)
        world.at(READ_SECONDS, lambda: answer(FAILED))
        return self._unless_cut_off(world.block())

    def _unless_cut_off(self, answer: Any) -> Any:
        """What was carried out as the line broke is not heard of."""
        if self.world.now < self.cut_off_until and answer is not FAILED:
            self.world.sleep(READ_SECONDS)
            return FAILED
        return answer

    def believe(self, holding: Holding) -> None:
        """Tell the server of a lease that this host may come to hold."""
        self.server.holdings.setdefault(holding.key, []).append((holding, self.alive))
