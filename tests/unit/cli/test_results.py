"""`failures`, `report`, `logs` (R18, R21)."""

from __future__ import annotations

import json
import time
from typing import Any

import jq
import pytest

from tests.unit.cli.conftest import FakeBatch, Longhaul
from tests.unit.reimport.causes import cause
from tests.unit.reimport.fake_step_functions import START, FakeStepFunctions, execution_arn
from tests.unit.reimport.fixtures import BUCKET, client
from tests.unit.reimport.result_files import MISSING, child, entry, put_results

JQ = r'.[] | (.Input | fromjson | .key) + "\t" + .Error + "\t" + (.Cause // "" | .[:200])'


def a_run(
    sfn: FakeStepFunctions, s3: Any, files: dict[str, Any], status: str = "FAILED", name: str = "june", **counts: int
) -> str:
    arn = sfn.add(name, status)
    sfn.add_map_run(arn, "m", status, counts=counts or {"failed": 1})
    put_results(s3, "m", files)
    return arn


FAILED = [
    entry(1, "FAILED"),
    entry(2, "FAILED", Cause=cause(20, attempts=3, padding=40_000)),
    entry(3, "FAILED", Cause="plain text \x1b[31m é \U0001f600\nof two lines" + "x" * 300),
    entry(4, "FAILED", Cause=""),
    entry(5, "FAILED", Cause=MISSING),
    entry(6, "ABORTED"),
    entry(7, "FAILED", Cause=cause(137, reason="OutOfMemoryError: Container killed due to memory usage")),
]


