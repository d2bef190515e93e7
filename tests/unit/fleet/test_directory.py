"""A worker's directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.fleet.directory import Directory, DirectoryInUseError, lock_instance
from longhaul.fleet.keys import Attempt, Place

LOCKS = "import sys; from pathlib import Path; from longhaul.fleet.directory import Directory; {}"


def test_an_attempt_lies_as_in_s3(tmp_path: Path) -> None:
    """I9: job, generation, attempt."""
    place = Place(job="job-1", attempt=Attempt(generation=2, number=7))
    assert Directory(tmp_path).attempt(place) == tmp_path / "results" / "job-1" / "g2" / "attempt-7"


def test_one_worker_a_directory(tmp_path: Path) -> None:
    """F14: the next one takes over claims of its host at once, so the former must be gone."""
    directory = Directory(tmp_path / "worker")
    lock = directory.lock()
    code = LOCKS.format("Directory(Path(sys.argv[1])).lock()")
    command = [sys.executable, "-c", code, str(directory.root)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert "DirectoryInUseError" in refused.stderr
    with pytest.raises(DirectoryInUseError, match="another worker works in"):
        directory.lock()
    os.close(lock)
    subprocess.run(command, check=True, timeout=30)
    os.close(directory.lock())


@pytest.mark.skipif(sys.platform != "linux", reason="needs abstract addresses")
def test_one_worker_an_instance(tmp_path: Path) -> None:
    """F14, I1: in whatever directory; each would take the claims of the other over."""
    there = str(tmp_path)
    lock = lock_instance("i-1", there)
    assert lock is not None
    with pytest.raises(DirectoryInUseError, match="another worker works on i-1"):
        lock_instance("i-1", there)
    other = lock_instance("i-2", there)
    assert other is not None
    other.close()
    lock.close()
    again = lock_instance("i-1", there)
    assert again is not None
    again.close()
