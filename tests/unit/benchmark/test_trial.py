"""Trials as real processes (B3, F19)."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from longhaul.benchmark import trial
from longhaul.benchmark.adapters import Consumed, Trial, UnsupportedError, target
from longhaul.benchmark.case import Case
from longhaul.benchmark.checkpoint import Kind, Outcome, Start
from longhaul.benchmark.orchestrator import Assignment, Measured
from longhaul.benchmark.trial import TrialProcesses
from longhaul.fleet.deadline import DeadlineFile
from longhaul.fleet.runtime import real
from tests.unit.benchmark.doubles import EPOCH


class Nonsense:
    """An adapter with a bug."""

    remote = False

    def setup(self, trial: Trial) -> None:
        """Nothing."""

    execute = cancel = quiesce = demand = lambda self, *_: None

    def consume(self) -> Consumed:
        """Rows that are no number."""
        return Consumed(rows="many")  # type: ignore[arg-type]


SLEEPS = "import sys, time; open(sys.argv[1], 'w').write(str(__import__('os').getpid())); time.sleep(60)"


@pytest.fixture
def cancelled() -> list[tuple[str, tuple[str, ...]]]:
    """What was cancelled."""
    return []


@pytest.fixture
def executor(tmp_path: Path, cancelled: list[tuple[str, tuple[str, ...]]]) -> Iterator[TrialProcesses]:
    """Of one attempt, without a deadline."""
    executor = TrialProcesses(
        log=tmp_path / "log.txt", deadline=None, cancel=lambda name, ids: cancelled.append((name, tuple(ids)))
    )
    yield executor
    executor.close()


def assignment(parameters: dict[str, Any], *, adapter: str = "command", timeout_seconds: float = 30) -> Assignment:
    """A trial."""
    start = Start(
        run="r",
        job="j",
        trial="t",
        case="c",
        scale="7",
        kind=Kind.REPETITION,
        number=0,
        generation=0,
        attempt=1,
        adapter=adapter,
        prefix="s3://b/t/",
        started=EPOCH,
    )
    return Assignment(
        start=start, case=Case(name="c", adapter=adapter, parameters=parameters), timeout_seconds=timeout_seconds
    )


def python(code: str, *arguments: str, **others: Any) -> Assignment:
    """A trial that runs Python code."""
    return assignment({"command": [sys.executable, "-S", "-c", code, *arguments]}, **others)


def alive(pid: int) -> bool:
    """Whether a process runs; zombies do not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def pid_in(path: Path) -> int:
    """Wait for a process to say its number."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"nobody wrote {path}")


def test_a_command_is_measured(executor: TrialProcesses, tmp_path: Path) -> None:
    """B2, B3."""
    code = "import time; x = bytearray(50_000_000); x[::4096] = b'1' * len(x[::4096]); time.sleep(0.1); print('noise')"
    measured = executor.run(python(code + """; print('{"rows": 3, "checksum": 5, "more": [1]}')"""))
    assert (measured.outcome, measured.error) == (Outcome.SUCCESS, None)
    assert (measured.rows, measured.checksum, measured.values) == (3, "5", {"more": [1]})
    times = measured.times
    assert None not in (times.setup, times.execute, times.consume, times.total)
    assert times.execute is not None
    assert 0.1 < times.execute < 5
    assert times.total == pytest.approx((times.setup or 0) + times.execute + (times.consume or 0), abs=0.001)
    assert measured.cpu_seconds is not None
    assert 0 < measured.cpu_seconds < 5
    assert measured.peak_rss_bytes is not None
    assert 50_000_000 < measured.peak_rss_bytes < 100_000_000
    assert "noise\n" in (tmp_path / "log.txt").read_text()


def test_peak_memory_is_the_trials_own(executor: TrialProcesses) -> None:
    """B3: not what the process that started it holds, which the kernel's own account begins with."""
    ballast = bytearray(200_000_000)
    ballast[::4096] = b"1" * len(ballast[::4096])
    measured = executor.run(python("pass"))
    assert measured.peak_rss_bytes is not None
    assert measured.peak_rss_bytes < 60_000_000


