"""`python -m demo`: the main job of Longhaul from start to end, in its own sandbox below build/demo.

Every step is a command that an operator could type; the demo prints it, runs it and shows what it printed. Exits with 1
and names the step when something did not turn out as told.
"""

import atexit
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from demo.warehouse import Warehouse

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "demo"
MISSING = "evals/demo-dates/never-written.eval"
RUN = "demo-run"
STARTED = time.monotonic()
WAIT_SECONDS = 60
# Console scripts by their modules: the first line of a script cannot name an interpreter in a path with a space.
MODULES = {"longhaul": "longhaul.cli", "aws": "awscli"}


class DemoError(Exception):
    """A step did not turn out as the demo tells it."""


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ |= {"LONGHAUL_SANDBOX_DIR": str(FOLDER / "sandbox"), "LONGHAUL_ENV": "sandbox", "AWS_PAGER": ""}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends the demo ends its sandbox too
    longhaul("sandbox", "down", quiet=True, expect=None)  # what an interrupted demo may have left
    try:
        story()
    except DemoError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; its sandbox is shut down", file=sys.stderr)
        return 130
    finally:
        longhaul("sandbox", "down", quiet=True, expect=None)
    say(f"done in {time.monotonic() - STARTED:.0f} s")
    print(
        f"""
  A re-import of 21 items failed at its tolerance of 5 %, was repaired and redriven, and ended SUCCEEDED with the one
  failure that nobody could repair. The sandbox is shut down; nothing is left running.

  {FOLDER.relative_to(ROOT)}/results/  manifest, outcomes of all items, and report/ with report.md and failures.jsonl
  {FOLDER.relative_to(ROOT)}/logs/     the twenty logs (inspect view reads them)

  Next: .venv/bin/longhaul sandbox up, then docs/reimport.md; README.md says how to deploy to an account."""
    )
    return 0


def story() -> None:
    say("start the sandbox: S3, Batch, Step Functions, EventBridge, Lambda and a Postgres, here, without Docker")
    logs_folder = FOLDER / "logs"
    shutil.rmtree(logs_folder, ignore_errors=True)
    making = subprocess.Popen([sys.executable, "-m", "demo.logs", str(logs_folder)], cwd=ROOT, start_new_session=True)
    atexit.register(making.kill)
    longhaul("sandbox", "up", "--detach")
    environment = dict(
        shlex.split(line.removeprefix("export "))[0].split("=", 1)
        for line in longhaul("sandbox", "env", quiet=True).splitlines()
    )
    os.environ |= environment
    warehouse, bucket = Warehouse(environment["DATABASE_URL"]), environment["LOGS_BUCKET"]

    say("make twenty logs with inspect_ai (mock model), damage one, upload them")
    if making.wait(WAIT_SECONDS):
        raise DemoError("inspect_ai could not make the logs, see above")
    logs = sorted(logs_folder.glob("*/*.*"))
    damaged = [path for path in logs if path.suffix == ".eval"][-1]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-200])  # what a writer leaves whose disk is full
    run(
        "aws",
        "s3",
        "cp",
        "--recursive",
        "--only-show-errors",
        str(logs_folder.relative_to(ROOT)),
        f"s3://{bucket}/evals/",
    )
    keys = [f"evals/{path.relative_to(logs_folder)}" for path in logs]
    evals = sum(key.endswith(".eval") for key in keys)
    print(f"  {len(keys)} logs; the S3 rule matches evals/*.eval, so {evals} import themselves, the others do not")
    waiting(lambda: warehouse.attempts() >= evals, "the imports that the uploads started")

    say("the importer learns to count messages: every row imported before is stale")
    warehouse.make_stale()
    before = warehouse.table()

    say("start a re-import of all of them, of the damaged one, and of one that does not exist")
    keys_file = FOLDER / "demo-keys.txt"
    keys_file.write_text("# all logs of the demo\n" + "\n".join([*keys[:12], MISSING, *keys[12:]]) + "\n")
    start = ("--keys-file", str(keys_file.relative_to(ROOT)), "--name", RUN, "--tolerated-failure-percentage", "5")
    longhaul("reimport", "start", *start)
    longhaul("reimport", "watch", RUN, expect=1)
    expect_status("FAILED")

    say("two of 21 are 9.5 %, more than 5 %: the run aborted. What failed, and why?")
    longhaul("reimport", "failures", RUN)

    say("repair the damaged log; redrive: only what failed or never ran runs again")
    damaged.write_bytes(whole)
    run(
        "aws",
        "s3",
        "cp",
        "--only-show-errors",
        str(damaged.relative_to(ROOT)),
        f"s3://{bucket}/{keys[logs.index(damaged)]}",
    )
    longhaul("reimport", "redrive", RUN, "--yes")
    longhaul("reimport", "watch", RUN)
    expect_status("SUCCEEDED")
    longhaul("reimport", "failures", RUN)
    longhaul("reimport", "report", RUN)
    results = FOLDER / "results"
    shutil.rmtree(results, ignore_errors=True)
    source = f"s3://{environment['REIMPORT_BUCKET']}/results/"
    run("aws", "s3", "cp", "--recursive", "--only-show-errors", source, str(results.relative_to(ROOT)))

    say("the warehouse, before and after")
    print(warehouse.compare(before, warehouse.table()))

    say("shut down")
    longhaul("sandbox", "down")


def say(what: str) -> None:
    print(f"\n[{time.monotonic() - STARTED:3.0f} s] {what}", flush=True)


def longhaul(*arguments: str, quiet: bool = False, expect: int | None = 0) -> str:
    return run("longhaul", *arguments, quiet=quiet, expect=expect)


def run(program: str, *arguments: str, quiet: bool = False, expect: int | None = 0) -> str:
    """Run a program of the virtual environment; return its stdout, which is shown unless quiet.

    Raises:
        DemoError: its exit code is not `expect` (None: any will do).
    """
    if not quiet:
        print(f"  $ {shlex.join([program, *arguments])}", flush=True)
    done = subprocess.run(
        [sys.executable, "-P", "-m", MODULES[program], *arguments],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet and expect is None else None,
        stdin=subprocess.DEVNULL,
    )
    if not quiet:
        print(done.stdout, end="", flush=True)
    if expect is not None and done.returncode != expect:
        raise DemoError(f"`{shlex.join([program, *arguments])}` ended with {done.returncode}, not {expect}")
    return done.stdout


def expect_status(wanted: str) -> None:
    status = json.loads(longhaul("reimport", "status", RUN, "--json", quiet=True))["status"]
    if status != wanted:
        raise DemoError(f"the run should be {wanted}, it is {status}")


def waiting(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not ready():
        if time.monotonic() > end:
            raise DemoError(f"waited {WAIT_SECONDS} s for {what}")
        time.sleep(0.3)


if __name__ == "__main__":
    sys.exit(main())
