"""Starting, stopping and killing the sandbox: what its folder says, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from sandbox import __main__ as program
from sandbox import state, surroundings
from tests.sandbox.conftest import Sandbox, clean_environment, sandbox_command, until

FAILED, USAGE, NOT_RUNNING, RUNNING = 1, 2, 3, 4


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it started."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    def ended(process: psutil.Process) -> bool:
        try:
            return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return all(ended(process) for process in processes)


# ---- a running one ---------------------------------------------------------------------------------------------------
def test_a_second_up_says_that_it_runs_already(sandbox: Sandbox) -> None:
    for arguments in (["up"], ["up", "--detach"]):
        again = sandbox_command(sandbox.folder, *arguments)
        assert again.returncode == RUNNING
        assert again.stderr.count("\n") == 1
        assert "runs already" in again.stderr
        assert sandbox.env["AWS_ENDPOINT_URL"] in again.stderr
    assert sandbox.client("s3").list_buckets()["Buckets"]


def test_status_and_env_of_a_running_one(sandbox: Sandbox) -> None:
    shown = sandbox_command(sandbox.folder, "status", "--json")
    assert (shown.returncode, json.loads(shown.stdout)["status"]) == (0, "ready")
    printed = sandbox_command(sandbox.folder, "env")
    lines = [shlex.split(line) for line in printed.stdout.splitlines()]
    assert all(len(words) == 2 and words[0] == "export" for words in lines)
    assert dict(words[1].split("=", 1) for words in lines) == sandbox.env


def test_env_has_all_that_a_shell_needs(sandbox: Sandbox) -> None:
    assert set(sandbox.env) >= {
        "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION",
        "AWS_EC2_METADATA_DISABLED", "DATABASE_URL", "LONGHAUL_ENV", "LOGS_BUCKET", "REIMPORT_BUCKET",
        "STATE_MACHINE_ARN",
    }  # fmt: skip
    assert sandbox.env["STATE_MACHINE_ARN"] == sandbox.outputs["EvalLogReimportStateMachineArn"]
    with psycopg.connect(sandbox.env["DATABASE_URL"]) as connection:
        assert connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() != (0,)


def test_env_takes_away_a_profile_of_the_user(sandbox: Sandbox) -> None:
    printed = sandbox_command(sandbox.folder, "env", AWS_PROFILE="production")
    assert printed.stdout.startswith("unset AWS_PROFILE\n")


def test_the_aws_command_line_finds_it(sandbox: Sandbox) -> None:
    aws = str(Path(sys.executable).with_name("aws"))
    listed = sandbox.command(aws, "s3", "ls")
    assert sandbox.outputs["LogsBucketName"] in listed.stdout, listed.stderr
    found = sandbox.command(
        aws, "stepfunctions", "describe-state-machine", "--state-machine-arn", sandbox.env["STATE_MACHINE_ARN"]
    )
    assert json.loads(found.stdout)["name"] == "sandbox-hawk-eval-log-reimport", found.stderr


def test_longhaul_sandbox_is_the_same_command(sandbox: Sandbox) -> None:
    shown = sandbox.run("sandbox", "status", "--json")
    assert json.loads(shown.stdout)["status"] == "ready", shown.stderr
    assert sandbox.run("sandbox", "up").returncode == RUNNING
    assert sandbox.run("sandbox", "up", "--port", "70000").returncode == USAGE


def test_state_json_is_for_this_user_only(sandbox: Sandbox) -> None:
    """It holds the warehouse's password."""
    assert (sandbox.folder / "state.json").stat().st_mode & 0o077 == 0


def test_status_says_what_it_holds(sandbox: Sandbox) -> None:
    shown = sandbox_command(sandbox.folder, "status").stdout
    for name, value in sandbox.outputs.items():
        assert any(line.split() == [name, value] for line in shown.splitlines()), name


