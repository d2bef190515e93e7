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

MARK = "LONGHAUL_TRIAL_MARK"  # in the environment of a trial, inherited by all that it starts
_PROC = Path("/proc")
_LINUX = (_PROC / "self" / "stat").exists()
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """A process as the system lists it."""

    parent: int
    marked: bool = False
    zombie: bool = False  # dead, and not waited for


def adopt() -> None:
    """Become the parent of what trials leave behind, so that it can be told from others. Linux only."""
    if _LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> frozenset[int]:
    """This process's own children, and those that it has adopted."""
    return frozenset(pid for pid, process in _all(None).items() if process.parent == os.getpid())


def kill(mark: str, trial: int | None, before: frozenset[int]) -> bool:
    """SIGKILL to whatever is of a trial. Returned is whether none of it was alive any more.

    That is: what carries its mark, what descends from its process, and what this process has adopted since `before`.
    """
    processes = _all(mark)
    mine = {pid for pid, process in processes.items() if process.parent == os.getpid()}
    adopted = mine - before - {trial} if _LINUX else set()
    roots = {pid for pid, process in processes.items() if process.marked} | adopted
    if trial is not None:
        roots.add(trial)
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


def _all(mark: str | None) -> dict[int, Process]:
    """Every process that this one may see; without a mark none is marked."""
    return _all_by_proc(f"{MARK}={mark}".encode() if mark else None) if _LINUX else _all_by_ps()


def _all_by_proc(mark: bytes | None) -> dict[int, Process]:
    processes = {}
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            state, parent = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()[:2]
            processes[int(name)] = Process(int(parent), mark is not None and _marked(name, mark), state in b"ZX")
        except (OSError, ValueError):
            continue  # gone since
    return processes


def _marked(name: str, mark: bytes) -> bool:
    try:
        return mark in _read(f"/proc/{name}/environ").split(b"\0")
    except OSError:
        return False  # gone since, or another user's


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _all_by_ps() -> dict[int, Process]:
    """Of systems without /proc: without marks, so only by descent."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {int(row[0]): Process(int(row[1]), zombie=row[2].startswith("Z")) for row in rows if len(row) == 3}
