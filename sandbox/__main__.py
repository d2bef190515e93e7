"""`python -m sandbox up|down|status|env|reset`: the local AWS.

Exit codes: 0 done; 1 it failed; 2 a wrong argument; 3 no sandbox is running; 4 `up`: one is running already.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import traceback
from typing import Any

from sandbox import surroundings
from sandbox.state import Folder, RunningError, SandboxError

FAILED, NOT_RUNNING, RUNNING = 1, 3, 4
STOP_SECONDS, START_SECONDS = 20, 300


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.verb(Folder.ours(), options))
    except RunningError as error:
        code, text = RUNNING, str(error)
    except SandboxError as error:
        code, text = FAILED, str(error)
    except Exception as error:
        if options.debug:
            raise
        code, text = FAILED, f"{type(error).__name__}: {error} (--debug shows where)"
    if options.debug:
        traceback.print_exc()
    print(f"sandbox: {text}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sandbox", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    one = verbs.add_parser("up", help="start it and deploy the stacks into it")
    one.add_argument("--detach", action="store_true", help="return when it is ready and leave it running")
    one.add_argument("--port", type=_port, default=0, help="of the AWS endpoint; a free one if not given")
    one.add_argument("--postgres-port", type=_port, default=0, help="of the warehouse; a free one if not given")
    one.add_argument("--lock", type=int, help=argparse.SUPPRESS)  # the folder's, handed over by --detach
    one.set_defaults(verb=up)
    one = verbs.add_parser("down", help="stop it and remove all that it wrote")
    one.set_defaults(verb=down)
    one = verbs.add_parser("status", help="say whether it runs")
    one.add_argument("--json", action="store_true")
    one.set_defaults(verb=status)
    one = verbs.add_parser("env", help="print export lines: endpoint, credentials, region, warehouse, buckets")
    one.set_defaults(verb=env)
    one = verbs.add_parser("reset", help="empty it and deploy the stacks again")
    one.set_defaults(verb=reset)
    for verb in verbs.choices.values():
        verb.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
    return parser


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port: 1 to 65535")
    return number


def up(folder: Folder, options: Any) -> int:
    """Start; in the foreground until Ctrl-C, or with --detach until it is ready."""
    if options.detach:
        return _detach(folder, options)
    folder.acquire(options.lock)
    from sandbox.server import Server

    code = 0
    try:
        Server(folder, port=options.port, postgres_port=options.postgres_port).run()
        print("sandbox: stopped", file=sys.stderr)
    except SandboxError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        code = FAILED
        if options.debug:
            traceback.print_exc()
    except BaseException as error:  # noqa: BLE001  # the process's outermost edge
        if options.debug:
            traceback.print_exc()
        print(f"sandbox: {type(error).__name__}: {error} (--debug shows where)", file=sys.stderr)
        code = FAILED
    sys.stderr.flush()
    os._exit(code)  # worker threads of moto and of jobs need nobody's patience


def _detach(folder: Folder, options: Any) -> int:
    if folder.running():
        raise RunningError(folder)
    lock = folder.acquire()
    folder.log.write_bytes(b"")
    command = [sys.executable, "-P", "-m", "sandbox", *(["--debug"] if options.debug else []), "up"]
    command += ["--port", str(options.port), "--postgres-port", str(options.postgres_port), "--lock", str(lock)]
    places = os.pathsep.join(filter(None, (str(surroundings.ROOT), os.environ.get("PYTHONPATH"))))
    with open(folder.log, "ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lock],  # handed over, never let go: of two at once one is told that the other runs
            env={**os.environ, "PYTHONPATH": places},  # this very sandbox, whatever the working directory holds
        )
    folder.release()
    with open(folder.log, errors="replace") as log:
        deadline = time.monotonic() + START_SECONDS
        try:
            while time.monotonic() < deadline:
                code = child.poll()
                for line in log:
                    if line.startswith(("[", "sandbox: ")):
                        print(line, end="", file=sys.stderr, flush=True)
                if code is not None:
                    return code or FAILED
                if folder.read().get("status") == "ready":
                    return 0
                time.sleep(0.1)
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            return FAILED
    child.terminate()
    raise SandboxError(f"it did not get ready within {START_SECONDS} s; see {folder.log}")


def down(folder: Folder, options: Any) -> int:
    """Stop it, if it runs, and remove its folder."""
    if not folder.running():
        folder.remove()
        print("sandbox: none is running", file=sys.stderr)
        return 0
    pid = _pid(folder)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while folder.running() and time.monotonic() < deadline:
        time.sleep(0.05)
    if folder.running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while folder.running():
            time.sleep(0.05)
    folder.remove()
    print("sandbox: stopped", file=sys.stderr)
    return 0


def status(folder: Folder, options: Any) -> int:
    """Say how it is; the exit code is 0 only when it is ready."""
    running, state = folder.running(), folder.read()
    word = state.get("status", "starting") if running else "failed" if state.get("status") == "failed" else "stopped"
    if options.json:
        shown = {**state, "status": word, "folder": str(folder.path)}
        print(
            json.dumps(shown if running else {"status": word, "folder": str(folder.path), "error": state.get("error")})
        )
    elif running:
        print(f"{word}: process {state.get('pid')}, {state.get('env', {}).get('AWS_ENDPOINT_URL', '')}, {folder.path}")
        for name in sorted(state.get("outputs", {})):
            print(f"  {name:<32} {state['outputs'][name]}")
    elif word == "failed":
        print(f"failed: {state.get('error')}")
    elif state:
        print(f"stopped: the last one, process {state.get('pid')}, was killed; `longhaul sandbox up` starts anew")
    else:
        print("stopped: `longhaul sandbox up` starts it")
    return 0 if running and word == "ready" else NOT_RUNNING


def env(folder: Folder, options: Any) -> int:
    """Print what a shell needs to reach it: eval "$(longhaul sandbox env)"."""
    if not _is_ready(folder):
        return NOT_RUNNING
    hindering = [name for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN") if name in os.environ]
    if hindering:
        print(f"unset {' '.join(hindering)}")
    for name, value in folder.read()["env"].items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def reset(folder: Folder, options: Any) -> int:
    """Empty it, and wait until it is deployed again."""
    if not _is_ready(folder):
        return NOT_RUNNING
    before = folder.read()["generation"]
    os.kill(_pid(folder), signal.SIGUSR1)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        state = folder.read()
        if state.get("status") == "failed" or not folder.running():
            raise SandboxError(f"the reset failed: {state.get('error')}; see {folder.log}")
        if state.get("generation", 0) > before:
            print("sandbox: reset", file=sys.stderr)
            return 0
        time.sleep(0.1)
    raise SandboxError(f"the reset took more than {START_SECONDS} s; see {folder.log}")


def _is_ready(folder: Folder) -> bool:
    if folder.running() and folder.read().get("status") == "ready":
        return True
    if folder.running():
        what = "is still starting; wait until `longhaul sandbox status` says ready"
    else:
        what = "is not running; `longhaul sandbox up` starts one, `longhaul sandbox status` says more"
    print(f"sandbox: it {what}", file=sys.stderr)
    return False


def _pid(folder: Folder) -> int:
    pid = folder.read().get("pid")
    if not isinstance(pid, int):
        raise SandboxError(f"a sandbox holds {folder.path}, but its state.json names no process; end it by hand")
    return pid


if __name__ == "__main__":
    sys.exit(main())