def test_verbs_that_need_a_ready_one_say_to_wait_while_it_starts(tmp_path: Path) -> None:
    folder = state.Folder(path=tmp_path / "starting")
    folder.acquire()
    folder.write(pid=os.getpid(), status="starting")
    for verb in ("env", "reset"):
        said = sandbox_command(folder.path, verb)
        assert (said.returncode, "wait until" in said.stderr, "starts one" in said.stderr) == (NOT_RUNNING, True, False)
    folder.release()


@pytest.mark.parametrize("command", [("-m", "longhaul.cli", "sandbox"), ("-P", "-m", "sandbox")])
def test_what_the_working_directory_holds_is_never_run(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A folder with a sandbox.py, and one like a module that the sandbox itself imports."""
    folder = tmp_path / "sandbox"
    here = tmp_path / "here"
    here.mkdir()
    for name in ("sandbox", "moto"):
        (here / f"{name}.py").write_text("import pathlib\npathlib.Path('run').touch()\nraise SystemExit(99)\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # it ends early, but only as the process behind --detach
        port = str(taken.getsockname()[1])
        for verb, code in ((("status",), NOT_RUNNING), (("up", "--detach", "--port", port), FAILED)):
            done = subprocess.run(
                [sys.executable, *command, *verb],
                cwd=here,
                env=clean_environment(folder),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == code, done.stderr
    assert port in done.stderr
    assert not (here / "run").exists()


# ---- none is running -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("verb", ["env", "reset", "status"])
def test_verbs_say_when_none_is_running(tmp_path: Path, verb: str) -> None:
    said = sandbox_command(tmp_path / "none", verb)
    assert said.returncode == NOT_RUNNING
    assert "longhaul sandbox up" in said.stderr + said.stdout
    assert not (tmp_path / "none").exists()


def test_down_of_none_is_no_error(tmp_path: Path) -> None:
    assert sandbox_command(tmp_path / "none", "down").returncode == 0


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for verb in (["up"], ["up", "--detach"], ["down"]):
        sandbox_command(tmp_path, *verb)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    refused = sandbox_command(tmp_path, "up")
    assert refused.returncode == FAILED
    assert "no sandbox's folder" in refused.stderr


@pytest.mark.parametrize("option", ["--port", "--postgres-port"])
def test_a_taken_port_is_one_clear_line_and_leaves_nothing(tmp_path: Path, option: str) -> None:
    folder = tmp_path / "sandbox"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = sandbox_command(folder, "up", option, str(port))
    assert refused.returncode == FAILED
    last = refused.stderr.strip().splitlines()[-1]
    assert str(port) in last
    assert option in last
    assert "Traceback" not in refused.stderr
    assert not state.Folder(path=folder).running()


@pytest.mark.parametrize("arguments", [["up", "--port", "x"], ["up", "--port", "70000"], ["dance"], []])
def test_wrong_arguments(tmp_path: Path, arguments: list[str]) -> None:
    assert sandbox_command(tmp_path / "none", *arguments).returncode == USAGE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_starts_ends_all_of_it(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "sandbox"
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox", "up"],
        cwd=surroundings.ROOT,
        env=clean_environment(folder),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "Postgres" in process.stderr.readline() + process.stderr.readline()  # by now the CDK runs too
    started = family(process.pid)
    assert len(started) > 3
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.endswith("sandbox: stopped\n")
    until(lambda: gone(started))
    assert sorted(one.name for one in folder.iterdir()) == [state.MARKER, "server.log"]


def test_detach_hands_its_lock_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two at once both start one, and the winner's log, which --detach shows, holds the loser's error."""
    monkeypatch.setenv("LONGHAUL_SANDBOX_DIR", str(tmp_path / "sandbox"))
    folder = state.Folder.ours()
    started: list[state.Folder] = []

    class Started:
        """The process behind --detach: it takes the lock over and ends."""

        def __init__(self, command: list[str], **options: Any) -> None:
            assert folder.running()
            (lock,) = options["pass_fds"]
            assert command[command.index("--lock") + 1] == str(lock)
            started.append(state.Folder(path=folder.path))
            started[0].acquire(os.dup(lock))  # another process has a descriptor of its own

        def poll(self) -> int:
            assert folder.running()
            with pytest.raises(state.RunningError):
                program.up(folder, program._parser().parse_args(["up", "--detach"]))
            return FAILED

    monkeypatch.setattr(program.subprocess, "Popen", Started)
    assert program.main(["up", "--detach"]) == FAILED
    assert folder.running()
    started[0].release()
    assert not folder.running()


# ---- one of its own --------------------------------------------------------------------------------------------------
def test_reset_then_kill_leave_nothing_behind(tmp_path: Path) -> None:
    """An empty HOME, a reset that empties all, kill -9, a stale state.json, and `up` after it."""
    folder, home = tmp_path / "sandbox", tmp_path / "home"
    home.mkdir()
    started = sandbox_command(
        folder, "up", "--detach", HOME=str(home), AWS_PROFILE="production", AWS_REGION="eu-west-1"
    )
    assert started.returncode == 0, started.stderr
    assert "ready" in started.stderr
    assert list(home.iterdir()) == []
    one = Sandbox(folder)
    assert ":eu-west-1:" in one.env["STATE_MACHINE_ARN"]
    before = _use(one)
    assert sandbox_command(folder, "reset").returncode == 0
    fresh = Sandbox(folder)
    assert fresh.env["AWS_ENDPOINT_URL"] == one.env["AWS_ENDPOINT_URL"]
    _assert_empty(fresh)
    assert not psutil.pid_exists(before)
    sleeper = _use(fresh)
    pid = json.loads((folder / "state.json").read_text())["pid"]
    processes = family(pid)
    assert sleeper in {process.pid for process in processes}
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(processes))
    stale = sandbox_command(folder, "status")
    assert stale.returncode == NOT_RUNNING
    assert f"process {pid}, was killed" in stale.stdout
    assert sandbox_command(folder, "env").returncode == NOT_RUNNING
    assert sandbox_command(folder, "down").returncode == 0
    assert not folder.exists()


