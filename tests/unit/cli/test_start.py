"""`start` and `retry` (R20, R21)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli.environment import Environment
from tests.unit.cli.conftest import Longhaul
from tests.unit.reimport.fake_step_functions import FakeStepFunctions, client_error, execution_arn
from tests.unit.reimport.fixtures import BUCKET, LOGS
from tests.unit.reimport.result_files import entry, put_results


@pytest.fixture
def keys_file(tmp_path: Path, s3: Any) -> str:
    """50 logs of which one is missing; one line twice."""
    keys = [f"evals/set/{i}.eval" for i in range(50)]
    for number, key in enumerate(keys[:-1]):
        s3.put_object(Bucket=LOGS, Key=key, Body=b"x" * (2000 if number == 0 else 10))
    path = tmp_path / "keys.txt"
    path.write_bytes(("\ufeff" + "\r\n".join([*keys, keys[3]]) + "\r\n\r\n").encode())
    return str(path)


def lists(s3: Any) -> dict[str, Any]:
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix="lists/").get("Contents", [])
    return {o["Key"]: json.load(s3.get_object(Bucket=BUCKET, Key=o["Key"])["Body"]) for o in found}


def test_start_uploads_then_starts(longhaul: Longhaul, sfn: FakeStepFunctions, s3: Any, keys_file: str) -> None:
    done = longhaul("start", "--keys-file", keys_file, "--name", "june", "--max-concurrency", "4")
    assert done.exit_code == 0, done.stderr
    arn, console = done.stdout.splitlines()
    assert arn == execution_arn("june")
    assert console.startswith("https://us-east-1.console.aws.amazon.com/")
    given = {"list_key": "lists/june.json", "max_concurrency": 4, "tolerated_failure_percentage": 0.5}
    assert sfn.calls == [("start_execution", {"name": "june", "input": given})]
    items = lists(s3)["lists/june.json"]
    assert len(items) == 50
    assert items[0] == {"key": "evals/set/0.eval", "size": 2000}
    assert items[-1] == {"key": "evals/set/49.eval"}
    for words in (
        "50 logs, 2.4 KiB",
        "48 small, 2 full; at most 4 at once",
        "the first failure aborts the run",  # 0.5 % of 50
        "1 log not in the bucket",
        "1 line dropped",
        "dead-letter queue and trip its alarm",
        "DBLoad",
        "reimport watch june",
    ):
        assert words in done.stderr


def test_in_the_sandbox_there_is_no_console_and_no_one_on_call(
    longhaul: Longhaul, sfn: FakeStepFunctions, s3: Any, keys_file: str
) -> None:
    done = longhaul("start", "--keys-file", keys_file, "--name", "june", "--env", "sandbox")
    assert done.stdout.splitlines() == [execution_arn("june")]
    assert "on call" not in done.stderr
    assert "DBLoad" not in done.stderr
    assert "console" not in longhaul("status", "june", "--env", "sandbox").stdout
    assert "console" in longhaul("status", "june").stdout
    for verb in (["status", "june"], ["list"]):
        found = json.loads(longhaul(*verb, "--env", "sandbox", "--json").stdout)
        assert (found[0] if verb == ["list"] else found)["console"] is None


def test_a_dry_run_changes_nothing(longhaul: Longhaul, sfn: FakeStepFunctions, s3: Any, keys_file: str) -> None:
    done = longhaul("start", "--keys-file", keys_file, "--name", "june", "--dry-run")
    assert done.exit_code == 0
    assert "Run june in dev: 50 logs" in done.stdout
    assert "nothing was uploaded, nothing was started" in done.stderr
    plan = json.loads(longhaul("start", "--keys-file", keys_file, "--name", "june", "--dry-run", "--json").stdout)
    assert (plan["items"], plan["missing_keys"], plan["aborting_failures"]) == (50, ["evals/set/49.eval"], 1)
    assert not plan["started"]
    assert sfn.calls == []
    assert lists(s3) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--name", "a b"],
        ["--name", "x" * 81],
        ["--name", "ok", "--max-concurrency", "0"],
        ["--name", "ok", "--max-concurrency", "33"],
        ["--name", "ok", "--max-concurrency", "1.5"],
        ["--name", "ok", "--max-concurrency", "ten"],
        ["--name", "ok", "--tolerated-failure-percentage", "101"],
        ["--name", "ok", "--tolerated-failure-percentage", "nan"],
        ["--name", "ok", "--prefix", "evals/"],  # two sources
        ["--name", "ok", "--list-key", "lists/ok.json"],
        ["--name", "ok", "--adaptive"],  # has an issue of its own
        [],
    ],
)
def test_arguments_are_checked_before_aws_is_asked(
    longhaul: Longhaul, keys_file: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """R20, case-R10, case-R21: exit 2, and nothing is read, uploaded or started."""

    def client(self: Environment, service: str) -> Any:
        raise AssertionError(f"asked {service}")

    monkeypatch.setattr(Environment, "client", client)
    done = longhaul("start", "--keys-file", keys_file, *arguments)
    assert done.exit_code == 2, done.stderr


def test_bad_lines_and_an_empty_file(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("evals/a.eval\ns3://other/evals/a.eval\nlogs/a.eval\n")
    done = longhaul("start", "--keys-file", str(bad), "--name", "june")
    assert done.exit_code == 2
    assert "line 2" in done.stderr
    assert "line 3" in done.stderr
    bad.write_text("\n# nothing\n")
    done = longhaul("start", "--keys-file", str(bad), "--name", "june")
    assert (done.exit_code, "is empty" in done.stderr) == (2, True)
    assert lists(s3) == {}
    assert sfn.calls == []


def test_an_unreadable_size_stops_before_the_upload(
    longhaul: Longhaul, s3: Any, hook: Any, keys_file: str, sfn: FakeStepFunctions
) -> None:
    """R19: e.g. 403 for one log."""

    def deny(request: Any, **_: Any) -> None:
        if request.url.endswith("/evals/set/7.eval"):
            raise client_error("403", "HeadObject", 403)

    hook("before-send.s3.HeadObject", deny)
    done = longhaul("start", "--keys-file", keys_file, "--name", "june")
    assert done.exit_code == 1
    assert "evals/set/7.eval" in done.stderr
    assert "nothing was uploaded" in done.stderr
    assert lists(s3) == {}
    assert sfn.calls == []


def test_a_used_name_is_refused(longhaul: Longhaul, s3: Any, hook: Any, sfn: FakeStepFunctions, keys_file: str) -> None:
    """R20, case-R11: a list or an execution of that name, running or ended; before any size is read."""

    def head(request: Any, **_: Any) -> None:
        assert "/evals/" not in request.url

    hook("before-send.s3.HeadObject", head)
    for status in ("RUNNING", "SUCCEEDED"):
        sfn.add("june", status)
        done = longhaul("start", "--keys-file", keys_file, "--name", "june")
        assert done.exit_code == 1
        assert f"exists already ({status}" in done.stderr
    s3.put_object(Bucket=BUCKET, Key="lists/july.json", Body=b"[]")
    done = longhaul("start", "--keys-file", keys_file, "--name", "july")
    assert done.exit_code == 1
    assert "--list-key lists/july.json" in done.stderr
    assert sfn.calls == []


def test_a_list_whose_start_failed_is_started_later(
    longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions, keys_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R20: the error says how, and --list-key does it."""
    real = sfn.start_execution
    monkeypatch.setattr(sfn, "start_execution", _raising(client_error("AccessDeniedException", "StartExecution")))
    done = longhaul("start", "--keys-file", keys_file, "--name", "june")
    assert done.exit_code == 3
    assert "start it with `longhaul reimport start --list-key lists/june.json`" in done.stderr
    before = lists(s3)
    monkeypatch.setattr(sfn, "start_execution", real)
    done = longhaul("start", "--list-key", "lists/june.json", "--json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["items"], answer["started"], answer["execution_arn"]) == (50, True, execution_arn("june"))
    assert lists(s3) == before


def test_items_without_a_key_are_told_of(longhaul: Longhaul, s3: Any) -> None:
    """case-R22: numeric key, null key, absent key: only those items fail."""
    items = [{"key": "evals/a.eval"}, {"key": 5}, {"key": None}, {}, 7]
    s3.put_object(Bucket=BUCKET, Key="lists/hand.json", Body=json.dumps(items).encode())
    done = longhaul("start", "--list-key", "lists/hand.json")
    assert done.exit_code == 0
    assert "4 items without a usable key; they fail alone" in done.stderr
    assert "the first failure aborts the run" in done.stderr
    assert "reach by themselves" in done.stderr


def test_a_list_that_is_not_there(longhaul: Longhaul) -> None:
    assert longhaul("start", "--list-key", "lists/none.json").exit_code == 2
    assert longhaul("start", "--list-key", "results/none.json", "--name", "x").exit_code == 2


def test_a_selection(longhaul: Longhaul, s3: Any, keys_file: str) -> None:
    done = longhaul("start", "--eval-set", "set", "--min-bytes", "1000", "--name", "big")
    assert done.exit_code == 0, done.stderr
    assert lists(s3)["lists/big.json"] == [{"key": "evals/set/0.eval", "size": 2000}]
    assert longhaul("start", "--prefix", "lists/", "--name", "x").exit_code == 2
    contradiction = longhaul("start", "--min-bytes", "100", "--max-bytes", "50", "--name", "x")
    assert (contradiction.exit_code, "at least 100 and at most 50" in contradiction.stderr) == (2, True)


def test_a_selection_says_what_it_left_out(longhaul: Longhaul, s3: Any, keys_file: str) -> None:
    s3.put_object(Bucket=LOGS, Key="evals/set/a.json", Body=b"{}")
    done = longhaul("start", "--eval-set", "set", "--eval-set", "nope", "--name", "big", "--dry-run", "--json")
    assert "Warning: no log of the eval set nope is selected" in done.stderr
    assert "1 .json file left out" in done.stderr
    assert "eval set set" not in done.stderr
    quiet = longhaul("start", "--keys-file", keys_file, "--name", "x", "--dry-run")
    assert "left out" not in quiet.stderr


def test_bad_lines_of_stdin(longhaul: Longhaul) -> None:
    done = longhaul("start", "--keys-file", "-", "--name", "x", input="nonsense\n")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "Error: stdin has 1 bad line:")


