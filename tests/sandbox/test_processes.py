"""The keeper: nothing that the sandbox starts outlives it, and forked modules behave like processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox import processes, surroundings
from tests.sandbox.conftest import until


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[processes.Keeper]:
    monkeypatch.setenv("MOTO_PORT", "1")
    keeper = processes.Keeper()
    monkeypatch.setattr(processes, "_current", keeper)
    yield keeper
    keeper.close()


def run(*command: str, **environment: str) -> tuple[int, str]:
    variables = {**surroundings.child_environment(), **environment}
    return processes.run(list(command), environment=variables, cwd=surroundings.ROOT, timeout_seconds=20)


def warm(keeper: processes.Keeper, *arguments: str, **environment: str) -> tuple[int | None, str]:
    """Run `python -m …` in a fork of the keeper."""
    reading, writing = os.pipe()
    with open(os.devnull, "rb") as nothing:
        process = keeper.start(
            [sys.executable, "-m", *arguments],
            environment={**surroundings.child_environment(), **environment},
            cwd=surroundings.ROOT,
            stdin=nothing.fileno(),
            output=writing,
            warm=True,
        )
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    assert process.ended.wait(20)
    return process.exit_code, text


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_output_and_exit_code(keeper: processes.Keeper) -> None:
    assert run("sh", "-c", "echo out; echo err >&2; exit 7") == (7, "out\nerr\n")
    assert run("sh", "-c", "kill -9 $$") == (-9, "")


def test_a_command_that_takes_too_long_is_killed(keeper: processes.Keeper) -> None:
    began = time.monotonic()
    code, _ = processes.run(
        ["sleep", "60"], environment=surroundings.child_environment(), cwd=surroundings.ROOT, timeout_seconds=0.3
    )
    assert code == -signal.SIGKILL
    assert time.monotonic() - began < 30


def test_what_a_command_leaves_running_ends_with_it(keeper: processes.Keeper) -> None:
    began = time.monotonic()
    _, text = run("sh", "-c", "sleep 60 & echo $!")  # the pipe is still held by the sleeper
    assert time.monotonic() - began < 30
    until(lambda: not alive(int(text)))


def test_a_command_that_is_killed_before_it_has_begun_ends_too(keeper: processes.Keeper) -> None:
    with open(os.devnull, "r+b") as nothing:
        for _ in range(20):
            process = keeper.start(
                ["sleep", "60"],
                environment=surroundings.child_environment(),
                cwd=surroundings.ROOT,
                stdin=nothing.fileno(),
                output=nothing.fileno(),
            )
            process.kill()
            assert process.ended.wait(10)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_keeper_is_killed_all_that_it_started_ends(keeper: processes.Keeper, number: int) -> None:
    with open(os.devnull, "r+b") as nothing:
        process = keeper.start(
            ["sleep", "60"],
            environment=surroundings.child_environment(),
            cwd=surroundings.ROOT,
            stdin=nothing.fileno(),
            output=nothing.fileno(),
        )
    assert process.started.wait(10)
    assert process.pid is not None
    os.kill(keeper.pid, number)
    assert process.ended.wait(10)  # and whoever waits for it is woken
    until(lambda: not alive(process.pid or 0))


def test_when_the_sandbox_is_killed_keeper_jobs_and_their_children_end(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "os.environ['MOTO_PORT'] = '1'\n"
        "from sandbox import processes, surroundings\n"
        "k = processes.install()\n"
        "out = open(sys.argv[1], 'wb')\n"
        "p = k.start(['sh', '-c', 'trap : TERM; sleep 61 & echo $!; echo $$; wait; sleep 62'],\n"
        "            environment=surroundings.child_environment(), cwd=surroundings.ROOT, stdin=0,\n"
        "            output=out.fileno())\n"
        "print(k.pid, flush=True)\n"
        "signal.pause()\n"
    )
    pids = tmp_path / "pids"
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(pids)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=surroundings.ROOT,
    )
    assert owner.stdout is not None
    started = [int(owner.stdout.readline())]
    started += until(lambda: len(found := pids.read_text().split()) == 2 and [int(one) for one in found])
    assert all(alive(pid) for pid in started)
    owner.kill()
    owner.communicate()
    for pid in started:
        until(lambda pid=pid: not alive(pid))


PROBE = """
import os, sys, threading
threading.Thread(target=lambda: print('thread')).start()
print(sys.argv[1:], os.environ['MARK'], __name__, os.getpgid(0) == os.getpid())
raise SystemExit({'none': None, 'text': 'said', 'code': 21, 'big': 300}[sys.argv[1]])
"""


@pytest.mark.parametrize(("argument", "code"), [("none", 0), ("text", 1), ("code", 21), ("big", 44)])
def test_a_forked_module_has_its_own_arguments_environment_and_exit_code(
    keeper: processes.Keeper, tmp_path: Path, argument: str, code: int
) -> None:
    """The same as `python -m`, which is run beside it."""
    (tmp_path / "probe_of_the_keeper.py").write_text(PROBE)
    variables = {"MARK": "here", "PYTHONPATH": str(tmp_path)}
    forked = warm(keeper, "probe_of_the_keeper", argument, **variables)
    assert forked == run(sys.executable, "-m", "probe_of_the_keeper", argument, **variables)
    assert forked[0] == code
    assert f"['{argument}'] here __main__ True" in forked[1]


def test_a_forked_module_that_fails_shows_its_traceback(keeper: processes.Keeper) -> None:
    code, text = warm(keeper, "no_such_module")
    assert code == 1
    assert "No module named no_such_module" in text


def test_forks_do_not_share_random_numbers(keeper: processes.Keeper) -> None:
    first = warm(keeper, "timeit", "-n1", "-r1", "import random; print(random.random())")
    second = warm(keeper, "timeit", "-n1", "-r1", "import random; print(random.random())")
    assert first[0] == second[0] == 0
    assert first[1] != second[1]


def test_libraries_are_warm_and_the_importers_own_modules_are_not(keeper: processes.Keeper) -> None:
    code = "import sys; print('boto3' in sys.modules, [m for m in sys.modules if m.startswith('longhaul.importer')])"
    _, text = warm(keeper, "timeit", "-n1", "-r1", code)
    assert text.startswith("True []")


def test_code_of_the_project_that_changed_is_loaded_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else a job would run what the importer was when the sandbox started."""
    from sandbox import keeper as program

    source = tmp_path / "source.py"
    source.write_text("")
    loaded = {"longhaul": object(), "longhaul.evallog": object(), "boto3": object()}
    monkeypatch.setattr(program.sys, "modules", modules := dict(loaded))
    monkeypatch.setattr(program, "_loaded", {str(source): source.stat().st_mtime_ns})
    program.forget_changed_code()
    assert modules == loaded
    os.utime(source, ns=(1, 1))
    program.forget_changed_code()
    assert list(modules) == ["boto3"]


def test_a_fork_is_fast(keeper: processes.Keeper) -> None:
    """A no-op item must cost little: 100 at cap 8 in 8 s. Measured against a start without the fork."""
    module = "longhaul.importer.warm"

    def lasted(start: Callable[[], tuple[int | None, str]]) -> float:
        began = time.monotonic()
        assert start() == (0, "")
        return time.monotonic() - began

    lasted(lambda: warm(keeper, module))
    forked = min(lasted(lambda: warm(keeper, module)) for _ in range(5))
    assert forked < min(lasted(lambda: run(sys.executable, "-m", module)) for _ in range(3)) / 2


def test_no_aws_set_up_of_the_user_leaks_in(keeper: processes.Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    _, text = run("env")
    assert "AWS_PROFILE" not in text
    assert "AWS_SESSION_TOKEN" not in text
    assert "AWS_CONFIG_FILE=/dev/null" in text
    assert "MOTO_PORT" not in text
