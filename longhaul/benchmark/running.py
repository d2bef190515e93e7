"""Puts an orchestrator together on a real host, and lets signals end it (F11, F13)."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from longhaul.benchmark.adapters import Adapter, FailedError, load, target
from longhaul.benchmark.case import Case
from longhaul.benchmark.checkpoint import LOG, LocalFolder, Record, Remote, Trials
from longhaul.benchmark.environment import environment
from longhaul.benchmark.errors import ConfigurationError
from longhaul.benchmark.jobs import Plan
from longhaul.benchmark.orchestrator import Orchestrator
from longhaul.benchmark.quiesce import strays
from longhaul.benchmark.trial import TrialProcesses
from longhaul.fleet.deadline import DeadlineFile
from longhaul.fleet.keys import Attempt
from longhaul.fleet.runtime import real

_HEEDED = (signal.SIGINT, signal.SIGTERM)


@functools.cache
def adapter(name: str) -> Adapter:
    """Load an adapter by name; `ConfigurationError` if there is none."""
    try:
        return load(target(name))
    except LookupError as error:
        raise ConfigurationError(str(error)) from error
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"adapter {name!r}: {error}") from error


def demand(case: Case) -> int:
    """API slots that a trial of a case needs, by its adapter; `ConfigurationError` if that could not measure it."""
    if case.unsupported is not None:
        return 0
    try:
        return adapter(case.adapter).demand(case.parameters)
    except FailedError as error:
        raise ConfigurationError(f"case {case.name!r}: {error}") from error


def run(
    plan: Plan,
    *,
    attempt: Attempt,
    output: Path,
    manifest_sha256: str | None = None,
    earlier: Sequence[Path] = (),
    remote: Remote | None = None,
    deadline: Path | None = None,
    trials: str | None = None,
    shown: Callable[[Record], None] = lambda record: None,
) -> int:
    """Measure a job as one attempt, into a folder; the exit code is `Orchestrator.run`'s.

    A deadline that cannot be read, or an adapter that is not there, raises `ConfigurationError` before anything runs.
    """
    for unit in plan.units:
        try:
            target(unit.case.adapter)
        except LookupError as error:
            raise ConfigurationError(str(error)) from error
    try:
        file = None if deadline is None else DeadlineFile.open(deadline)
    except OSError as error:
        raise ConfigurationError(f"--deadline: {error}") from error
    output.mkdir(parents=True, exist_ok=True)
    resumed = Trials.of_folders(earlier)
    runtime = real()
    executor = TrialProcesses(
        log=output / LOG, deadline=deadline, cancel=lambda name, queries: adapter(name).cancel(queries)
    )
    orchestrator = Orchestrator(
        plan=plan,
        attempt=attempt,
        runtime=runtime,
        local=LocalFolder(output),
        remote=remote,
        executor=executor,
        deadline=lambda: float("inf") if file is None else file.read(),
        interrupted=runtime.event(),
        environment=environment(manifest_sha256),
        earlier=resumed.records,
        trials=trials,
        strays=_strays(plan, attempt, trials, resumed),
        shown=shown,
    )
    try:
        with _heeding_signals(orchestrator.interrupt):
            return orchestrator.run()
    finally:
        executor.close()


def _strays(plan: Plan, attempt: Attempt, trials: str | None, resumed: Trials) -> Callable[..., Sequence[str]] | None:
    if trials is None or attempt.number == 1:
        return None
    generations = [one.generation for one in (*resumed.starts.values(), *resumed.records.values())]
    return strays(plan, attempt, trials, min(generations, default=attempt.generation), adapter)


@contextlib.contextmanager
def _heeding_signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call `interrupt`, from a thread: a handler could find any lock taken by what it broke into."""
    read, write = os.pipe()
    os.set_blocking(write, False)

    def listen() -> None:
        while heard := os.read(read, 16):
            if any(number in _HEEDED for number in heard):
                interrupt()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    before = {number: signal.signal(number, lambda *_: None) for number in _HEEDED}
    previous = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        os.close(write)
        listener.join(1)
        os.close(read)