def test_table_and_what_to_do_next(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """case-R14: every key with its best available reason; nothing that a terminal would obey."""
    pending = {"PENDING_0": [{"Input": '{"key": "evals/set/8.eval"}'}]}
    a_run(sfn, s3, {"FAILED_0": FAILED[:3], "FAILED_1": FAILED[3:], "SUCCEEDED_0": [entry(9)], **pending})
    done = longhaul("failures", "june")
    assert done.exit_code == 0
    rows = done.stdout.splitlines()
    assert [row.split()[:2] for row in rows[1:]] == [
        ["evals/set/1.eval", "log_not_found"],
        ["evals/set/2.eval", "warehouse_unavailable"],
        *(["evals/set/3.eval", "unknown"], ["evals/set/4.eval", "unknown"], ["evals/set/5.eval", "unknown"]),
        ["evals/set/6.eval", "aborted"],
        ["evals/set/7.eval", "out_of_memory"],
    ]
    assert "\x1b" not in done.output
    assert "1 out_of_memory: `longhaul reimport retry ... --full-tier`" in done.stderr
    assert "1 item never ran" in done.stderr
    assert len(longhaul("failures", "june", "--limit", "2").stdout.splitlines()) == 3
    assert "5 more failures" in longhaul("failures", "june", "--limit", "2").stderr
    only = json.loads(longhaul("failures", "june", "--class", "aborted", "--json").stdout)
    assert [f["key"] for f in only["failures"]] == ["evals/set/6.eval"]
    none = longhaul("failures", "june", "--class", "damaged_log").stderr
    assert "None of june is of class damaged_log.\n" in none
    assert "No failures" not in none


def test_a_tolerated_failure_is_retried_not_redriven(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """R16: AWS redrives no run that SUCCEEDED."""
    a_run(sfn, s3, {"FAILED_0": FAILED[:1]}, "SUCCEEDED")
    assert "1 log_not_found: put the log back, then retry\n" in longhaul("failures", "june").stderr


@pytest.mark.parametrize(
    ("name", "again"), [("it's-(1)", "retry"), ("run-🙂", "retry"), ("müll_2.b", "redrive or retry")]
)
def test_a_name_that_batch_refuses_as_a_tag_is_not_redriven(
    longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions, name: str, again: str
) -> None:
    """R12: such a run, started by hand, fails whole, and would again."""
    a_run(sfn, s3, {"FAILED_0": FAILED[:1]}, "FAILED", name=name)
    assert f"1 log_not_found: put the log back, then {again}\n" in longhaul("failures", name).stderr


def test_a_damaged_log_is_looked_into_first(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3, {"FAILED_0": [entry(1, "FAILED", Cause=cause(10))]})
    said = longhaul("failures", "june").stderr
    assert "1 damaged_log: `longhaul reimport logs KEY` says what is wrong; repair or replace it, then redrive" in said


def test_tsv_is_what_the_operator_page_prints(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """R21: byte for byte as the page's jq, absent Error and Cause included."""
    failed = [*FAILED, entry(8, "FAILED", Error=MISSING, Cause=MISSING)]
    a_run(sfn, s3, {"FAILED_0": failed})
    expected = "".join(f"{line}\n" for line in jq.compile(JQ).input_text(json.dumps(failed)))  # jq -r
    assert longhaul("failures", "june", "--tsv").stdout_bytes == expected.encode()


def test_1500_failures(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """case-R06."""
    failed = [entry(i, "FAILED") for i in range(1500)]
    a_run(sfn, s3, {f"FAILED_{i}": failed[i * 100 : i * 100 + 100] for i in range(15)})
    lines = longhaul("failures", "june", "--tsv").stdout.splitlines()
    assert len({line.split("\t")[0] for line in lines}) == 1500


def test_no_failures(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3, {"SUCCEEDED_0": [entry(1)]}, "SUCCEEDED", succeeded=1)
    done = longhaul("failures", "june")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No failures of june.\n")


def test_a_run_that_failed_without_a_failed_item_says_why(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    arn = sfn.add("june", "FAILED", error="States.DataLimitExceeded", cause="an input is too large")
    sfn.add_map_run(arn, "m", "FAILED", counts={"succeeded": 1})
    put_results(s3, "m", {"SUCCEEDED_0": [entry(1)]})
    said = longhaul("failures", "june").stderr
    assert "What failed is the run itself (FAILED): States.DataLimitExceeded: an input is too large\n" in said


def test_a_running_run_has_no_results_yet(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add_map_run(sfn.add("june", "RUNNING"), "m", "RUNNING")
    done = longhaul("failures", "june")
    assert (done.exit_code, "written when it has ended" in done.stderr) == (1, True)


def test_a_run_that_never_had_a_map_run(longhaul: Longhaul, sfn: FakeStepFunctions) -> None:
    sfn.add("june", "FAILED", error="InvalidInput", cause="list_key is missing")
    for verb in ("failures", "report"):
        done = longhaul(verb, "june")
        assert (done.exit_code, "InvalidInput: list_key is missing" in done.stderr) == (1, True)


def test_failures_of_a_run_without_results(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """R21: a manifest-less run; each child is asked instead."""
    arn = sfn.add_map_run(sfn.add("june", "ABORTED"), "m", "ABORTED", counts={"failed": 1})
    failed = {"executionArn": child(1), "status": "FAILED", "input": '{"key": "evals/a.eval"}', "cause": cause(11)}
    sfn.children[arn] = [{**failed, "error": "States.TaskFailed", "startDate": START}]
    done = longhaul("failures", "june")
    assert "evals/a.eval  log_not_found    11" in done.stdout
    assert "not written yet, or never will be" in done.stderr


def test_an_absent_file_is_a_warning(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3, {"FAILED_0": FAILED[:1]})
    manifest = json.load(s3.get_object(Bucket=BUCKET, Key="results/m/manifest.json")["Body"])
    manifest["ResultFiles"]["FAILED"].append({"Key": "results/m/FAILED_1.json", "Size": 9})
    s3.put_object(Bucket=BUCKET, Key="results/m/manifest.json", Body=json.dumps(manifest).encode())
    done = longhaul("failures", "june")
    assert done.exit_code == 0
    assert "Warning: results/m/FAILED_1.json is named in the manifest but absent" in done.stderr
    problems = json.loads(longhaul("failures", "june", "--json").stdout)["problems"]
    assert problems == ["results/m/FAILED_1.json is named in the manifest but absent"]


def test_report(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    """R18."""
    a_run(sfn, s3, {"FAILED_0": FAILED, "SUCCEEDED_0": [entry(9)]}, succeeded=1, failed=7)
    done = longhaul("report", "june")
    assert done.exit_code == 0
    assert "1 of 8 logs imported" in done.stdout
    assert "\x1b" not in done.stdout
    assert "Written below s3://reimport-bucket/results/m/report/" in done.stderr
    (summary,) = json.loads(longhaul("report", "june", "--json").stdout)
    assert summary["counts"]["failed"] == 6
    assert s3.get_object(Bucket=BUCKET, Key="results/m/report/retry-keys.txt")["Body"].read().count(b"\n") == 7


def put_log(stream: str, *lines: str) -> None:
    logs = client("logs")
    logs.create_log_stream(logGroupName="importer-logs", logStreamName=stream)
    now = int(time.time() * 1000) - 1000
    events = [{"timestamp": now + i, "message": line} for i, line in enumerate(lines)]
    logs.put_log_events(logGroupName="importer-logs", logStreamName=stream, logEvents=events)


def test_logs_of_a_failed_item_all_attempts(
    longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions, batch: FakeBatch
) -> None:
    arn = a_run(sfn, s3, {"FAILED_0": FAILED})
    job = batch.add("job-1", "evals/set/1.eval", arn, "FAILED")
    job["attempts"] = [{"container": {"logStreamName": "first"}}, {"container": {"logStreamName": "second"}}]
    put_log("first", "one")
    put_log("second", "two \x1b[31m")
    put_log("importer/default/job-1", "three")
    done = longhaul("logs", "evals/set/1.eval")
    assert done.exit_code == 0
    assert [line.split(" ", 1)[1] for line in done.stdout.splitlines()] == ["one", "two \\x1b[31m", "three"]
    assert "run june: importer-logs first" in done.stderr
    answer = json.loads(longhaul("logs", "evals/set/1.eval", "--run", "june", "--json").stdout)
    assert [line["text"] for line in answer] == ["one", "two \x1b[31m", "three"]


def test_logs_of_a_job_that_batch_has_forgotten(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3, {"FAILED_0": FAILED})
    put_log("importer/default/0123", "from the Cause")
    assert "from the Cause" in longhaul("logs", "evals/set/1.eval").stdout


@pytest.mark.parametrize("status", ["RUNNING", "FAILED"])
def test_logs_of_an_item_in_flight_and_of_a_stopped_one(
    longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions, batch: FakeBatch, status: str
) -> None:
    """Neither's result says which job it was: the job's own command does."""
    arn = a_run(sfn, s3, {"FAILED_0": FAILED}, status if status == "RUNNING" else "ABORTED")
    batch.add("of-another-run", "evals/set/6.eval", execution_arn("other"))
    batch.add("stopped", "evals/set/6.eval", arn, status)
    put_log("importer/default/stopped", "began")
    put_log("importer/default/of-another-run", "not this one")
    lines = longhaul("logs", "evals/set/6.eval").stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["began"]


def test_logs_of_an_upload(longhaul: Longhaul, sfn: FakeStepFunctions, batch: FakeBatch) -> None:
    batch.add("up", "evals/new.eval", "", "SUCCEEDED", queue="spot")
    put_log("importer/default/up", "imported")
    done = longhaul("logs", "evals/new.eval")
    assert "imported" in done.stdout
    assert "its upload" in done.stderr


def test_logs_of_an_unknown_key(longhaul: Longhaul, s3: Any, sfn: FakeStepFunctions) -> None:
    a_run(sfn, s3, {"FAILED_0": FAILED})
    for more in ([], ["--run", "june"]):
        assert longhaul("logs", "evals/none.eval", *more).exit_code == 1
    done = longhaul("logs", "evals/set/6.eval")
    assert (done.exit_code, "stopped before it ended" in done.stderr) == (1, True)
