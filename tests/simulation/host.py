"""A host: clocks that are wrong, a network that loses and delays, and botocore's one retry."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.holding import Holding
from longhaul.fleet.objects import Found, Listing
from longhaul.fleet.runtime import Runtime
from tests.simulation.choices import Choices
from tests.simulation.server import Server, moment
from tests.simulation.world import Event, Lock, World

READ_SECONDS = 5.0
TRIES = 2
DULL_SECONDS = 0.05
DELAYS = (DULL_SECONDS, 0.4, 2.0, 4.5)
LATE = (20.0, 90.0, 350.0)
SKEWS = (0, 400, -400)  # seconds that the wall clock is off
RATES = (1.0, 1.08, 0.92)  # a margin of a tenth bears a tenth
SERVER_SKEWS = (0, 4, -4)
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

    def __init__(self, world: World, server: Server, choices: Choices, name: str, oddity: float) -> None:
        self.world, self.server, self.choices, self.name = world, server, choices, name
        self.oddity = oddity
        self.paused_until, self.cut_off_until, self.noticed = 0.0, 0.0, False
        self.at_next_write: Callable[[], None] | None = None
        self.at_done_only = False  # not at a renewal
        self.troubled = False  # whether anything but slowness has befallen it
        self._skew = SKEWS[choices.pick(3, 0.3)]
        self._rate = RATES[choices.pick(3, 0.3)]
        self._tokens = 0
        self.runtime = Runtime(
            clock=self.clock,
            wall=self._wall,
            sleep=self._sleep,
            token=self._token,
            fraction=self._fraction,
            lock=lambda: Lock(world),
            event=lambda: Event(world),
            spawn=lambda what: world.spawn(self, what),
        )

    def alive(self) -> bool:
        """Whether it may ever act again; one that stands still may."""
        return self.paused_until < math.inf

    def clock(self) -> float:
        """Seconds that never stop, not even while the host does (S66)."""
        return 1000 + self.world.now * self._rate

    def _wall(self) -> datetime:
        return moment(int(self.world.now) + self._skew)

    def _sleep(self, seconds: float) -> None:
        self.world.sleep(seconds / self._rate if seconds > 0 else 0.0)

    def _token(self) -> str:
        self._tokens += 1
        return f"{self.name}-{self._tokens}"

    def _fraction(self) -> float:
        return FRACTIONS[self.choices.pick(3, 0.5)]

    # ---- the store -------------------------------------------------------------------------------------------------
    def get(self, key: str) -> Found | None:
        """See `Store.get`."""
        found: Found | None = self.request("GET", key, partial(self.server.get, key))
        return found

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """See `Store.put`."""
        etag: str | None = self.request("PUT", key, partial(self._put, key, body, replaces))
        return etag

    def list(self, prefix: str) -> Listing:
        """See `Store.list`."""
        listing: Listing = self.request("LIST", prefix, partial(self.server.list, prefix))
        return listing

    def _put(self, key: str, body: bytes, replaces: str | None, skew: int) -> str | None:
        etag = self.server.put(key, body, replaces, skew)
        if self.at_next_write is not None and (not self.at_done_only or b'"done"' in body):
            self.world.at(0, self.at_next_write)
        return etag

    def request(self, verb: str, key: str, carry_out: Callable[[int], Any], tries: int = TRIES) -> Any:
        """Try, and try again. `carry_out` takes how far the answering server's clock is off."""
        world = self.world
        for number in range(tries):
            if number:
                world.sleep(0.5)
            if world.now < self.cut_off_until:
                world.sleep(READ_SECONDS)
                continue
            if self.choices.pick(2, self.oddity):
                answer = self._odd(verb, key, carry_out)
            else:
                answer = carry_out(0)
                world.sleep(DULL_SECONDS)
            if world.now < self.cut_off_until:
                world.sleep(READ_SECONDS)  # what was carried out as the line broke is not heard of
            elif answer is not FAILED:
                return answer
        raise UnansweredError(f"{verb} {key}")

    def _odd(self, verb: str, key: str, carry_out: Callable[..., Any]) -> Any:
        """One try that is not like most."""
        world, pick = self.world, self.choices.pick
        fault = pick(len(FAULTS), 0.4)
        delay = DELAYS[pick(len(DELAYS), 0.4)]
        carry_out = partial(carry_out, SERVER_SKEWS[pick(len(SERVER_SKEWS), 0.4)])
        if fault:
            self.troubled = True
            world.note(f"{self.name} {verb} {key}: {FAULTS[fault]}")
        if fault in (5, 8):
            world.sleep(delay)
            if fault == 8:
                raise UnansweredError(f"{verb} {key}")
            return FAILED
        if fault == 6:
            world.sleep(delay)
            return None if verb == "PUT" else FAILED
        if fault == 4:
            delay = LATE[pick(len(LATE), 0.5)]
        return self._wait(carry_out, fault, delay)

    def _wait(self, carry_out: Callable[[], Any], fault: int, delay: float) -> Any:
        """For an answer, or for the time-out."""
        world, task = self.world, self.world.task
        sent, wait = world.now, task.wait

        def arrive() -> None:
            if self.server.last_eaten > sent:
                return  # lifecycle rules take what is a day old: no request is under way that long
            result = carry_out()
            if fault in (3, 7):
                result = FAILED
            if fault != 2:
                world.wake(DULL_SECONDS, task, wait, result)

        if fault != 1:
            world.at(delay, arrive)
        world.wake(READ_SECONDS, task, wait, FAILED)
        return world.block()

    def believe(self, holding: Holding) -> None:
        """Tell the server of a lease that this host may come to hold."""
        self.server.holdings.setdefault(holding.key, []).append((holding, self.alive))
