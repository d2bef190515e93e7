"""`longhaul benchmark` as a worker starts it: real processes, signals and a real S3 interface (F11, F18 to F20)."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longhaul.fleet.work import Merged
from tests.contract.benchmark.conftest import ROOT, Bench, until

QUICK = "print('[3]')"
SLEEPS = "import os, sys, time; open({path!r}, 'w').write(str(os.getpid())); time.sleep(60)"
SLOW = f"import sys, time\nif 'rep-2.g0-a1' in sys.argv[1]: open({{path!r}}, 'w').write('1'); time.sleep(1)\n{QUICK}"


def names(bench: Bench, number: int) -> list[str]:
    """Trials of an attempt that have a record in S3, without hash and attempt, in the order of their names."""
    prefix = f"g0/attempt-{number}/checkpoint/"
    found = [name for name in bench.objects() if name.startswith(prefix) and not name.endswith("-start.json")]
    return [name.split(".")[2] for name in sorted(found)]


def records(bench: Bench, number: int) -> dict[str, Any]:
    """Records on the host, by what they are of."""
    folder = bench.attempt(number) / "checkpoint"
    found = [json.loads(path.read_text()) for path in folder.glob("*.json") if "-start" not in path.name]
    return {f"{one['kind']}-{one['number']}": one for one in found}


def test_an_attempt_leaves_everything_in_s3(bench: Bench) -> None:
    """F19: every start record and record, and nothing else (I9); F18: no summary of its own."""
    bench.publish(QUICK)
    bench.ended(bench.run(1), 0)
    stored = bench.objects()
    assert names(bench, 1) == [*(f"rep-{k}" for k in range(5)), "warmup-0"]
    assert len(stored) == 1 + 2 * 6
    for name, body in stored.items():
        assert (bench.folder / "results" / "job" / name).read_bytes() == body
    environment = json.loads(stored["g0/attempt-1/environment.json"])
    assert (
        environment["manifest_sha256"]
        == hashlib.sha256((bench.folder / "queue/manifest.json").read_bytes()).hexdigest()
    )
    assert environment["worker_version"]
    assert environment["packages"]["boto3"]
    assert not list(bench.attempt(1).glob("job-summary*"))
    start = json.loads(next(body for name, body in stored.items() if "rep-0" in name and name.endswith("-start.json")))
    assert start["prefix"] == f"s3://{bench.bucket}/bench/stack/runs/run-1/trials/{start['trial']}/"
    assert "[3]\n" in (bench.attempt(1) / "log.txt").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_attempt_is_gone_on_with(bench: Bench, number: signal.Signals) -> None:
    """F13, F18, S2: 130 at once, nothing alive, the trial recorded; the next attempt runs the rest only."""
    path = bench.folder / "pid"
    bench.publish(f"import sys\nif 'rep-2.g0-a1' in sys.argv[1]: {SLEEPS.format(path=str(path))}\n{QUICK}")
    process = bench.run(1)
    pid = int(until(lambda: path.exists() and path.read_text()))
    began = time.monotonic()
    process.send_signal(number)
    bench.ended(process, 130)
    assert time.monotonic() - began < 20
    assert not Path(f"/proc/{pid}").exists()
    assert records(bench, 1)["rep-2"]["outcome"] == "interrupted"
    assert "rep-2" in names(bench, 1), "stored at once, as S3 was there"

    bench.ended(bench.run(2, 1), 0)
    assert names(bench, 2) == ["rep-2", "rep-3", "rep-4", "warmup-0"]
    merged = bench.report(2)
    assert merged["failed"] == 0
    summary = json.loads((bench.attempt(2) / "job-summary.json").read_text())
    assert (summary["successful"], summary["failed"], summary["superseded"]) == (5, 0, 1)
    assert summary["cases"][0]["notes"] == ["Superseded: interrupted (repetition 2)"]


def test_s12_a_kill_of_the_group_reaches_the_trial(bench: Bench) -> None:
    """S12, F11: also without any chance to tidy up; the next attempt finds an incomplete trial."""
    path = bench.folder / "pid"
    bench.publish(f"import sys\nif 'rep-2.g0-a1' in sys.argv[1]: {SLEEPS.format(path=str(path))}\n{QUICK}")
    process = bench.run(1)
    pid = int(until(lambda: path.exists() and path.read_text()))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text(), 20)
    assert len([name for name in bench.objects() if name.endswith("-start.json")]) == 4, "S28: its prefix is known"

    bench.ended(bench.run(2, 1), 0)
    bench.report(2)
    summary = json.loads((bench.attempt(2) / "job-summary.json").read_text())
    assert summary["cases"][0]["notes"] == ["Superseded: incomplete (repetition 2)"]
    assert summary["successful"] == 5


def test_failures_are_an_exit_code_and_a_report(bench: Bench) -> None:
    """F18, F20."""
    bench.publish(f"import sys\nif 'rep-1.' in sys.argv[1]: sys.exit(3)\n{QUICK}")
    bench.ended(bench.run(1), 1)
    assert bench.report(1)["failed"] == 1
    assert "Failed: exit code 3 (repetition 1)" in (bench.attempt(1) / "job-summary.md").read_text()


def test_s44_without_s3_nothing_is_measured(bench: Bench) -> None:
    """S44, F19: it waits until the deadline, and no failure is recorded."""
    bench.publish(QUICK)
    bench.lasts(6)
    process = bench.run(1, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    bench.ended(process, 75)
    assert records(bench, 1) == {}
    assert "not_stored" in (bench.attempt(1) / "events.jsonl").read_text()
    assert '"trial_start"' not in (bench.attempt(1) / "events.jsonl").read_text()


def test_s65_a_host_that_stood_still_starts_nothing(bench: Bench) -> None:
    """S65: stopped during a trial, past its deadline, and resumed."""
    path = bench.folder / "pid"
    bench.publish(SLOW.format(path=str(path)))
    process = bench.run(1)
    until(lambda: path.exists() and path.read_text())
    os.killpg(process.pid, signal.SIGSTOP)
    bench.lasts(0)
    time.sleep(1)
    stored = len(bench.objects())
    os.killpg(process.pid, signal.SIGCONT)
    bench.ended(process, 75)
    assert len(bench.objects()) == stored
    assert "rep-3" not in records(bench, 1)


def test_s53_what_only_the_host_has_counts_once_it_is_uploaded(bench: Bench) -> None:
    """S53, I7: S3 goes away during a trial, then SIGINT; the record is in the folder."""
    path = bench.folder / "pid"
    bench.publish(SLOW.format(path=str(path)))
    process = bench.run(1)
    until(lambda: path.exists() and path.read_text())
    bench.s3.put_bucket_policy(
        Bucket=bench.bucket,
        Policy=json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": "s3:PutObject",
                        "Resource": f"arn:aws:s3:::{bench.bucket}/*",
                    }
                ],
            }
        ),
    )
    until(lambda: "rep-2" in records(bench, 1))
    process.send_signal(signal.SIGINT)
    bench.ended(process, 130)
    bench.s3.delete_bucket_policy(Bucket=bench.bucket)
    assert records(bench, 1)["rep-2"]["outcome"] == "success"
    assert names(bench, 1) == ["rep-0", "rep-1", "warmup-0"]
    bench.upload(1)
    assert names(bench, 1) == ["rep-0", "rep-1", "rep-2", "warmup-0"]


def test_s27_an_attempt_with_nothing_left_can_be_published(bench: Bench) -> None:
    """S27: exit 0, and a report of what others measured."""
    bench.publish(QUICK)
    bench.ended(bench.run(1), 0)
    bench.ended(bench.run(2, 1), 0)
    assert names(bench, 2) == []
    assert bench.report(2)["failed"] == 0


def test_i3_a_report_says_what_it_was_made_of(bench: Bench) -> None:
    """I3: in the form that the fleet reads; keys below the stack's location, ETags as S3 has them."""
    bench.publish(QUICK)
    bench.ended(bench.run(1), 0)
    bench.upload(1)
    bench.report(1)
    merged = msgspec.json.decode((bench.attempt(1) / "merged.json").read_bytes(), type=Merged)
    assert merged.files == ("job-summary.json", "job-summary.csv", "job-summary.md")
    assert all((bench.attempt(1) / name).exists() for name in merged.files)
    assert len(merged.records) == 13
    for record in merged.records:
        head = bench.s3.head_object(Bucket=bench.bucket, Key=f"bench/stack/{record.key}")
        assert head["ETag"] == f'"{record.etag}"'