@pytest.mark.parametrize(
    ("code", "outcome", "error"),
    [
        ("raise SystemExit(3)", Outcome.FAILED, "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", Outcome.FAILED, "ended by signal 9"),
        ('print(\'{"error": "throttled"}\')', Outcome.FAILED, "throttled"),
        ('print(\'{"unsupported": "no"}\')', Outcome.UNSUPPORTED, "no"),
        ("print('{\"rows\": 3}'); print('x')", Outcome.SUCCESS, None),
        ("print('[3]')", Outcome.SUCCESS, None),
        ("import sys; sys.stdout.buffer.write(b'{\\xff}')", Outcome.SUCCESS, None),
        ('print(\'{"times": {"execute": 9, "total": 9.5}}\')', Outcome.SUCCESS, None),
        ("import sys; assert sys.stdin.read() == ''", Outcome.SUCCESS, None),
        (
            "import os; assert os.environ['LONGHAUL_SCALE'] == '7' and os.environ['LONGHAUL_TRIAL_PREFIX'] == 's3://b/t/'",
            Outcome.SUCCESS,
            None,
        ),
    ],
)
def test_how_a_command_ends(executor: TrialProcesses, code: str, outcome: Outcome, error: str | None) -> None:
    """B2."""
    measured = executor.run(python(code))
    assert (measured.outcome, measured.error) == (outcome, error)
    if "times" in code:
        assert (measured.times.execute, measured.times.total) == (9, 9.5)
        assert measured.times.setup is not None


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"command": ["/no/such/program"]}, "/no/such/program: No such file or directory"),
        ({"command": "true"}, "parameters.command must be a list of texts, the program first"),
        ({}, "parameters.command must be a list of texts, the program first"),
    ],
)
def test_a_command_that_cannot_be_run_fails(executor: TrialProcesses, parameters: dict[str, Any], error: str) -> None:
    """B2."""
    measured = executor.run(assignment(parameters))
    assert (measured.outcome, measured.error) == (Outcome.FAILED, error)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ('{"x": NaN}', "cannot be recorded"),
        ('{"x": 1e999}', "cannot be recorded"),
        ('{"times": {"total": -Infinity}}', "times.total = -inf, which is no number of seconds"),
        ('{"times": {"setup": null, "total": -5}}', "times.total = -5, which is no number of seconds"),
        ('{"times": {"total": "fast"}}', "times.total = 'fast', which is no number of seconds"),
        ('{"times": 3}', "times = 3, which is no object of seconds"),
        ('{"error": "\\\\ud800"}', "cannot be recorded"),
        ('{"x": ' + "[" * 5000 + "]" * 5000 + "}", None),
        ('{"x": ' + "[" * 980 + "]" * 980 + "}", "what the trial"),
    ],
)
def test_what_no_record_can_hold_fails_the_trial_alone(
    executor: TrialProcesses, tmp_path: Path, said: str, error: str | None
) -> None:
    """B3: an attempt goes on, with its other trials."""
    (tmp_path / "said").write_text(said.replace("\\\\", "\\"))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # an orchestrator's; other tests may have left another
    try:
        measured = executor.run(python("import sys; print(open(sys.argv[1]).read())", str(tmp_path / "said")))
    finally:
        sys.setrecursionlimit(before)
    assert measured.outcome is (Outcome.FAILED if error else Outcome.SUCCESS), measured
    assert (error or "") in (measured.error or "")
    assert executor.run(python("pass")).outcome is Outcome.SUCCESS


