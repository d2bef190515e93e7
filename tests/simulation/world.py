"""Virtual time: tasks are greenlets, one runs at a time, and waiting costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

import greenlet


class ViolationError(BaseException):
    """An invariant does not hold. No thread's outermost edge catches it."""


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
        # when, a number that settles ties, the task to wake and of which of its waits, and with what; or what to call
        self._queue: list[tuple[float, int, Task | None, int, Any]] = []
        self._hub = greenlet.getcurrent()
        self._running: Task | None = None

    def note(self, *words: object) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:9.2f}  " + " ".join(str(word) for word in words))

    def at(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen, that many seconds from now. It cannot wait."""
        self.events += 1
        heappush(self._queue, (self.now + seconds, self.events, None, 0, what))

    def wake(self, seconds: float, task: Task, wait: int, value: Any) -> None:
        """Let a task go on, that many seconds from now, unless that wait of it is over by then."""
        self.events += 1
        heappush(self._queue, (self.now + seconds, self.events, task, wait, value))

    def spawn(self, body: Body, what: Callable[[], None]) -> None:
        """Start a task on a host."""
        self.wake(0, Task(self, body, what), 0, None)

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
        queue = self._queue
        self.events += 1
        if until <= self.horizon and (not queue or queue[0][0] > until):
            self.now = until
            return
        task = self.task
        heappush(queue, (until, self.events, task, task.wait, None))
        self.block()

    def block(self) -> Any:
        """Let the running task wait until it is woken; returned is what it is woken with.

        It sees itself to what happens next, and hands over to whoever is next to run.
        """
        me, queue = self._running, self._queue
        while queue and queue[0][0] <= self.horizon:
            self.now, _, task, wait, value = heappop(queue)
            if task is None:
                value()
                continue
            body = task.body
            if task.wait != wait or body.dead:
                continue
            if self.now < body.paused_until:
                self.wake(body.paused_until - self.now, task, wait, value)
                continue
            task.wait += 1
            self._running = task
            return value if task is me else task.greenlet.switch(value)
        return self._hub.switch()

    def run(self, until: float) -> None:
        """Go on until nothing is left to happen, or that time."""
        self.horizon = until
        while self._queue and self._queue[0][0] <= until:
            self._running = None
            self.block()


class Task:
    """Something that runs on a host, stands still with it, and stops for good when the host dies."""

    __slots__ = ("body", "greenlet", "wait")

    def __init__(self, world: World, body: Body, what: Callable[[], None]) -> None:
        self.body = body
        self.wait = 0  # how often it was woken
        self.greenlet = greenlet.greenlet(lambda _: what(), world._hub)


class Lock:
    """`threading.Lock` on virtual time."""

    def __init__(self, world: World) -> None:
        self._world, self._taken = world, False
        self._waiting: list[tuple[Task, int]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for it, at most that long."""
        if not self._taken:
            self._taken = True
            return True
        if timeout == 0 or not blocking:
            return False
        world, task = self._world, self._world.task
        self._waiting.append((task, task.wait))
        if timeout > 0:
            world.wake(timeout, task, task.wait, False)
        got: bool = world.block()
        return got

    def release(self) -> None:
        """Hand it to the next who waits."""
        while self._waiting:
            task, wait = self._waiting.pop(0)
            if task.wait == wait:
                self._world.wake(0, task, wait, True)
                return
        self._taken = False


class Event:
    """`threading.Event` on virtual time."""

    def __init__(self, world: World) -> None:
        self._world, self._set = world, False
        self._waiting: list[tuple[Task, int]] = []

    def set(self) -> None:
        """Wake all who wait."""
        self._set = True
        if self._waiting:
            for task, wait in self._waiting:
                self._world.wake(0, task, wait, True)
            self._waiting.clear()

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
        world, task = self._world, self._world.task
        self._waiting.append((task, task.wait))
        if timeout is not None:
            world.wake(timeout, task, task.wait, False)
        was: bool = world.block()
        return was