def test_a_report_that_cannot_be_made_is_no_report(bench: Bench) -> None:
    """S8: the worker publishes the job as `report_error`."""
    bench.publish(QUICK)
    bench.s3.put_object(
        Bucket=bench.bucket, Key="bench/stack/fleet/q/results/job/g0/attempt-1/checkpoint/x.json", Body=b"{"
    )
    bench.attempt(1).mkdir(parents=True)
    assert bench.report(1, code=1) == {}


def test_what_a_host_cannot_write_says_nothing_about_the_job(bench: Bench) -> None:
    """F15, L1: a host with a full disk would end every job of the queue as failed, one after the other."""
    bench.publish(QUICK)
    bench.attempt(1).mkdir(parents=True)
    (bench.attempt(1) / "checkpoint").write_text("no folder")
    assert "stopped" in bench.ended(bench.run(1), 75)
    bench.ended(bench.run(2), 0)
    (bench.attempt(2) / "job-summary.json").mkdir()
    assert bench.report(2, code=75) == {}


def test_a_report_without_its_records_is_put_off(bench: Bench) -> None:
    """F15: S3 does not answer; the job is no `report_error` for that."""
    bench.publish(QUICK)
    bench.attempt(1).mkdir(parents=True)
    bench.s3.delete_bucket(Bucket=bench.bucket)
    assert bench.report(1, code=75) == {}