def a_run(sfn: FakeStepFunctions, s3: Any, status: str = "SUCCEEDED", **results: Any) -> None:
    """A run `june` of five items, two of them imported, with its list and result files."""
    items = [{"key": f"evals/set/{i}.eval", "size": 100} for i in range(1, 6)]
    s3.put_object(Bucket=BUCKET, Key="lists/june.json", Body=json.dumps(items).encode())
    given = {"list_key": "lists/june.json", "max_concurrency": 5, "tolerated_failure_percentage": 60}
    sfn.add("june", status, given)
    sfn.add_map_run(execution_arn("june"), "m", status, counts={"succeeded": 2, "failed": 3})
    put_results(s3, "m", {"SUCCEEDED_0": [entry(1)], "SUCCEEDED_1": [entry(2)], **results})
    s3.put_object(Bucket=LOGS, Key="evals/set/3.eval", Body=b"x" * 3000)


@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "ABORTED"])
def test_retry_is_the_list_without_what_succeeded(
    longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions, status: str, manifest: bool
) -> None:
    """R21: from a failed, an aborted, a tolerated and a manifest-less run; PENDING ones too; sizes read anew."""
    a_run(sfn, s3, status, FAILED_0=[entry(3, "FAILED")], PENDING_0=[{"Input": '{"key": "evals/set/4.eval"}'}])
    if not manifest:
        s3.delete_object(Bucket=BUCKET, Key="results/m/manifest.json")
    done = longhaul("retry", "june", "--name", "again")
    assert done.exit_code == 0, done.stderr
    assert "2 items of june succeeded and are left out" in done.stderr
    assert lists(s3)["lists/again.json"] == [
        {"key": "evals/set/3.eval", "size": 3000},
        {"key": "evals/set/4.eval"},
        {"key": "evals/set/5.eval"},
    ]
    given = {"list_key": "lists/again.json", "max_concurrency": 5, "tolerated_failure_percentage": 60}
    assert sfn.calls == [("start_execution", {"name": "again", "input": given})]


