"""A Distributed Map from start to end: cap, tolerance, counts, children (R11, R13, R15, "Bad input")."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import BUCKET, MACHINE, Jobs, Machine, definition, keys, submit, until


def test_every_item_becomes_a_child_and_a_job(machine: Machine, jobs: Jobs) -> None:
    arn = machine.start(keys(5))
    ended = machine.ended(arn)
    assert ended["status"] == "SUCCEEDED"
    assert sorted(jobs.keys()) == [item["key"] for item in keys(5)]
    assert machine.counts(arn) == {"succeeded": 5, "total": 5, "resultsWritten": 5}


@pytest.mark.parametrize(("failures", "status"), [(1, "SUCCEEDED"), (2, "SUCCEEDED"), (3, "FAILED")])
def test_tolerance_of_20_percent_of_10_items(machine: Machine, jobs: Jobs, failures: int, status: str) -> None:
    """R15: more than the percentage of all items; exactly at the threshold it goes on."""
    jobs.outcome = lambda key: "FAILED" if key < f"evals/set/{failures:03}.eval" else "SUCCEEDED"
    arn = machine.start(keys(10), tolerated=20, max_concurrency=1)
    ended = machine.ended(arn)
    assert ended["status"] == status
    assert machine.map_run(arn)["status"] == status
    if status == "FAILED":
        assert ended["error"] == "States.ExceedToleratedFailureThreshold"
        assert machine.counts(arn) == {"failed": 3, "pending": 7, "total": 10, "resultsWritten": 3}


def test_a_failure_that_comes_first_is_measured_against_all_items(machine: Machine, jobs: Jobs) -> None:
    """R15: divided by the items that ended, 1 of 1 would be too many."""
    jobs.outcome = lambda key: "FAILED" if key.endswith("000.eval") else "SUCCEEDED"
    assert machine.run(keys(10), tolerated=20, max_concurrency=1)["status"] == "SUCCEEDED"


def test_children_in_flight_at_a_breach_are_aborted_and_do_not_count(machine: Machine, jobs: Jobs) -> None:
    jobs.held = True
    arn = machine.start(keys(6), max_concurrency=3)
    until(lambda: len(jobs.open()) == 3)
    jobs.open()[0].end("FAILED")
    assert machine.ended(arn)["status"] == "FAILED"
    assert machine.counts(arn) == {"failed": 1, "aborted": 2, "pending": 3, "total": 6, "resultsWritten": 3}
    assert len(jobs.terminated) == 2


def test_no_more_than_the_cap_at_once(machine: Machine, jobs: Jobs) -> None:
    """R13."""
    jobs.held = True
    arn = machine.start(keys(20), max_concurrency=3)
    until(lambda: len(jobs.open()) == 3)
    while machine.describe(arn)["status"] == "RUNNING":
        jobs.end(1)
        time.sleep(0.01)
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    assert jobs.peak == 3


def test_update_map_run_lowers_and_raises_the_cap_of_a_running_run(machine: Machine, jobs: Jobs) -> None:
    """R13: lowering waits for jobs in flight, raising starts more at once."""
    jobs.held = True
    arn = machine.start(keys(40), max_concurrency=8)
    until(lambda: len(jobs.open()) == 8)
    run_arn = machine.map_run(arn)["mapRunArn"]
    machine.sfn.update_map_run(mapRunArn=run_arn, maxConcurrency=2)
    for left in (7, 6, 5, 4, 3, 2):
        jobs.end(1)
        until(lambda left=left: machine.counts(arn)["running"] == left)
    assert len(jobs.all) == 8, "nothing starts while more are in flight than the new cap"
    jobs.end(2)
    until(lambda: len(jobs.all) == 10)
    until(lambda: machine.counts(arn)["running"] == 2)
    assert len(jobs.open()) == 2
    machine.sfn.update_map_run(mapRunArn=run_arn, maxConcurrency=5)
    until(lambda: len(jobs.open()) == 5)
    assert machine.map_run(arn)["maxConcurrency"] == 5
    jobs.release()
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    with pytest.raises(ClientError) as refused:
        machine.sfn.update_map_run(mapRunArn=run_arn, maxConcurrency=2)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_update_map_run_changes_the_tolerance(machine: Machine, jobs: Jobs) -> None:
    jobs.held, jobs.outcome = True, lambda key: "FAILED"
    arn = machine.start(keys(4), max_concurrency=2)
    until(lambda: len(jobs.open()) == 2)
    machine.sfn.update_map_run(mapRunArn=machine.map_run(arn)["mapRunArn"], toleratedFailurePercentage=100)
    jobs.release()
    assert machine.ended(arn)["status"] == "SUCCEEDED"


@pytest.mark.parametrize("change", [{}, {"maxConcurrency": -1}, {"toleratedFailurePercentage": 101.0}])
def test_update_map_run_refuses_nonsense(machine: Machine, jobs: Jobs, change: dict[str, Any]) -> None:
    jobs.held = True
    arn = machine.start(keys(1))
    run = until(lambda: machine.map_run(arn))
    with pytest.raises(Exception, match=r"(?i)validation"):
        machine.sfn.update_map_run(mapRunArn=run["mapRunArn"], **change)
    jobs.release()
    machine.ended(arn)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"a": 1}', "no JSON array"),
        (b"[1", "is not JSON"),
        (b'[{"key": "evals/a.eval", "size": NaN}]', "is not JSON"),  # Python would take it
        (b'"text"', "no JSON array"),
        (None, "NoSuchKey"),
    ],
)
def test_a_list_that_is_none_fails_the_run_without_a_job(
    machine: Machine, jobs: Jobs, body: bytes | None, says: str
) -> None:
    """ "Bad input": FAILED States.ItemReaderFailed, zero jobs."""
    if body is None:
        text = json.dumps({"list_key": "lists/none.json"})
        arn = machine.sfn.start_execution(stateMachineArn=machine.arn, input=text)["executionArn"]
    else:
        arn = machine.start(body)
    ended = machine.ended(arn)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.ItemReaderFailed")
    assert says in ended["cause"]
    assert machine.map_run(arn)["status"] == "FAILED"
    assert not jobs.all


def test_an_empty_list_succeeds_with_a_manifest_of_empty_lists(machine: Machine, jobs: Jobs) -> None:
    arn = machine.start([])
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    assert machine.counts(arn) == {}
    assert machine.manifest(arn)["ResultFiles"] == {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    assert machine.result_keys(arn) == ["manifest.json"]


def test_a_bad_item_fails_alone_and_without_a_job(machine: Machine, jobs: Jobs) -> None:
    """R10, case-R22: no object, no key, numeric key, null key."""
    arn = machine.start([7, {"size": 1}, {"key": 5}, {"key": None}, "text", *keys(1)], tolerated=100)
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    failed = machine.results(arn)["FAILED"]
    assert {r["Error"] for r in failed} == {"InvalidItem"}
    assert sorted(r["Cause"] for r in failed) == ["key is 5", *["key is null"] * 4]
    assert len(jobs.all) == 1


def test_children_see_nothing_of_their_parent(machine: Machine, jobs: Jobs) -> None:
    """R11: variables assigned outside do not exist inside; the context is the child's own."""
    spy = {
        "Type": "Pass",
        "Output": {"cap": "{% $exists($cap) %}", "id": "{% $states.context.Execution.Id %}"},
        "End": True,
    }
    machine.sfn.update_state_machine(
        stateMachineArn=machine.arn, definition=json.dumps(definition({"StartAt": "Spy", "States": {"Spy": spy}}))
    )
    arn = machine.start(keys(1))
    machine.ended(arn)
    (found,) = machine.results(arn)["SUCCEEDED"]
    assert json.loads(found["Output"]) == {"cap": False, "id": found["ExecutionArn"]}
    assert json.loads(found["Input"])["execution"] == arn, "the ItemSelector is evaluated outside"


