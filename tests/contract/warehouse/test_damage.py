"""Damaged logs: a documented exit code, one line of reason, bounded memory, and only rows of the log (W2, W7)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COUNT = 100  # `python -m tests.damage --count 10000` for more


def test_damaged_variants_of_logs_leave_every_row_alone() -> None:
    """In a process of its own, whose memory is the importer's alone. Cases L01 and their like."""
    command = [sys.executable, "-m", "tests.damage", "--count", str(COUNT), "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} variants, seed 7, 0 faults" in done.stdout