def test_retry_at_the_full_tier_leaves_the_sizes_out(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """R14."""
    a_run(sfn, s3)
    done = longhaul("retry", "june", "--name", "again", "--full-tier", "--max-concurrency", "2")
    assert done.exit_code == 0
    assert lists(s3)["lists/again.json"] == [{"key": f"evals/set/{i}.eval"} for i in (3, 4, 5)]
    assert "0 small, 3 full; at most 2 at once" in done.stderr
    assert "3 logs, 2.9 KiB" in done.stderr
    assert "2 logs not in the bucket" in done.stderr


def test_a_retry_of_all_speaks_of_no_success(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3, SUCCEEDED_0=[], SUCCEEDED_1=[])
    done = longhaul("retry", "june", "--name", "again", "--dry-run")
    assert "Run again in dev: 5 logs" in done.stdout
    assert "left out" not in done.stderr


def test_a_malformed_success_is_retried(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """case-R07."""
    a_run(sfn, s3, SUCCEEDED_2=[entry(3, Output="{cut")], SUCCEEDED_3=b"[{broken")
    done = longhaul("retry", "june", "--name", "again")
    assert {item["key"][-6] for item in lists(s3)["lists/again.json"]} == set("345")
    assert "SUCCEEDED_3.json cannot be read" in done.stderr


def test_nothing_left_to_retry(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3, SUCCEEDED_2=[entry(i) for i in (3, 4, 5)])
    done = longhaul("retry", "june", "--name", "again", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"items": 0, "started": False})
    assert sfn.calls == []


def test_retry_of_a_run_that_has_not_ended(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """case-R20: RUNNING, or ABORTED with jobs still being stopped."""
    a_run(sfn, s3, "RUNNING")
    assert "stop it first" in longhaul("retry", "june", "--name", "again").stderr
    sfn.executions[execution_arn("june")] |= {"status": "ABORTED"}
    done = longhaul("retry", "june", "--name", "again")
    assert (done.exit_code, "still stopping its jobs" in done.stderr) == (1, True)


def test_retry_of_a_run_whose_list_has_expired(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3)
    s3.delete_object(Bucket=BUCKET, Key="lists/june.json")
    done = longhaul("retry", "june", "--name", "again")
    assert (done.exit_code, "list of june is gone" in done.stderr) == (1, True)


def _raising(error: Exception) -> Any:
    def call(**_: Any) -> None:
        raise error

    return call
