"""Hunt every mutant, or those that are named: `python -m tests.simulation.mutants [NAME …]`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.simulation.mutants import BY_NAME, MUTANTS, VARIABLE, Mutant, install_from_environment
from tests.simulation.mutants.mutant import ROOT

SCHEDULES = 3000  # that a mutant may survive at most, if the simulator is to find it
MODULES = {"leases": "tests.simulation.schedule", "workers": "tests.simulation.workers.schedule"}


def _hunt() -> None:
    """Look for a schedule that breaks, and print how many it took."""
    one = install_from_environment()
    schedule = importlib.import_module(MODULES[one.kind])
    for seed in range(SCHEDULES):
        result = schedule.run(seed)
        if result.violation:
            print(json.dumps({"schedules": seed + 1, "violation": result.violation}))
            return
    print(json.dumps({"schedules": SCHEDULES, "violation": None}))


def _try(one: Mutant) -> tuple[Mutant, int | None, str | None]:
    """Returned are the schedules it took, and how it was noticed."""
    environment = {**os.environ, VARIABLE: one.name, "PYTHONDONTWRITEBYTECODE": "1"}
    if one.test is None:
        command = [sys.executable, "-c", "from tests.simulation.mutants.__main__ import _hunt; _hunt()"]
        ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        found = json.loads(ran.stdout)
        return one, found["schedules"], found["violation"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.simulation.mutated", "--no-header", one.test]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{one.name}: {one.test} did not run\n{ran.stdout}{ran.stderr}")
    return one, None, one.test.rsplit("::", 1)[1] if ran.returncode == 1 else None


def main(names: list[str]) -> int:
    """Hunt them all; 1 if one survives."""
    chosen = [BY_NAME[name] for name in names] or list(MUTANTS)
    began = time.monotonic()
    took, survivors = [], []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for one, schedules, noticed in pool.map(_try, chosen):
            how = f"after {schedules} schedules: {noticed}" if schedules else str(noticed)
            print(f"{'found   ' if noticed else 'SURVIVES'} {one.name} ({one.rules}), {how}", flush=True)
            if noticed is None:
                survivors.append(one.name)
            elif schedules:
                took.append(schedules)
    median = f", the median took {statistics.median(took):.0f} schedules" if took else ""
    print(
        f"{len(chosen) - len(survivors)} of {len(chosen)} mutants found in {time.monotonic() - began:.0f} s:"
        f" {len(took)} by the simulator{median}, {len(chosen) - len(survivors) - len(took)} by their tests"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of mutants, as a hunt prints them; all without")
    names = parser.parse_args().names
    if strange := [name for name in names if name not in BY_NAME]:
        parser.error(f"no mutant is named {', '.join(map(repr, strange))}")
    sys.exit(main(names))
