"""Virtual time: tasks are greenlets, one runs at a time, and waiting costs nothing."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

import greenlet

OVER = object()
TICK_SECONDS = 1e-6  # that a wait lasts at least: less may vanish in `now`, and a slow clock be waited for without end


class ViolationError(BaseException):
    """An invariant does not hold. No thread's outermost edge catches it."""


class Body(Protocol):
    """What a task runs on: a host that may stand still for a while, or for ever, which is to be dead."""

    paused_until: float


class World:
    """A clock and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self.trace: Callable[[str], None] | None = None
        # when, a number that settles ties, the task to wake and of which of its waits, and with what; or what to call
        self._queue: list[tuple[float, float, Task | None, int, Any]] = []
        self._next = itertools.count(1).__next__
        self._hub = greenlet.getcurrent()
        self._hub_task = Task(Hub(), self._hub, wait=1)
        self._running: Task | None = None
        self._started: list[greenlet.greenlet] = []

    def note(self, *words: object) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:9.2f}  " + " ".join(str(word) for word in words))

    def at(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen, that many seconds from now. It cannot wait."""
        heappush(self._queue, (self.now + seconds, self._next(), None, 0, what))

    def wake(self, seconds: float, task: Task, wait: int, value: Any) -> None:
        """Let a task go on, that many seconds from now, unless that wait of it is over by then."""
        heappush(self._queue, (self.now + seconds, self._next(), task, wait, value))

    def spawn(self, body: Body, what: Callable[[], None]) -> None:
        """Start a task on a host."""
        one = greenlet.greenlet(lambda _: what(), self._hub)
        self._started.append(one)
        self.wake(0, Task(body, one), 0, None)

    def count(self) -> int:
        """How many events there were so far."""
        return self._next()

    @property
    def task(self) -> Task:
        """The one that runs."""
        return self._running  # type: ignore[return-value]  # asked by tasks only

    def sleep(self, seconds: float) -> None:
        """Let the running task wait. If nothing happens meanwhile, time just goes on."""
        until = self.now + seconds
        queue = self._queue
        if until < queue[0][0]:  # never empty: `run` put its end there
            self.now = until
            return
        task: Any = self._running
        heappush(queue, (until, self._next(), task, task.wait, None))
        self.block()

    def block(self) -> Any:
        """Let the running task wait until it is woken; returned is what it is woken with.

        It sees itself to what happens next, and hands over to whoever is next to run.
        """
        me, queue = self._running, self._queue
        while True:
            self.now, _, task, wait, value = heappop(queue)
            if task is None:
                value()
            elif task.wait == wait:
                if task.body.paused_until > self.now:
                    self.wake(task.body.paused_until - self.now, task, wait, value)
                    continue
                task.wait += 1
                self._running = task
                if task is me:
                    return value
                if task.wait == 1:  # the hub starts it: whoever starts another lends it its own depth of calls
                    return task if me is self._hub_task else self._hub.switch(task)
                return task.greenlet.switch(value)

    def run(self, until: float) -> bool:
        """Go on until that time; returned is whether something would still happen later."""
        hub = self._hub_task
        heappush(self._queue, (until, math.inf, hub, hub.wait, OVER))
        self._running = hub
        what = self.block()
        while what is not OVER:
            if isinstance(what, Task):
                what = what.greenlet.switch(None)
            else:  # a task has come to its end
                self._running = hub
                what = self.block()
        return any(when < math.inf for when, *_ in self._queue)

    def close(self) -> None:
        """End whoever still waits. The collector cannot: it does not look into greenlets that stand still."""
        setattr(self, "block", _end)  # noqa: B010  whoever waits on the way out ends as well
        setattr(self, "sleep", _end)  # noqa: B010
        for one in self._started:
            if one:
                with contextlib.suppress(BaseException):
                    one.throw()


def _end(*_: Any) -> Any:
    raise greenlet.GreenletExit


class Hub:
    """Where `run` was called."""

    paused_until = 0.0


class Task:
    """Something that runs on a host, stands still with it, and stops for good when the host dies."""

    __slots__ = ("body", "greenlet", "wait")

    def __init__(self, body: Body, where: greenlet.greenlet, wait: int = 0) -> None:
        self.body, self.greenlet = body, where
        self.wait = wait  # how often it was woken; at first to start


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
            world.wake(max(timeout, TICK_SECONDS), task, task.wait, False)
        was: bool = world.block()
        return was
