"""Run one command as a process of its own and take what the system says of it: time, CPU seconds, peak memory."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class FailedError(Exception):
    """A measured process ended with an error."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One process from its start to its end; CPU seconds of all its threads, the system's on its behalf included."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """Several runs of one command."""

    runs: tuple[Run, ...]

    @property
    def cpu_seconds(self) -> float:
        """Median."""
        return statistics.median(run.cpu_seconds for run in self.runs)

    @property
    def wall_seconds(self) -> float:
        """Median."""
        return statistics.median(run.wall_seconds for run in self.runs)

    @property
    def peak_bytes(self) -> int:
        """The greatest."""
        return max(run.peak_bytes for run in self.runs)

    def spread(self, name: str) -> tuple[float, float]:
        """Least and greatest of an attribute of the runs."""
        values = [getattr(run, name) for run in self.runs]
        return min(values), max(values)


def run(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run `python ARGUMENTS` in the repository's root. Raises FailedError with the end of what it said."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    output = process.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise FailedError(f"{' '.join(arguments)} ended with {process.returncode}: {output[-2000:]}")
    peak = usage.ru_maxrss * 1024  # begins at the harness's own, which therefore loads next to nothing
    return Run(wall_seconds=wall, cpu_seconds=usage.ru_utime + usage.ru_stime, peak_bytes=peak, output=output)


class Bystanders:
    """How many cores whatever else the machine runs kept busy since this was made."""

    def __init__(self) -> None:
        self._since, self._used = time.perf_counter(), _used_by_others()

    def cores(self) -> float:
        """To be asked when our own processes have ended."""
        return max(0.0, (_used_by_others() - self._used) / (time.perf_counter() - self._since))


def _used_by_others() -> float:
    """CPU seconds of the whole machine, without those of this process and of its children that have ended."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, interrupts, soft_interrupts = map(int, file.readline().split()[1:8])
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    machine = (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")
    return machine - sum(one.ru_utime + one.ru_stime for one in own)
