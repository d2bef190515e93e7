"""An instance: clocks and a network, a disk that outlives its processes, and processes that die with it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from longhaul.fleet.holding import Holding
from longhaul.fleet.keys import Place
from longhaul.fleet.machine import Notice
from longhaul.fleet.objects import Found, Listing
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.surroundings import Quarantine
from longhaul.fleet.worker import Worker
from tests.simulation.choices import Choices
from tests.simulation.host import TRIES, Host
from tests.simulation.server import Server
from tests.simulation.world import ViolationError, World


class Body:
    """Of a process: what its tasks run on."""

    def __init__(self, paused_until: float) -> None:
        self.paused_until = paused_until
        self.doomed = False  # a signal is on its way that ends it sooner or later


class Instance(Host):
    """A host of the group. Its processes share network, clocks, disk and the mapping with the deadline."""

    def __init__(self, world: World, server: Server, choices: Choices, name: str, oddity: float) -> None:
        super().__init__(world, server, choices, name, oddity)
        self.id = f"i-{name}"
        self.launched = world.now
        self._states = [(world.now, "running")]
        self.reclaimed = False  # EC2 took it back
        self.worker: Worker | None = None  # that runs
        self.noticed = self.last_paused_until = 0.0  # when the notice was given, and the last pause ended
        self.protected = False
        self.notice: Notice | None = None
        self.disk: dict[Place, dict[str, bytes]] = {}  # folders of attempts
        self.measuring: str | None = None  # the trial whose measured window is open
        self.gap = 0.0  # how long it stands still just before its next query leaves, if that is told
        self.query_seconds = 0.0  # how long its next query takes, if that is told
        self.deadline = -math.inf  # the word in the shared mapping
        self.quarantine: Quarantine | None = None
        self._bodies: list[Body] = []

    @property
    def state(self) -> str:
        """As EC2 has it."""
        return self._states[-1][1]

    @state.setter
    def state(self, state: str) -> None:
        self._states.append((self.world.now, state))

    def state_at(self, when: float) -> str:
        """As EC2 had it."""
        return [state for since, state in self._states if since <= when][-1]

    def request(self, verb: str, key: str, carry_out: Callable[[int], Any], tries: int = TRIES) -> Any:
        """See `Host.request`. What is under way beside a measured trial is a lease's, and nothing else (I6)."""
        if self.measuring is not None and "/claims/" not in key and "/slots/" not in key:
            raise ViolationError(f"I6 {verb} {key} while {self.name} measures {self.measuring}")
        if verb == "PUT":
            self.server.check_place(self.id, key)
        return super().request(verb, key, carry_out, tries)

    def body(self) -> Body:
        """Of a new process."""
        body = Body(self.paused_until)
        self._bodies = [one for one in self._bodies if one.paused_until < math.inf]
        self._bodies.append(body)
        return body

    def pause(self, until: float) -> None:
        """Everything stands still."""
        self.paused_until = self.last_paused_until = max(until, self.paused_until)
        for body in self._bodies:
            body.paused_until = max(until, body.paused_until)

    def kill_processes(self) -> None:
        """As systemd does with all that a unit started, once its main process has ended."""
        self.measuring = None
        for body in self._bodies:
            body.paused_until = math.inf

    def folder(self, place: Place) -> dict[str, bytes]:
        """What the disk has of an attempt."""
        return self.disk.setdefault(place, {})

    def on(self, body: Body) -> Runtime:
        """What code in a process takes from the machine."""
        return dataclasses.replace(self.runtime, spawn=lambda what: self.world.spawn(body, what))


class Program:
    """A worker's process: its `Store`, which also says what it believes to hold."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.server = instance, instance.server
        self.body = instance.body()
        self.runtime = instance.on(self.body)

    def alive(self) -> bool:
        """Whether it may ever act again."""
        return self.body.paused_until < math.inf

    def believe(self, holding: Holding) -> None:
        """See `Host.believe`."""
        self.server.holdings.setdefault(holding.key, []).append((holding, self.alive))

    def get(self, key: str) -> Found | None:
        """See `Store.get`."""
        return self.instance.get(key)

    def put(self, key: str, body: bytes, *, replaces: str | None) -> str | None:
        """See `Store.put`."""
        return self.instance.put(key, body, replaces=replaces)

    def list(self, prefix: str) -> Listing:
        """See `Store.list`."""
        return self.instance.list(prefix)


class Journal:
    """The `Journal` of a worker, on the instance's disk."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def quarantine(self) -> Quarantine | None:
        """See `Journal.quarantine`."""
        return self._instance.quarantine

    def write(self, quarantine: Quarantine | None) -> None:
        """See `Journal.write`."""
        self._instance.quarantine = quarantine

    def check(self) -> None:
        """See `Journal.check`."""

    def clear_rehearsal(self) -> None:
        """See `Journal.clear_rehearsal`."""


def unused(*_: Any) -> None:
    """For what nobody listens to."""
