"""One small process that starts all others of the sandbox, so that none of them can outlive it.

It stands for the container host (ECS on Fargate): a command runs in a process group of its own; when its first
process ends the rest of the group is killed, as a container ends with its PID 1; a command above its memory limit is
killed. The sandbox holds the other end of the control socket, so when the sandbox is gone, however it went, the
socket closes, every group is killed and the keeper ends. Commands `python -m MODULE` are forked from here, where the
third-party libraries of the importer are loaded already: that stands for an image that is pulled and warm. Code of
the project that has changed since is loaded anew. Single-threaded on purpose: forking a process with threads is not
safe.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

MEMORY_WATCH_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(kw_only=True)
class Child:
    """A running command."""

    id: int
    memory_limit_bytes: int | None
    out_of_memory: bool = False


def receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and the file descriptors that came with it; None when the sandbox is gone."""
    header, fds, _, _ = socket.recv_fds(control, 4, 4)
    if not header:
        return None
    while len(header) < 4:
        header += control.recv(4 - len(header))
    wanted, body = struct.unpack("!I", header)[0], bytearray()
    while len(body) < wanted:
        piece = control.recv(wanted - len(body))
        if not piece:
            return None
        body += piece
    return json.loads(body), fds


def send(control: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """One message: its length, with which the descriptors travel, then JSON."""
    body = json.dumps(message).encode()
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    control.sendmsg([struct.pack("!I", len(body))], ancillary)
    control.sendall(body)


class Keeper:
    """The loop: messages in, children started and signalled, ends reported."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.children: dict[int, Child] = {}

    def serve(self) -> None:
        """Until the sandbox closes its end; then kill everything."""
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        selector = selectors.DefaultSelector()
        selector.register(self.control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            watched = any(child.memory_limit_bytes for child in self.children.values())
            ready = {key.fd for key, _ in selector.select(MEMORY_WATCH_SECONDS if watched else None)}
            if woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
            if self.control.fileno() in ready:
                received = receive(self.control)
                if received is None:
                    break
                self.obey(*received)
            self.reap()
            self.watch_memory()
        for pid in self.children:
            kill_group(pid)

    def obey(self, message: dict[str, Any], fds: list[int]) -> None:
        """Start a command, or signal one."""
        try:
            if message["do"] == "start":
                self.start(message, fds)
            else:
                for pid, child in self.children.items():
                    if child.id == message["id"]:
                        if message["signal"] == signal.SIGKILL:
                            kill_group(pid)
                        else:
                            os.kill(pid, message["signal"])  # as a container's stop: to its first process only
        finally:
            for fd in fds:
                os.close(fd)

    def start(self, message: dict[str, Any], fds: list[int]) -> None:
        """Fork; the child becomes the command."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(message, fds, parent, self.control)
        with contextlib.suppress(
            OSError
        ):  # here and in the child: whoever comes first, it is a group when it is killed
            os.setpgid(pid, pid)
        self.children[pid] = Child(id=message["id"], memory_limit_bytes=message.get("memory_limit_bytes"))
        send(self.control, {"id": message["id"], "pid": pid})

    def reap(self) -> None:
        """Report every command that ended, once nothing of its group is left."""
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            child = self.children.pop(pid, None)
            kill_group(pid)
            if child:
                code = os.waitstatus_to_exitcode(status)
                send(self.control, {"id": child.id, "ended": code, "out_of_memory": child.out_of_memory})

    def watch_memory(self) -> None:
        """Kill commands above their limit, as the kernel does to a container: all of it at once."""
        for pid, child in self.children.items():
            if child.memory_limit_bytes and resident_bytes(pid) > child.memory_limit_bytes:
                child.out_of_memory = True
                kill_group(pid)


def become(message: dict[str, Any], fds: list[int], parent: int, control: socket.socket) -> NoReturn:
    """In the forked child: be the command, and never return."""
    code = 1
    try:
        with contextlib.suppress(PermissionError):
            os.setpgid(0, 0)
        if sys.platform == "linux":  # should the keeper itself be killed
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        control.close()
        for target, fd in ((0, fds[0]), (1, fds[1]), (2, fds[1])):
            os.dup2(fd, target)
        os.closerange(3, 256)
        os.chdir(message["cwd"])
        argv = message["argv"]
        if message.get("warm") and is_module(argv, message["environment"]):
            code = run_module(argv[2], argv[3:], message["environment"])
        else:
            os.execvpe(argv[0], argv, message["environment"])  # noqa: S606  # no shell is wanted
    except BaseException:  # noqa: BLE001  # the process's outermost edge
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def is_module(argv: list[str], environment: dict[str, str]) -> bool:
    """Whether a command is `python -m …` with no setting of the interpreter that a running one could not take on."""
    settings = {name for name in environment if name.startswith("PYTHON")}
    return argv[0] == sys.executable and argv[1:2] == ["-m"] and settings <= {"PYTHONPATH", "PYTHONUNBUFFERED"}


def run_module(module: str, arguments: list[str], environment: dict[str, str]) -> int:
    """What `python -m module` does; returns the exit code."""
    os.environ.clear()
    os.environ.update(environment)
    if environment.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.path[1:1] = [place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]
    time.tzset()
    forget_changed_code()
    sys.argv = [module, *arguments]
    code: Any = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001  # as the interpreter itself
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def kill_group(pid: int) -> None:
    """SIGKILL to all of a command; nothing when it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def resident_bytes(pid: int) -> int:
    """Memory of a process and its descendants."""
    total, todo = 0, [pid]
    while todo:
        one = todo.pop()
        try:
            if sys.platform == "linux":
                with open(f"/proc/{one}/statm") as statm:
                    total += int(statm.read().split()[1]) * _PAGE_BYTES
                with open(f"/proc/{one}/task/{one}/children") as children:
                    todo.extend(map(int, children.read().split()))
            else:
                shown = subprocess.run(
                    ["ps", "-o", "rss=", "-p", str(one)], capture_output=True, text=True, check=False
                )
                total += int(shown.stdout or 0) * 1024
        except (OSError, ValueError):
            continue  # it ended meanwhile
    return total


WARM = (
    "longhaul.importer.warm"  # imports what every import needs and is safe to fork with; the importer says what that is
)
FRESH = "longhaul.importer"  # its own modules may look at a job's environment when they are imported
_loaded: dict[str, int] = {}  # files of the project that are loaded here → when they were changed


def preload() -> None:
    """Load the libraries of the importer, and S3's service model into boto3's default session."""
    for name in (WARM, "argparse", "encodings.idna", "resource"):
        with contextlib.suppress(Exception):  # a warm-up only: the job itself will report what cannot be imported
            __import__(name)
    with contextlib.suppress(Exception):
        import boto3

        boto3.client("s3")
    for name, module in list(sys.modules.items()):
        if name == FRESH or name.startswith(f"{FRESH}."):
            del sys.modules[name]
        elif name.split(".")[0] == FRESH.split(".")[0] and module.__file__:
            _loaded[module.__file__] = changed(module.__file__)
    gc.collect()
    gc.freeze()


def changed(file: str) -> int:
    """When a file was changed, in nanoseconds; 0 when it is gone."""
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def forget_changed_code() -> None:
    """In a job: load the project's modules anew if one of them is not what it was when the keeper loaded it."""
    if any(changed(file) != moment for file, moment in _loaded.items()):
        for name in [name for name in sys.modules if name.split(".")[0] == FRESH.split(".")[0]]:
            del sys.modules[name]


def main() -> None:
    """`python -m sandbox.keeper FD`: serve the sandbox at the other end of that socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    preload()
    gc.disable()
    keeper = Keeper(control)
    try:
        keeper.serve()
    except (BrokenPipeError, ConnectionResetError):
        for pid in keeper.children:
            kill_group(pid)


if __name__ == "__main__":
    main()