def _use(one: Sandbox) -> int:
    """Leave an object, a row, a warm function and a running job; returns the pid of what the job started."""
    one.client("s3").put_object(Bucket=one.outputs["LogsBucketName"], Key="other/mark", Body=b"")
    with psycopg.connect(one.env["DATABASE_URL"]) as connection:
        connection.execute("create table mark ()")
    one.client("lambda").invoke(FunctionName=one.outputs["BuildListFunctionName"], Payload=b"{}")
    batch = one.client("batch")
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '99']).pid, flush=True); time.sleep(99)"
    job = batch.submit_job(
        jobName="sleeper",
        jobQueue=one.outputs["ImporterOnDemandQueueArn"],
        jobDefinition=one.outputs["ImporterJobDefinitionName"],
        containerOverrides={"command": ["python", "-c", code]},
    )["jobId"]

    def lines() -> list[dict[str, Any]]:
        stream = batch.describe_jobs(jobs=[job])["jobs"][0]["container"].get("logStreamName")
        found = stream and one.client("logs").get_log_events(
            logGroupName=one.outputs["ImporterLogGroupName"], logStreamName=stream
        )
        return list(found["events"]) if found else []

    return int(until(lines)[0]["message"])


def _assert_empty(one: Sandbox) -> None:
    assert "Contents" not in one.client("s3").list_objects_v2(Bucket=one.outputs["LogsBucketName"])
    with psycopg.connect(one.env["DATABASE_URL"]) as connection:
        assert connection.execute("select to_regclass('mark')").fetchone() == (None,)
    queue = one.outputs["ImporterOnDemandQueueArn"]
    assert one.client("batch").list_jobs(jobQueue=queue, jobStatus="RUNNING")["jobSummaryList"] == []
