"""What names internal eval sets cannot be committed by mistake (R3)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ignored(path: str) -> bool:
    """Whether `git add` would leave a file of that name alone, whatever the user's own settings say."""
    command = ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--quiet", path]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=20).returncode == 0


@pytest.mark.parametrize(
    "path",
    [
        "lists/june.json",
        "runs/lists/june.json",
        "keys.txt",
        "keys-june.txt",
        "runs/keys.txt",
        "retry-keys.txt",
        "june.keys.txt",
        "logs/one.eval",
    ],
)
def test_r3_lists_keys_files_and_logs_are_ignored(path: str) -> None:
    assert ignored(path)


@pytest.mark.parametrize("path", ["README.md", "longhaul/reimport/keys.py", "tests/unit/reimport/test_keys.py"])
def test_code_is_not(path: str) -> None:
    assert not ignored(path)