def test_commands_leave_nothing_to_confirm(bench: Bench) -> None:
    """F10: what a command did died with its trial; confirmed at once, also for a host that vanished."""
    path = bench.folder / "pid"
    bench.publish(SLEEPS.format(path=str(path)))
    process = bench.run(1)
    until(lambda: path.exists() and path.read_text())
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    word = bench.folder / "unconfirmed.json"
    queue = ["--queue-directory", str(bench.folder / "queue"), "--word", str(word)]
    began = time.monotonic()
    bench.ended(bench.start("quiesce", *queue, "--job", "job", str(bench.attempt(1)), str(bench.attempt(7))), 0)
    assert time.monotonic() - began < 30
    assert not word.exists()
    (bench.attempt(1) / "checkpoint" / "damaged-start.json").write_text("{")  # or every host would wait for ever
    bench.ended(bench.start("quiesce", *queue, "--job", "job", str(bench.attempt(1))), 0)
    bench.ended(bench.start("quiesce", *queue, "--job", "other", str(bench.attempt(1))), 2)


def test_what_is_wrong_is_said_before_anything_is_measured(bench: Bench) -> None:
    """Exit code 2."""
    bench.publish(QUICK, adapter="unheard-of")
    assert "there is no adapter 'unheard-of'" in bench.ended(bench.run(1), 2)
    bench.publish(QUICK)
    bench.deadline.path.unlink()
    assert "--deadline" in bench.ended(bench.run(1), 2)
    assert "give a CONFIG" in bench.ended(bench.start("run"), 2)
    config = str(bench.folder / "queue" / "config.toml")
    assert "not together with a CONFIG" in bench.ended(bench.start("run", config, "--attempt", "g0/attempt-1"), 2)
    assert "is not like g0/attempt-1" in bench.ended(bench.start("run", "--attempt", "1"), 2)
    assert "give FOLDERS" in bench.ended(bench.start("report", "--job", "job"), 2)
    assert not bench.attempt(1).exists()


