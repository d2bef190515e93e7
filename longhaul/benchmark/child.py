"""One trial, in the fresh interpreter that was started for it (B3). It imports as little as it can.

It reads what to do from stdin, and writes lines of JSON to the file descriptor named by its argument: `{"query": id}`
as soon as an adapter tells one, `{"result": …}` at the end.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from longhaul.benchmark.adapters import Consumed, FailedError, Trial, UnsupportedError, load

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the deadline's, see longhaul.fleet.runtime
PHASES = ("setup", "execute", "consume")
_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


class DeadlineOverError(Exception):
    """The deadline was over before a query; nothing of this trial says anything about its case (S65)."""


def main() -> NoReturn:
    """Run the trial and end at once: its interpreter need not tidy up."""
    channel = int(sys.argv[1])
    os.set_inheritable(channel, False)
    task = json.loads(sys.stdin.buffer.read())

    def tell(**message: Any) -> None:
        line = memoryview(json.dumps(message, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        while line:
            line = line[os.write(channel, line) :]

    trial = Trial(
        id=task["id"],
        parameters=task["parameters"],
        scale=task["scale"],
        prefix=task["prefix"],
        started=lambda query: tell(query=query),
        may_query=_until(task["deadline"]),
    )
    result = run(task["target"], trial)
    try:
        tell(result=result)
    except (ValueError, TypeError, RecursionError) as problem:  # infinity, half a surrogate: a record cannot hold it
        error = f"what the trial says cannot be recorded: {type(problem).__name__}: {problem}"
        tell(result={"outcome": "failed", "error": error.encode("ascii", "backslashreplace").decode()})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def run(target: str, trial: Trial) -> dict[str, Any]:
    """Measure; whatever an adapter raises becomes an outcome."""
    marks: list[float] = []
    consumed = Consumed()
    outcome, error, cpu = "success", None, 0.0
    try:
        adapter = load(target)
        cpu = _cpu_seconds()
        marks.append(time.perf_counter())
        adapter.setup(trial)
        marks.append(time.perf_counter())
        trial.may_query()
        adapter.execute()
        marks.append(time.perf_counter())
        consumed = adapter.consume()
        marks.append(time.perf_counter())
    except UnsupportedError as reason:
        outcome, error = "unsupported", str(reason)
    except FailedError as reason:
        outcome, error = "failed", str(reason)
    except DeadlineOverError as reason:
        outcome, error = "interrupted", str(reason)
    except Exception as problem:  # noqa: BLE001  the process's outermost edge; the traceback goes to the attempt's log
        sys.excepthook(type(problem), problem, problem.__traceback__)
        outcome, error = "failed", f"{type(problem).__name__}: {problem}"
    cpu = _cpu_seconds() - cpu
    times = {phase: end - begin for phase, begin, end in zip(PHASES, marks, marks[1:], strict=False)}
    if len(marks) == len(PHASES) + 1:
        times["total"] = marks[-1] - marks[0]
    return {
        "outcome": outcome,
        "error": error,
        "times": {**times, **consumed.times},
        "cpu_seconds": cpu if marks else None,
        "peak_rss_bytes": _peak_rss_bytes(),
        "rows": consumed.rows,
        "checksum": consumed.checksum,
        "values": dict(consumed.values),
    }


def _until(deadline: str | None) -> Callable[[], None]:
    """Return what raises once the deadline in that file is over."""
    if deadline is None:
        return lambda: None
    from longhaul.fleet.deadline import DeadlineFile

    file = DeadlineFile.open(Path(deadline))

    def check() -> None:
        if time.clock_gettime(CLOCK) >= file.read():
            raise DeadlineOverError("the deadline was over before a query")

    return check


def _cpu_seconds() -> float:
    """Used by this process and by those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_rss_bytes() -> int:
    """The most that this process, or one that it has waited for, had at a time.

    Not `ru_maxrss` of its own: that begins with what its parent had when it was forked.
    """
    waited_for: int = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _RSS_UNIT_BYTES
    try:
        with open("/proc/self/status", "rb") as status:
            own = next(int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmHWM:"))
    except (OSError, StopIteration):
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES
    return max(own, waited_for)
