"""Time that the harness adds to a trial: `python -m perf.benchmark [--trials N]`.

Of each trial of a command that does nothing, what is left after the command's own time and a bare interpreter's start
and end. The two are measured in turn, so that a change of the machine meets both.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from longhaul.benchmark.case import Case
from longhaul.benchmark.checkpoint import Kind, Outcome, Start
from longhaul.benchmark.orchestrator import Assignment
from longhaul.benchmark.trial import TrialProcesses


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    trials = parser.parse_args().trials
    bare, whole, added, inside, worked = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        executor = TrialProcesses(log=Path(folder) / "log.txt", deadline=None, cancel=lambda name, ids: None)
        for number in range(trials):
            cpu = _cpu_seconds()
            began = time.perf_counter()
            subprocess.run([sys.executable, "-P", "-c", "pass"], stdin=subprocess.DEVNULL, check=True)
            bare.append(time.perf_counter() - began)
            bare_cpu = _cpu_seconds() - cpu
            assignment = _assignment(number)
            cpu = _cpu_seconds()
            began = time.perf_counter()
            measured = executor.run(assignment)
            whole.append(time.perf_counter() - began)
            assert measured.outcome is Outcome.SUCCESS, measured
            assert measured.times.execute is not None
            assert measured.times.total is not None
            assert measured.cpu_seconds is not None
            worked.append(_cpu_seconds() - cpu - bare_cpu - measured.cpu_seconds)
            added.append(whole[-1] - bare[-1] - measured.times.execute)
            inside.append(measured.times.total - measured.times.execute)
        executor.close()
    for name, values in (
        ("bare interpreter, start to end", bare),
        ("trial of a command that does nothing", whole),
        ("added by the harness", added),
        ("of that inside the measured window", inside),
        ("added CPU time", worked),
    ):
        ordered = sorted(values)
        print(
            f"{name:40} median {statistics.median(values) * 1e3:6.1f} ms, "
            f"p95 {ordered[int(len(ordered) * 0.95)] * 1e3:6.1f} ms, minimum {ordered[0] * 1e3:6.1f} ms"
        )


def _cpu_seconds() -> float:
    """Of this process and those that it waited for: what does not depend on how busy the machine is."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _assignment(number: int) -> Assignment:
    start = Start(
        run="perf",
        job="perf",
        trial=f"perf-{number}",
        case="perf",
        scale="1",
        kind=Kind.REPETITION,
        number=number,
        generation=0,
        attempt=1,
        adapter="command",
        started=datetime.now(UTC),
    )
    return Assignment(start=start, case=Case(name="perf", parameters={"command": ["true"]}), timeout_seconds=60)


if __name__ == "__main__":
    main()