# ---- on a laptop -----------------------------------------------------------------------------------------------------
LAPTOP = """
[run]
id = "laptop"
repetitions = 3
[[case]]
name = "quick"
scales = [1, 2]
parameters = {{ command = ["sh", "-c", "test -e {flag} || exit 3; echo '{{\\"rows\\": 1}}'"] }}
"""


def laptop(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`longhaul benchmark …` without any set-up."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    return subprocess.run(
        ["longhaul", "benchmark", *arguments],
        cwd=folder,
        env={**environment, "PATH": f"{ROOT / '.venv/bin'}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_laptop_needs_nothing_but_a_configuration(tmp_path: Path) -> None:
    """Failures are told; started again it runs what failed, and then nothing; reports of jobs are their own (S10)."""
    flag = tmp_path / "flag"
    (tmp_path / "cases.toml").write_text(LAPTOP.format(flag=flag))
    first = laptop(tmp_path, "run", "cases.toml")
    assert first.returncode == 1, first.stderr
    assert first.stdout.count("Failed: exit code 3 (repetitions 0, 1, 2)") == 2
    logs = [line.rpartition(" is in ")[2] for line in first.stderr.splitlines() if " is in " in line]
    assert [(tmp_path / log).is_file() for log in logs] == [True, True], "which says where to look"
    flag.touch()
    second = laptop(tmp_path, "run", "cases.toml")
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("Superseded: exit code 3 (repetitions 0, 1, 2)") == 2
    third = laptop(tmp_path, "run", "cases.toml")
    assert third.returncode == 0
    assert "rep-0" not in third.stderr
    assert sorted(path.name for path in tmp_path.glob("results/*/g0/*")) == [*["attempt-1"] * 2, *["attempt-2"] * 2]
    table = list(csv.DictReader(laptop(tmp_path, "report", "results", "--format", "csv").stdout.splitlines()))
    assert [(row["scale"], row["n"]) for row in table] == [("1", "3"), ("2", "3")], "one header for all jobs"
    said = json.loads(laptop(tmp_path, "report", "results", "--json").stdout)
    assert [(one["successful"], one["failed"], one["superseded"]) for one in said] == [(3, 0, 3)] * 2
    (first_attempt,) = tmp_path.glob("results/*.1/g0/attempt-1")
    said = json.loads(laptop(tmp_path, "report", str(first_attempt), "--json").stdout)
    assert [(one["successful"], one["failed"]) for one in said] == [(0, 3)]
    assert laptop(tmp_path, "report", str(tmp_path)).returncode == 0
    (tmp_path / "empty").mkdir()
    assert laptop(tmp_path, "report", "empty").returncode == 1


def test_ctrl_c_on_a_laptop_goes_on_later(tmp_path: Path) -> None:
    """SIGINT to the whole group, as a terminal sends it; the same command then does the rest."""
    flag = tmp_path / "flag"
    command = f"test -e {flag} && exit; touch {flag}; sleep 60"
    words = json.dumps(["sh", "-c", command])
    head = '[run]\nid = "laptop"\nwarmups = 0\nrepetitions = 3\n'
    (tmp_path / "cases.toml").write_text(f'{head}[[case]]\nname = "c"\nparameters = {{ command = {words} }}\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "longhaul.cli", "benchmark", "run", "cases.toml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until(flag.exists)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert "goes on where it stopped" in said
    again = laptop(tmp_path, "run", "cases.toml")
    assert again.returncode == 0, again.stderr
    assert "3 successful, 0 failed, 1 superseded" in again.stdout
    assert "Superseded: interrupted (repetition 0)" in again.stdout
