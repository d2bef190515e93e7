"""Stop, redrive, and what the result files say after each (R16, R17, case-R19, case-R20)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import BUCKET, MACHINE, Clock, Jobs, Machine, keys, until


def stopped_in_flight(machine: Machine, jobs: Jobs, done: int = 2, cap: int = 3) -> str:
    """Ten items: `done` succeeded, `cap` were in flight when the execution was stopped, the rest never started."""
    jobs.held = True
    arn = machine.start(keys(10), max_concurrency=cap)
    until(lambda: len(jobs.open()) == cap)
    for number in range(done):
        jobs.end(1)
        until(lambda number=number: len(jobs.all) == cap + number + 1)
    machine.sfn.stop_execution(executionArn=arn, error="Operator", cause="the warehouse is busy")
    return arn


def test_stop_terminates_the_jobs_and_leaves_the_rest_pending(machine: Machine, jobs: Jobs) -> None:
    """R16, case-R20: also the reason that AWS gives to TerminateJob."""
    arn = stopped_in_flight(machine, jobs)
    at_once = machine.describe(arn)
    assert (at_once["status"], at_once["error"]) == ("ABORTED", "Operator")
    ended = machine.ended(arn)
    assert ended["cause"] == "the warehouse is busy"
    assert machine.map_run(arn)["status"] == "ABORTED"
    assert machine.counts(arn) == {"succeeded": 2, "aborted": 3, "pending": 5, "total": 10, "resultsWritten": 5}
    assert not jobs.open()
    assert len(jobs.terminated) == 3
    children = {c["executionArn"] for c in machine.children(arn, statusFilter="ABORTED")}
    for reason in jobs.terminated.values():
        arn_in_reason = reason.partition("[")[2].partition("]")[0]
        assert arn_in_reason in children
        assert reason.endswith("which was managing this resource was aborted")


def test_result_files_of_a_stopped_run(machine: Machine, jobs: Jobs) -> None:
    """R17: aborted items are in FAILED, without Error and Cause; PENDING ones keep their input."""
    arn = stopped_in_flight(machine, jobs)
    machine.ended(arn)
    found = machine.results(arn)
    assert [len(found[status]) for status in ("SUCCEEDED", "FAILED", "PENDING")] == [2, 3, 5]
    assert {r["Status"] for r in found["FAILED"]} == {"ABORTED"}
    assert all("Error" not in r and "Cause" not in r for r in found["FAILED"])
    assert all(r["RedriveStatus"] == "REDRIVABLE" for r in found["FAILED"])
    assert [json.loads(r["Input"])["key"] for r in found["PENDING"]] == [item["key"] for item in keys(10)[5:]]
    assert {r["Status"] for r in found["PENDING"]} == {"PENDING"}


def test_redrive_runs_only_what_did_not_succeed(machine: Machine, jobs: Jobs) -> None:
    """R16: the same Map Run, the same child ARNs, no second job for what succeeded."""
    arn = stopped_in_flight(machine, jobs)
    machine.ended(arn)
    before, run = machine.results(arn), machine.map_run(arn)
    first = jobs.keys()
    jobs.release()
    machine.sfn.redrive_execution(executionArn=arn)
    ended = machine.ended(arn)
    assert (ended["status"], ended["redriveCount"]) == ("SUCCEEDED", 1)
    assert "error" not in ended
    again = machine.map_run(arn)
    assert (again["mapRunArn"], again["redriveCount"]) == (run["mapRunArn"], 1)
    assert "redriveDate" in again
    done = {json.loads(r["Input"])["key"] for r in before["SUCCEEDED"]}
    assert sorted(jobs.keys()[len(first) :]) == [item["key"] for item in keys(10) if item["key"] not in done]
    found = machine.results(arn)
    assert len(found["SUCCEEDED"]) == 10
    assert not found["FAILED"]
    assert not found["PENDING"]
    counts = {r["ExecutionArn"]: r["RedriveCount"] for r in found["SUCCEEDED"]}
    aborted, pending = ({r["ExecutionArn"] for r in before[s]} for s in ("FAILED", "PENDING"))
    assert {counts[child] for child in aborted} == {1}, "a child that had been started is redriven"
    assert {counts[child] for child in pending} == {0}, "one that had not is started"


def test_files_of_an_earlier_attempt_stay_and_the_manifest_does_not_name_them(machine: Machine, jobs: Jobs) -> None:
    """R17: read what the manifest names, never the prefix listing."""
    arn = stopped_in_flight(machine, jobs)
    machine.ended(arn)
    jobs.release()
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    assert "FAILED_0.json" in machine.result_keys(arn)
    named = machine.manifest(arn)["ResultFiles"]
    assert named["FAILED"] == named["PENDING"] == []
    assert [one["Key"].rsplit("/", 1)[-1] for one in named["SUCCEEDED"]] == ["SUCCEEDED_0.json", "SUCCEEDED_1.json"]


def test_redrive_uses_the_original_cap_and_definition(machine: Machine, jobs: Jobs) -> None:
    """R16: an update-map-run is forgotten; a new deployment does not reach it (case-R19)."""
    jobs.held = True
    arn = machine.start(keys(10), max_concurrency=4)
    until(lambda: len(jobs.open()) == 4)
    machine.sfn.update_map_run(mapRunArn=machine.map_run(arn)["mapRunArn"], maxConcurrency=1)
    machine.sfn.stop_execution(executionArn=arn)
    machine.ended(arn)
    broken = {"QueryLanguage": "JSONata", "StartAt": "F", "States": {"F": {"Type": "Fail", "Error": "New"}}}
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=json.dumps(broken))
    machine.sfn.redrive_execution(executionArn=arn)
    until(lambda: len(jobs.open()) == 4)
    assert machine.map_run(arn)["maxConcurrency"] == 4
    known = machine.sfn.describe_state_machine_for_execution(executionArn=arn)["definition"]
    assert "Reimport" in json.loads(known)["States"]
    jobs.release()
    assert machine.ended(arn)["status"] == "SUCCEEDED"


def test_items_wait_for_their_redrive_within_the_cap(machine: Machine, jobs: Jobs) -> None:
    """redrive-map-run page: PENDING_REDRIVE until the cap has room, 0 again when the run is over."""
    arn = stopped_in_flight(machine, jobs, done=0)
    machine.ended(arn)
    machine.sfn.stop_execution(executionArn=arn)
    machine.sfn.redrive_execution(executionArn=arn)
    until(lambda: len(jobs.open()) == 3)
    machine.sfn.update_map_run(mapRunArn=machine.map_run(arn)["mapRunArn"], maxConcurrency=1)
    machine.sfn.stop_execution(executionArn=arn)
    machine.ended(arn)
    machine.sfn.redrive_execution(executionArn=arn)
    until(lambda: len(jobs.open()) == 3)
    assert machine.counts(arn) == {"running": 3, "pending": 7, "total": 10}
    jobs.release()
    machine.ended(arn)


def test_pending_redrive_is_counted_listed_and_reset(machine: Machine, jobs: Jobs) -> None:
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(4), max_concurrency=1, tolerated=75)
    machine.ended(arn)  # all four failed
    jobs.held = True
    machine.sfn.redrive_execution(executionArn=arn)
    until(lambda: jobs.open())
    assert machine.counts(arn) == {"running": 1, "pendingRedrive": 3, "total": 4}
    assert len(machine.children(arn, statusFilter="PENDING_REDRIVE")) == 3
    assert len(machine.children(arn, redriveFilter="REDRIVEN")) == 1
    machine.sfn.stop_execution(executionArn=arn)
    machine.ended(arn)
    assert machine.counts(arn) == {"aborted": 1, "failed": 3, "total": 4, "resultsWritten": 4}
    found = machine.results(arn)
    assert [len(found[status]) for status in ("FAILED", "PENDING")] == [1, 3]


def test_a_run_that_failed_over_its_tolerance_is_redriven(machine: Machine, jobs: Jobs) -> None:
    jobs.outcome = lambda key: "FAILED" if key.endswith("001.eval") else "SUCCEEDED"
    arn = machine.start(keys(5), max_concurrency=1)
    assert machine.ended(arn)["status"] == "FAILED"
    jobs.outcome = lambda key: "SUCCEEDED"
    machine.sfn.redrive_execution(executionArn=arn)
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    assert machine.counts(arn) == {"succeeded": 5, "total": 5, "resultsWritten": 5}


def test_a_redriven_child_goes_on_in_the_state_that_failed(machine: Machine, jobs: Jobs) -> None:
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(1))
    machine.ended(arn)
    jobs.outcome = lambda key: "SUCCEEDED"
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    (child,) = machine.children(arn)
    kinds = [event["type"] for event in machine.history(child["executionArn"])]
    assert kinds.count("ChoiceStateEntered") == kinds.count("TaskStateEntered") == 1
    assert kinds[kinds.index("ExecutionRedriven") :] == [
        "ExecutionRedriven",
        "TaskScheduled",
        "TaskStarted",
        "TaskSubmitted",
        "TaskSucceeded",
        "TaskStateExited",
        "ExecutionSucceeded",
    ]
    described = machine.describe(child["executionArn"])
    assert (described["redriveCount"], described["status"]) == (1, "SUCCEEDED")


def test_a_list_that_came_late_is_read_by_the_redrive(machine: Machine, jobs: Jobs) -> None:
    """redrive-map-run page: after States.ItemReaderFailed the input is read again; else it is the original one."""
    text = json.dumps({"list_key": "lists/late.json"})
    arn = machine.sfn.start_execution(stateMachineArn=machine.arn, input=text)["executionArn"]
    assert machine.ended(arn)["error"] == "States.ItemReaderFailed"
    machine.s3.put_object(Bucket=BUCKET, Key="lists/late.json", Body=json.dumps(keys(2)).encode())
    machine.sfn.redrive_execution(executionArn=arn)
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    assert len(jobs.all) == 2


def test_a_list_changed_after_the_start_does_not_reach_the_redrive(machine: Machine, jobs: Jobs) -> None:
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(2), max_concurrency=1)
    machine.ended(arn)
    list_key = json.loads(machine.describe(arn)["input"])["list_key"]
    machine.s3.put_object(Bucket=BUCKET, Key=list_key, Body=b'[{"key": "evals/other.eval"}]')
    jobs.outcome = lambda key: "SUCCEEDED"
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    assert "evals/other.eval" not in [job.key for job in jobs.all]
    assert machine.counts(arn)["total"] == 2


def test_only_what_failed_within_14_days_is_redriven(machine: Machine, jobs: Jobs, time_machine: Clock) -> None:
    """R16, case-R19."""
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(1))
    machine.ended(arn)
    assert machine.describe(arn)["redriveStatus"] == "REDRIVABLE"
    time_machine.advance(days=13, hours=23)
    assert machine.describe(arn)["redriveStatus"] == "REDRIVABLE"
    time_machine.advance(hours=2)
    described = machine.describe(arn)
    assert described["redriveStatus"] == "NOT_REDRIVABLE"
    assert described["redriveStatusReason"] == "Execution redrivable period exceeded"
    with pytest.raises(machine.sfn.exceptions.ExecutionNotRedrivable):
        machine.sfn.redrive_execution(executionArn=arn)
    assert machine.counts(arn)["failuresNotRedrivable"] == 1


def test_children_closed_too_long_ago_keep_their_end(machine: Machine, jobs: Jobs, time_machine: Clock) -> None:
    """R16: the parent may be redriven, a child that closed earlier may not (failuresNotRedrivable)."""
    jobs.held, jobs.outcome = True, lambda key: "FAILED"
    arn = machine.start(keys(2), max_concurrency=1, tolerated=100)
    until(lambda: len(jobs.open()) == 1)
    jobs.end(1)
    until(lambda: len(jobs.all) == 2)
    time_machine.advance(days=10)
    machine.sfn.stop_execution(executionArn=arn)
    machine.ended(arn)
    time_machine.advance(days=5)
    jobs.outcome = lambda key: "SUCCEEDED"
    jobs.release()
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    counts = machine.counts(arn)
    assert (counts["failed"], counts["succeeded"], counts["failuresNotRedrivable"]) == (1, 1, 1)
    assert len(jobs.all) == 3
    assert not machine.results(arn)["FAILED"], "it is of an earlier attempt"


@pytest.mark.parametrize("status", ["RUNNING", "SUCCEEDED"])
def test_redrive_refuses_what_did_not_fail(machine: Machine, jobs: Jobs, status: str) -> None:
    jobs.held = status == "RUNNING"
    arn = machine.start(keys(1))
    if status == "SUCCEEDED":
        machine.ended(arn)
    with pytest.raises(machine.sfn.exceptions.ExecutionNotRedrivable, match=f"{status} and cannot be redriven"):
        machine.sfn.redrive_execution(executionArn=arn)
    jobs.release()
    machine.ended(arn)


def test_a_redrive_right_after_a_stop_waits_for_the_map_run(machine: Machine, jobs: Jobs) -> None:
    """redrive-map-run page: the running Map Run completes its operations first (case-R20)."""
    arn = stopped_in_flight(machine, jobs)
    machine.sfn.redrive_execution(executionArn=arn)
    assert machine.describe(arn)["status"] == "RUNNING"
    until(lambda: len(jobs.terminated) == 3)
    jobs.release()
    until(lambda: not jobs.open() and len(jobs.all) == 13)
    assert machine.ended(arn)["status"] == "SUCCEEDED"
    assert len(machine.results(arn)["SUCCEEDED"]) == 10


def test_history_tells_of_the_map_run_and_its_redrive(machine: Machine, jobs: Jobs) -> None:
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(1))
    machine.ended(arn)
    jobs.outcome = lambda key: "SUCCEEDED"
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    events = machine.history(arn)
    assert [event["type"] for event in events] == [
        "ExecutionStarted",
        "PassStateEntered",
        "PassStateExited",
        "MapStateEntered",
        "MapRunStarted",
        "MapRunFailed",
        "ExecutionFailed",
        "ExecutionRedriven",
        "MapRunRedriven",
        "MapRunSucceeded",
        "MapStateExited",
        "ExecutionSucceeded",
    ]
    assert [event["id"] for event in events] == list(range(1, 13))
    run_arn = machine.map_run(arn)["mapRunArn"]
    assert events[4]["mapRunStartedEventDetails"] == {"mapRunArn": run_arn}
    assert events[8]["mapRunRedrivenEventDetails"] == {"mapRunArn": run_arn, "redriveCount": 1}
    assert events[6]["executionFailedEventDetails"]["error"] == "States.ExceedToleratedFailureThreshold"


def test_a_stopped_execution_can_be_stopped_again(machine: Machine, jobs: Jobs) -> None:
    arn = stopped_in_flight(machine, jobs)
    first: dict[str, Any] = machine.sfn.stop_execution(executionArn=arn, cause="again")
    assert machine.ended(arn)["cause"] == "the warehouse is busy"
    assert first["stopDate"] == machine.describe(arn)["stopDate"]
    assert MACHINE in arn
