"""Which processes a command has left alive, whatever they did to be left alone (S12)."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

# In the environment of a command, inherited by all that it starts: which command, and which worker's.
MARK, HOME = "LONGHAUL_FLEET_PROCESS", "LONGHAUL_FLEET_DIRECTORY"
_PROC = Path("/proc")
_SEEN = (_PROC / "self" / "stat").exists()  # Linux


def kill_all(group: int, mark: str) -> bool:
    """Send SIGKILL to a process group, and to all with this mark. Returned is whether nothing of them is alive.

    Zombies are dead. Without /proc, only the group is looked for.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS forbids it for a group of zombies
        os.killpg(group, signal.SIGKILL)
    if not _SEEN:
        return not _there(group)
    alive = False
    for process in _PROC.iterdir():
        if not process.name.isdecimal():
            continue
        if _group_if_alive(process) == group:
            alive = True
        elif _marked(process, MARK, mark):
            alive = _kill_marked(process, MARK, mark) or alive
    return not alive


def kill_left_in(directory: str) -> bool:
    """Send SIGKILL to all that a worker of this directory has ever started. Returned is whether nothing is alive.

    A worker that was killed leaves its commands; under systemd they die with it, elsewhere the next worker sees to it
    before it takes its host's claims over (I5, F14). Without /proc nothing can be found.
    """
    alive = False
    for process in _PROC.iterdir() if _SEEN else ():
        if process.name.isdecimal() and int(process.name) != os.getpid() and _marked(process, HOME, directory):
            alive = _kill_marked(process, HOME, directory) or alive
    return not alive


def _there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _group_if_alive(process: Path) -> int | None:
    try:
        state, _, group = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
        if state in "ZX" and len(os.listdir(process / "task")) <= 1:  # a zombie's other threads may live
            return None
    except (OSError, ValueError):
        return None  # gone since
    return int(group)


def _marked(process: Path, name: str, value: str) -> bool:
    try:
        return os.fsencode(f"{name}={value}") in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # gone since, or another user's


def _kill_marked(process: Path, name: str, value: str) -> bool:
    """Kill by a handle, not by a number that may be another's by now. Returned is whether it was alive."""
    try:
        handle = os.pidfd_open(int(process.name))
    except OSError:
        return False
    try:
        if not _marked(process, name, value):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