def test_an_adapter_that_says_nonsense_fails_its_trial_alone(
    executor: TrialProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2: adapters are others' code."""
    monkeypatch.setattr(trial, "target", lambda name: f"{__name__}:Nonsense")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    measured = executor.run(assignment({}))
    assert measured.outcome is Outcome.FAILED
    assert "cannot be read: Expected `int | null`" in (measured.error or "")


def test_much_output_is_no_part_of_what_is_measured(executor: TrialProcesses, tmp_path: Path) -> None:
    """B3: nor does it fill the host's disk, and what every resume has to download."""
    code = "import sys\nfor _ in range(200): sys.stdout.write('x' * 1_000_000)\nprint('\\n{\"rows\": 3}')"
    measured = executor.run(python(code))
    assert (measured.outcome, measured.rows) == (Outcome.SUCCESS, 3)
    assert (measured.peak_rss_bytes or 0) < 60_000_000
    log = (tmp_path / "log.txt").read_bytes()
    assert len(log) < 1_100_000
    assert b"bytes of output left out]" in log


def test_scale_and_trial_are_filled_in(executor: TrialProcesses) -> None:
    """B2."""
    code = "import sys; assert sys.argv[1:] == ['7 t', '{other}'], sys.argv"
    assert executor.run(python(code, "{scale} {trial}", "{other}")).outcome is Outcome.SUCCESS


def test_a_time_out_ends_everything(executor: TrialProcesses, tmp_path: Path) -> None:
    """F19: the trial's process and what it started."""
    measured = executor.run(python(SLEEPS, str(tmp_path / "pid"), timeout_seconds=1))
    assert (measured.outcome, measured.error) == (Outcome.FAILED, "timed out after 1 s")
    assert not alive(pid_in(tmp_path / "pid"))


ESCAPES = {
    "in the background": "subprocess.Popen(sleeper)",
    "in a session of its own": "subprocess.Popen(sleeper, start_new_session=True)",
    "orphaned": "os.fork() or (subprocess.Popen(sleeper, start_new_session=True), os._exit(0))",
    "without environment": "subprocess.Popen(sleeper, start_new_session=True, env={})",
}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
@pytest.mark.parametrize("escape", ESCAPES)
def test_s12_what_a_trial_leaves_behind_is_dead_when_it_is_over(
    executor: TrialProcesses, tmp_path: Path, escape: str
) -> None:
    """S12, I5: whatever it did to be left alone, and however the trial ended."""
    path = tmp_path / "pid"
    code = (
        f"import os, subprocess, sys, time; sleeper = [sys.executable, '-S', '-c', {SLEEPS!r}, {str(path)!r}]; "
        f"{ESCAPES[escape]}\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)"
    )
    assert executor.run(python(code)).outcome is Outcome.SUCCESS
    assert not alive(pid_in(path))


def test_others_of_this_process_are_left_alone(executor: TrialProcesses) -> None:
    """Only what a trial started is ended."""
    import subprocess

    other = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        assert executor.run(python("pass")).outcome is Outcome.SUCCESS
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_trials_stay_in_the_orchestrators_group(executor: TrialProcesses, tmp_path: Path) -> None:
    """F11: the fleet's kill of the group must reach them."""
    code = f"import os; open({str(tmp_path / 'group')!r}, 'w').write(str(os.getpgrp()))"
    assert executor.run(python(code)).outcome is Outcome.SUCCESS
    assert int((tmp_path / "group").read_text()) == os.getpgrp()


def in_background(executor: TrialProcesses, assignment: Assignment) -> Callable[[], Measured]:
    """Run a trial in a thread; the result is waited for."""
    results: list[Measured] = []
    thread = threading.Thread(target=lambda: results.append(executor.run(assignment)))
    thread.start()

    def wait() -> Measured:
        thread.join(10)
        assert not thread.is_alive()
        return results[0]

    return wait


def test_an_interrupt_ends_the_trial(executor: TrialProcesses, tmp_path: Path) -> None:
    """F13: at once, and every later one."""
    wait = in_background(executor, python(SLEEPS, str(tmp_path / "pid")))
    pid = pid_in(tmp_path / "pid")
    executor.interrupt()
    began = time.monotonic()
    assert wait().outcome is Outcome.INTERRUPTED
    assert time.monotonic() - began < 20
    assert not alive(pid)
    assert executor.run(python("pass")).outcome is Outcome.INTERRUPTED


def test_a_signal_that_reached_the_trial_first_is_an_interrupt(executor: TrialProcesses, tmp_path: Path) -> None:
    """F13: systemd signals the processes of a group one by one."""
    code = f"import os, signal; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getppid())); signal.pause()"
    wait = in_background(executor, python(code))
    os.kill(pid_in(tmp_path / "pid"), signal.SIGTERM)
    time.sleep(0.2)
    executor.interrupt()
    assert wait().outcome is Outcome.INTERRUPTED


def test_a_trial_that_is_killed_fails(executor: TrialProcesses, tmp_path: Path) -> None:
    """For want of memory, say."""
    code = f"import os, signal; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getppid())); signal.pause()"
    wait = in_background(executor, python(code))
    os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)
    measured = wait()
    assert (measured.outcome, measured.error) == (Outcome.FAILED, "the trial's process was ended by signal 9")