def test_a_parent_variable_used_in_a_child_fails_it(machine: Machine, jobs: Jobs) -> None:
    use = {"StartAt": "Use", "States": {"Use": {"Type": "Pass", "Output": "{% $cap %}", "End": True}}}
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=json.dumps(definition(use)))
    arn = machine.start(keys(1))
    machine.ended(arn)
    (failed,) = machine.results(arn)["FAILED"]
    assert failed["Error"] == "States.QueryEvaluationError"
    assert "returned nothing (undefined)" in failed["Cause"]


def test_names_of_children(machine: Machine, jobs: Jobs) -> None:
    arn = machine.start(keys(1))
    machine.ended(arn)
    run_arn = machine.map_run(arn)["mapRunArn"]
    (child,) = machine.children(arn)
    assert f":mapRun:{MACHINE}/Reimport:" in run_arn
    assert child["executionArn"].startswith(f"arn:aws:states:us-east-1:123456789012:execution:{MACHINE}/Reimport:")
    assert child["stateMachineArn"].endswith(f":stateMachine:{MACHINE}/Reimport")
    described = machine.describe(child["executionArn"])
    assert (described["status"], described["mapRunArn"]) == ("SUCCEEDED", run_arn)
    assert [event["type"] for event in machine.history(child["executionArn"])] == [
        "ExecutionStarted",
        "ChoiceStateEntered",
        "ChoiceStateExited",
        "TaskStateEntered",
        "TaskScheduled",
        "TaskStarted",
        "TaskSubmitted",
        "TaskSucceeded",
        "TaskStateExited",
        "ExecutionSucceeded",
    ]


