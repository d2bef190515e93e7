"""Ends everything that a trial started, however it tried to be left alone, and sees that it is dead (S12, I5).

Trials stay in the orchestrator's process group, so that the fleet's kill of the group reaches them; a kill of the group
would reach the orchestrator as well, so a trial's processes are found one by one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_LINUX = (_PROC / "self" / "stat").exists()
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """A process as the system lists it."""

    parent: int
    zombie: bool  # dead, and not waited for


def adopt() -> None:
    """Become the parent of what trials leave behind, so that none of it is lost sight of. Linux only."""
    if _LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> frozenset[int]:
    """This process's own children, and those that it has adopted."""
    return frozenset(pid for pid, process in _all().items() if process.parent == os.getpid())


def kill(trial: int | None, before: frozenset[int]) -> bool:
    """SIGKILL to whatever is of a trial. Returned is whether none of it was alive any more.

    That is: its process, if its number is still its own, what descends from it, and what this process has adopted
    since `before`, with its descendants.
    """
    processes = _all()
    mine = {pid for pid, process in processes.items() if process.parent == os.getpid()}
    adopted = mine - before - {trial} if _LINUX else set()
    roots = adopted if trial is None else {*adopted, trial}
    found = {pid for pid in _with_descendants(roots, processes) if pid in processes and not processes[pid].zombie}
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    for pid in adopted:  # the trial's own end is waited for elsewhere
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return not found


def _with_descendants(roots: Iterable[int], processes: Mapping[int, Process]) -> set[int]:
    found = set(roots)
    while more := {pid for pid, process in processes.items() if process.parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _all() -> dict[int, Process]:
    """Every process that this one may see."""
    return _all_by_proc() if _LINUX else _all_by_ps()


def _all_by_proc() -> dict[int, Process]:
    processes = {}
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                state, parent = file.readall().rpartition(b")")[2].split()[:2]
            zombie = state in b"ZX" and len(os.listdir(f"/proc/{name}/task")) <= 1  # its other threads may live
            processes[int(name)] = Process(int(parent), zombie)
        except (OSError, ValueError):
            continue  # gone since
    return processes


def _all_by_ps() -> dict[int, Process]:
    """Of systems without /proc."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {int(row[0]): Process(int(row[1]), row[2].startswith("Z")) for row in rows if len(row) == 3}
