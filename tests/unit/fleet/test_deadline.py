"""A deadline that two processes share (F19)."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.fleet.deadline import DeadlineFile

READER = """
import sys
from pathlib import Path
from longhaul.fleet.deadline import DeadlineFile
file = DeadlineFile.open(Path(sys.argv[1]))
for line in sys.stdin:
    print(file.read(), flush=True)
"""


def test_another_process_sees_every_change(tmp_path: Path) -> None:
    """F19: at once, and without opening the file again."""
    mine = DeadlineFile.create(tmp_path / "deadline")
    command = [sys.executable, "-c", READER, str(tmp_path / "deadline")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        seen = []
        for seconds in (None, 12.5, 1e9, -math.inf):
            if seconds is not None:
                mine.write(seconds)
            reader.stdin.write("?\n")
            reader.stdin.flush()
            seen.append(float(reader.stdout.readline()))
        reader.stdin.close()
        assert reader.wait(20) == 0
    assert seen == [-math.inf, 12.5, 1e9, -math.inf]
    mine.close()


def test_a_new_worker_ends_an_old_ones_deadline_and_never_extends_it(tmp_path: Path) -> None:
    """I5: an orchestrator that outlived its worker starts nothing any more."""
    DeadlineFile.create(tmp_path / "deadline").write(5.0)
    orphan = DeadlineFile.open(tmp_path / "deadline")
    new = DeadlineFile.create(tmp_path / "deadline")
    assert new.read() == -math.inf
    new.write(100.0)
    assert orphan.read() == -math.inf
    assert DeadlineFile.open(tmp_path / "deadline").read() == 100.0


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """It is refused, not read as some number."""
    (tmp_path / "deadline").write_bytes(b"1")
    with pytest.raises(OSError, match="holds no deadline"):
        DeadlineFile.open(tmp_path / "deadline")
    with pytest.raises(FileNotFoundError):
        DeadlineFile.open(tmp_path / "nothing")