def test_one_child_can_be_stopped(machine: Machine, jobs: Jobs) -> None:
    jobs.held = True
    arn = machine.start(keys(3))
    until(lambda: len(jobs.open()) == 3)
    child = machine.children(arn)[0]["executionArn"]
    machine.sfn.stop_execution(executionArn=child, error="Operator", cause="stuck")
    until(lambda: machine.counts(arn).get("aborted") == 1)
    assert (machine.describe(child)["status"], machine.describe(child)["cause"]) == ("ABORTED", "stuck")
    assert len(jobs.terminated) == 1
    jobs.release()
    assert machine.ended(arn)["status"] == "SUCCEEDED", "aborted items do not count against the tolerance"


def test_a_child_input_above_256_kib_fails_the_map(machine: Machine, jobs: Jobs) -> None:
    ended = machine.run([{"key": "x" * 262_144}])
    assert (ended["status"], ended["error"]) == ("FAILED", "States.DataLimitExceeded")
    assert not jobs.all


def test_a_missing_result_bucket_fails_before_any_job(machine: Machine, jobs: Jobs) -> None:
    writer = {"Resource": "arn:aws:states:::s3:putObject", "Arguments": {"Bucket": "nowhere", "Prefix": "results"}}
    machine.sfn.update_state_machine(
        stateMachineArn=machine.arn, definition=json.dumps(definition(ResultWriter=writer))
    )
    ended = machine.run(keys(1))
    assert (ended["status"], ended["error"]) == ("FAILED", "States.ResultWriterFailed")
    assert not jobs.all


def test_a_map_run_does_not_stay_running_when_the_sandbox_fails(
    machine: Machine, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(self: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("sandbox.step_functions.result_files.ResultWriter.write", write)
    arn = machine.start(keys(1))
    ended = machine.ended(arn)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")
    assert machine.map_run(arn)["status"] == "FAILED"


def test_half_a_surrogate_pair_in_a_key_is_no_trouble(machine: Machine, jobs: Jobs, events: list[Any]) -> None:
    arn = machine.start(b'[{"key": "evals/\\ud800.eval"}]')
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    assert jobs.keys() == ["evals/\ud800.eval"]
    [named] = machine.manifest(arn)["ResultFiles"]["SUCCEEDED"]
    written = machine.s3.get_object(Bucket="reimport", Key=named["Key"])["Body"].read()
    [record] = json.loads(written.decode())  # UTF-8, as every result file
    assert json.loads(record["Input"])["key"] == jobs.keys()[0]
    statuses = [event["Detail"]["status"] for event in events if "Reimport:" in event["Detail"]["executionArn"]]
    assert statuses == ["RUNNING", "SUCCEEDED"]


def test_a_child_does_not_stay_running_when_the_sandbox_fails(
    machine: Machine, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(execution: Any) -> None:
        if execution.map_run_arn is not None and execution.status == "RUNNING":
            raise OSError("no space left")

    monkeypatch.setattr("sandbox.step_functions.status_events.publish", publish)
    assert machine.run(keys(2), tolerated=100)["status"] == "SUCCEEDED"
    assert not jobs.all


def test_without_a_result_writer_the_map_returns_the_outputs(machine: Machine, jobs: Jobs) -> None:
    tree = definition()
    del tree["States"]["Reimport"]["ResultWriter"]
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=json.dumps(tree))
    assert [one["StoppedAt"] for one in json.loads(machine.run(keys(2))["output"])] == ["SUCCEEDED"] * 2


def test_list_map_runs_is_never_an_error_once_started(machine: Machine, jobs: Jobs) -> None:
    arn = machine.start(keys(1))
    assert isinstance(machine.sfn.list_map_runs(executionArn=arn)["mapRuns"], list)
    machine.ended(arn)


def test_an_unknown_map_run_has_an_error_code(machine: Machine) -> None:
    unknown = f"arn:aws:states:us-east-1:123456789012:mapRun:{MACHINE}/Reimport:00000000-0000-0000-0000-000000000000"
    with pytest.raises(machine.sfn.exceptions.ResourceNotFound):
        machine.sfn.describe_map_run(mapRunArn=unknown)
    with pytest.raises(machine.sfn.exceptions.InvalidArn):
        machine.sfn.describe_map_run(mapRunArn="nonsense")


def test_children_are_listed_in_pages(machine: Machine, jobs: Jobs) -> None:
    """case-R06: pages of children, each child once."""
    arn = machine.start(keys(25), max_concurrency=5)
    machine.ended(arn)
    assert len({c["executionArn"] for c in machine.children(arn, PaginationConfig={"PageSize": 10})}) == 25


def test_a_map_inside_of_a_map_is_refused(machine: Machine) -> None:
    inner = definition()["States"]["Reimport"]
    with pytest.raises(machine.sfn.exceptions.InvalidDefinition):
        machine.sfn.update_state_machine(
            stateMachineArn=machine.arn, definition=json.dumps(definition({"StartAt": "In", "States": {"In": inner}}))
        )
    assert submit("x")["Resource"].endswith(".sync")
    assert BUCKET
