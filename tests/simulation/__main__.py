"""Run many schedules on all cores, or one again: `python -m tests.simulation --seeds N | --seed N | --replay LINE`.

Without `--kind`, one schedule of whole workers for every twenty of leases.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation import choices, schedule
from tests.simulation.observed import observed
from tests.simulation.schedule import Result
from tests.simulation.workers import schedule as workers

KINDS: dict[str, Callable[..., Result]] = {"leases": schedule.run, "workers": workers.run}
BATCH = {"leases": 250, "workers": 50}
WORKERS_SHARE = 20
PROGRESS_SECONDS = 60.0


def batch(kind: str, first: int, count: int) -> tuple[int, float, list[tuple[int, str]]]:
    """Run consecutive seeds; returned are the events, the CPU's seconds and what went wrong."""
    began = time.process_time()
    gc.disable()  # collected between batches: a quarter faster
    events, found = 0, []
    with observed():
        for seed in range(first, first + count):
            result = KINDS[kind](seed)
            events += result.events
            if result.violation:
                found.append((seed, result.violation))
    gc.collect()
    return events, time.process_time() - began, found


def explain(kind: str, seed: int, violation: str) -> None:
    """Shrink a failing schedule, and print the line that replays it."""
    print(f"\nseed {seed}: {violation}")
    run = KINDS[kind]
    script = schedule.shrink(run(seed), run)
    line = choices.line(script)
    print(f"shrunk to {len(script)} choices: python -m tests.simulation --kind {kind} --replay {line}")
    run(script=script, trace=print)


def many(kind: str, first: int, seeds: int, cores: int) -> int:
    """Run that many schedules, print the rate, and explain the first failures."""
    began = time.monotonic()
    starts = range(first, first + seeds, BATCH[kind])
    counts = [min(BATCH[kind], first + seeds - start) for start in starts]
    found: list[tuple[int, str]] = []
    events, busy, told = 0, 0.0, began
    with ProcessPoolExecutor(cores) as pool:
        for number, (some, cpu, failures) in enumerate(pool.map(partial(batch, kind), starts, counts), 1):
            events, busy = events + some, busy + cpu
            found += failures
            if time.monotonic() > told + PROGRESS_SECONDS:
                told = time.monotonic()
                ran = min(number * BATCH[kind], seeds)
                print(f"{ran} schedules of {kind} so far, {len(found)} violations", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    found.sort()
    print(
        f"{seeds} schedules of {kind}, seeds {first} to {first + seeds - 1}, {events} events: {len(found)} violations; "
        f"{seconds:.1f} s on {cores} cores, {seeds / seconds:.0f} schedules/s, {seeds / busy:.0f} per second of a core",
        flush=True,
    )
    for seed, violation in found[:3]:
        explain(kind, seed, violation)
    return 1 if found else 0


def main() -> int:
    """Parse the arguments and do it; 1 if an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--kind", choices=list(KINDS), help="of schedules: leases alone, or whole workers")
    parser.add_argument("--seeds", type=int, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="one schedule, with its trace")
    parser.add_argument("--replay", metavar="LINE", help="one schedule from its choices, with its trace")
    arguments = parser.parse_args()
    if arguments.seeds is not None:
        if arguments.kind is not None:
            return many(arguments.kind, arguments.first, arguments.seeds, arguments.cores)
        codes = [many("leases", arguments.first, arguments.seeds, arguments.cores)]
        codes.append(many("workers", arguments.first, max(1, arguments.seeds // WORKERS_SHARE), arguments.cores))
        return max(codes)
    script = choices.parse(arguments.replay) if arguments.replay is not None else None
    result = KINDS[arguments.kind or "leases"](arguments.seed or 0, script, trace=print)
    return 1 if result.violation else 0


if __name__ == "__main__":
    sys.exit(main())