def test_a_trial_that_ended_before_it_is_listened_to(executor: TrialProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said is still there, and nobody waits for more."""
    follow = trial._Process.follow

    def late(process: trial._Process, *arguments: Any) -> str | None:
        assert process.wait(20)
        return follow(process, *arguments)

    monkeypatch.setattr(trial._Process, "follow", late)
    assert executor.run(python("print('{\"rows\": 3}')")).rows == 3
    began = time.monotonic()
    killed = executor.run(python("import os, signal; os.kill(os.getppid(), signal.SIGKILL)"))
    assert killed.error == "the trial's process was ended by signal 9"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("code", "outcome"), [("import sys; sys.exit(3)", "interrupted"), ("pass", "success")])
def test_a_failure_beside_an_interrupt_is_no_failure(
    executor: TrialProcesses, monkeypatch: pytest.MonkeyPatch, code: str, outcome: str
) -> None:
    """F13: the signal may have met the command before the trial's process; S52: a success counts."""
    follow = trial._Process.follow

    def interrupted(process: trial._Process, *arguments: Any) -> str | None:
        said = follow(process, *arguments)
        executor.interrupt()
        return said

    monkeypatch.setattr(trial._Process, "follow", interrupted)
    assert executor.run(python(code)).outcome == outcome


# ---- an adapter of somebody else -------------------------------------------------------------------------------------
class SomeAdapter:
    """Does what its case says; trials import it from here."""

    remote = True

    def setup(self, trial: Trial) -> None:
        """Tell of a query."""
        self.trial = trial
        if query := trial.parameters.get("query"):
            trial.started(query)

    def execute(self) -> None:
        """Do as told."""
        what = self.trial.parameters["do"]
        if what == "raise":
            raise ValueError("odd")
        if what == "refuse":
            raise UnsupportedError("never")
        if what == "exit":
            os._exit(7)
        if what == "sleep":
            time.sleep(60)
        if what == "flood":
            for number in range(20_000):
                self.trial.started(f"query-{number}")

    def consume(self) -> Consumed:
        """Nothing came of it."""
        return Consumed()

    def cancel(self, queries: Sequence[str]) -> None:
        """Not called in trials."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that registers this adapter."""
    info = tmp_path / "site" / "other-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[longhaul.adapters]\nsome = tests.unit.benchmark.test_trial:SomeAdapter\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("what", "outcome", "error"),
    [
        ("nothing", Outcome.SUCCESS, None),
        ("flood", Outcome.SUCCESS, None),
        ("raise", Outcome.FAILED, "ValueError: odd"),
        ("refuse", Outcome.UNSUPPORTED, "never"),
        ("exit", Outcome.FAILED, "the trial's process ended with exit code 7 and without a result"),
        ("sleep", Outcome.FAILED, "timed out after 1.5 s"),
    ],
)
def test_an_adapter_is_found_by_entry_point(
    executor: TrialProcesses, cancelled: list[tuple[str, tuple[str, ...]]], what: str, outcome: Outcome, error: str
) -> None:
    """B2; queries of a trial that did not succeed are cancelled."""
    seconds = 1.5 if what == "sleep" else 30
    measured = executor.run(assignment({"do": what, "query": "q-1"}, adapter="some", timeout_seconds=seconds))
    assert (measured.outcome, measured.error) == (outcome, error)
    assert measured.queries[:1] == ("q-1",)
    assert len(measured.queries) == (20_001 if what == "flood" else 1)
    assert cancelled == ([] if outcome is Outcome.SUCCESS else [("some", ("q-1",))])


@pytest.mark.usefixtures("installed")
def test_an_unknown_adapter_is_named() -> None:
    """B2."""
    with pytest.raises(LookupError, match="no adapter 'none'; there are command, some"):
        target("none")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("over", [True, False])
def test_s65_a_trial_looks_at_the_deadline_before_its_query(tmp_path: Path, over: bool) -> None:
    """S65, F19: a deadline that passes while the process starts."""
    file = DeadlineFile.create(tmp_path / "deadline")
    file.write(real().clock() + (-1 if over else 60))
    executor = TrialProcesses(log=tmp_path / "log.txt", deadline=file.path, cancel=lambda name, ids: None)
    measured = executor.run(assignment({"do": "raise"}, adapter="some"))
    executor.close()
    file.close()
    assert measured.outcome is (Outcome.INTERRUPTED if over else Outcome.FAILED)
    assert measured.error == ("the deadline was over before a query" if over else "ValueError: odd")
