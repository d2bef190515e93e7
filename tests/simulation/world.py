"""Virtual time: tasks are greenlets, one runs at a time, and waiting costs nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

import greenlet


class ViolationError(Exception):
    """An invariant does not hold."""


class Body(Protocol):
    """What a task runs on: a host that may be dead, or stand still for a while."""

    dead: bool
    paused_until: float


class World:
    """A clock and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self.horizon = 0.0
        self.trace: Callable[[str], None] | None = None
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._hub = greenlet.getcurrent()
        self._running: Task | None = None

    def note(self, *words: object) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:9.2f}  " + " ".join(str(word) for word in words))

    def at(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen, that many seconds from now."""
        self.events += 1
        heapq.heappush(self._queue, (self.now + seconds, self.events, what))

    def spawn(self, body: Body, what: Callable[[], None]) -> None:
        """Start a task on a host."""
        task = Task(self, body, what)
        self.at(0, task.resume)

    @property
    def waits(self) -> bool:
        """Whether something is still to happen."""
        return bool(self._queue)

    @property
    def task(self) -> Task:
        """The one that runs."""
        assert self._running is not None
        return self._running

    def sleep(self, seconds: float) -> None:
        """Let the running task wait. If nothing happens meanwhile, time just goes on."""
        until = self.now + seconds
        task = self.task
        if until <= self.horizon and (not self._queue or self._queue[0][0] > until):
            self.events += 1
            self.now = until
            return
        self.at(seconds, task.resume)
        self.block()

    def block(self) -> Any:
        """Let the running task wait until it is resumed; returned is what it is resumed with."""
        return self._hub.switch()

    def run(self, until: float) -> None:
        """Go on until nothing is left to happen, or that time."""
        self.horizon = until
        while self._queue and self._queue[0][0] <= until:
            self.now, _, what = heapq.heappop(self._queue)
            what()

    def switch_to(self, task: Task, value: Any) -> None:
        """Run a task until it waits."""
        self._running = task
        task.greenlet.switch(value)
        self._running = None


class Task:
    """Something that runs on a host, and stops for good when the host dies."""

    def __init__(self, world: World, body: Body, what: Callable[[], None]) -> None:
        self.world, self.body = world, body
        self.greenlet = greenlet.greenlet(lambda _: what(), world._hub)

    def resume(self, value: Any = None) -> None:
        """Go on, now or when the host does."""
        if self.body.dead:
            return
        if self.world.now < self.body.paused_until:
            self.world.at(self.body.paused_until - self.world.now, lambda: self.resume(value))
            return
        self.world.switch_to(self, value)


class Lock:
    """`threading.Lock` on virtual time."""

    def __init__(self, world: World) -> None:
        self._world, self._taken = world, False
        self._waiting: list[tuple[Task, list[bool]]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for it, at most that long."""
        del blocking
        if not self._taken:
            self._taken = True
            return True
        if timeout == 0:
            return False
        settled: list[bool] = []
        task = self._world.task
        self._waiting.append((task, settled))
        if timeout > 0:

            def give_up() -> None:
                if not settled:
                    settled.append(False)
                    task.resume()

            self._world.at(timeout, give_up)
        self._world.block()
        return settled[0]

    def release(self) -> None:
        """Hand it to the next who waits."""
        while self._waiting:
            task, settled = self._waiting.pop(0)
            if not settled:
                settled.append(True)
                self._world.at(0, task.resume)
                return
        self._taken = False


class Event:
    """`threading.Event` on virtual time."""

    def __init__(self, world: World) -> None:
        self._world, self._set = world, False
        self._waiting: list[tuple[Task, list[bool]]] = []

    def set(self) -> None:
        """Wake all who wait."""
        self._set = True
        waiting, self._waiting = self._waiting, []
        for task, settled in waiting:
            if not settled:
                settled.append(True)
                self._world.at(0, task.resume)

    def clear(self) -> None:
        """Let it be set again."""
        self._set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it, at most that long."""
        if self._set or timeout == 0:
            return self._set
        settled: list[bool] = []
        task = self._world.task
        self._waiting.append((task, settled))
        if timeout is not None:

            def give_up() -> None:
                if not settled:
                    settled.append(False)
                    task.resume()

            self._world.at(timeout, give_up)
        self._world.block()
        return settled[0]
