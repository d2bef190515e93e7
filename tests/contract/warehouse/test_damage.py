"""Damaged logs: a documented exit code, one line of reason, bounded memory, and only rows of the log (W2, W7)."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.damage.kinds import KINDS, PHYSICAL
from tests.logs import header, write_log

ROOT = Path(__file__).parents[3]
COUNT = 100  # `python -m tests.damage --count 10000` for more


def test_damaged_variants_of_logs_leave_every_row_alone() -> None:
    """In a process of its own, whose memory is the importer's alone. Cases L01 and their like."""
    command = [sys.executable, "-m", "tests.damage", "--count", str(COUNT), "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} variants, seed 7, 0 faults" in done.stdout


@pytest.mark.parametrize("kind", sorted(PHYSICAL))
def test_a_log_that_ended_before_its_first_sample_can_be_damaged_too(tmp_path: Path, kind: str) -> None:
    intact = write_log(tmp_path / "a.eval", [], head=header(samples=0, results=None)).read_bytes()
    assert all(KINDS[kind](intact, random.Random(seed)) for seed in range(5))
