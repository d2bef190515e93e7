"""Names, lists, histories and events of executions (R9, R18, R21, case-R10, case-R11)."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import BUCKET, MACHINE, Clock, Jobs, Machine, client, definition, keys, until


def test_same_name_and_input_while_running_is_the_same_execution(machine: Machine, jobs: Jobs) -> None:
    """case-R11."""
    jobs.held = True
    text = json.dumps({"list_key": machine.put_list(keys(1))})
    start = {"stateMachineArn": machine.arn, "name": "june", "input": text}
    first = machine.sfn.start_execution(**start)
    again = machine.sfn.start_execution(**start)
    assert (first["executionArn"], first["startDate"]) == (again["executionArn"], again["startDate"])
    with pytest.raises(machine.sfn.exceptions.ExecutionAlreadyExists):
        machine.sfn.start_execution(**{**start, "input": text + " "})
    until(lambda: jobs.open())
    jobs.release()
    machine.ended(first["executionArn"])
    assert len(jobs.all) == 1


def test_a_name_is_taken_for_90_days(machine: Machine, jobs: Jobs, time_machine: Clock) -> None:
    """case-R11: also by an execution that ended, even with the same input."""
    arn = machine.start(keys(1), name="june")
    machine.ended(arn)
    start = {"stateMachineArn": machine.arn, "name": "june", "input": machine.describe(arn)["input"]}
    time_machine.advance(days=89)
    with pytest.raises(machine.sfn.exceptions.ExecutionAlreadyExists):
        machine.sfn.start_execution(**start)
    time_machine.advance(days=2)
    machine.ended(machine.sfn.start_execution(**start)["executionArn"])
    assert len(jobs.all) == 2


def test_an_execution_without_a_name_gets_a_uuid(machine: Machine, jobs: Jobs) -> None:
    """moto calls it "None"."""
    arn = machine.start(keys(1))
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", arn.rsplit(":", 1)[-1])
    machine.ended(arn)


@pytest.mark.parametrize("name", ["a b", "a/b", "a:b", "x" * 81, "a\nb", 'a"b'])
def test_names_that_are_refused(machine: Machine, name: str) -> None:
    """case-R10."""
    with pytest.raises(ClientError) as refused:
        machine.start(keys(1), name=name)
    assert refused.value.response["Error"]["Code"] in ("InvalidName", "ValidationException")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "InvalidExecutionInput"),
        ('{"a": NaN}', "InvalidExecutionInput"),
        (f'"{"x" * 262_144}"', "ValidationException"),
    ],
)
def test_inputs_that_are_refused(machine: Machine, text: str, code: str) -> None:
    with pytest.raises(ClientError) as refused:
        machine.sfn.start_execution(stateMachineArn=machine.arn, input=text)
    assert refused.value.response["Error"]["Code"] == code


def test_unknown_executions_have_an_error_code(machine: Machine) -> None:
    unknown = f"arn:aws:states:us-east-1:123456789012:execution:{MACHINE}:none"
    for call in ("describe_execution", "stop_execution", "redrive_execution", "list_map_runs", "get_execution_history"):
        with pytest.raises(machine.sfn.exceptions.ExecutionDoesNotExist):
            getattr(machine.sfn, call)(executionArn=unknown)
    with pytest.raises(machine.sfn.exceptions.StateMachineDoesNotExist):
        machine.sfn.start_execution(stateMachineArn=machine.arn + "x")


def test_a_map_state_cannot_be_started(machine: Machine) -> None:
    with pytest.raises(ClientError, match="Distributed Map"):
        machine.sfn.start_execution(stateMachineArn=machine.arn + "/Reimport")


def test_executions_are_listed_newest_first_in_pages(machine: Machine, jobs: Jobs) -> None:
    """Children are not among them; a page added to meanwhile shifts nothing."""
    for number in range(5):
        machine.ended(machine.start(keys(1), name=f"n{number}"))
    first = machine.sfn.list_executions(stateMachineArn=machine.arn, maxResults=2)
    machine.ended(machine.start(keys(1), name="n5"))
    rest = machine.sfn.list_executions(stateMachineArn=machine.arn, nextToken=first["nextToken"])
    assert [x["name"] for x in first["executions"]] == ["n4", "n3"]
    assert [x["name"] for x in rest["executions"]] == ["n2", "n1", "n0"]
    assert "nextToken" not in rest
    failed = machine.sfn.list_executions(stateMachineArn=machine.arn, statusFilter="FAILED")
    assert failed["executions"] == []
    with pytest.raises(ClientError) as refused:
        machine.sfn.list_executions(stateMachineArn=machine.arn, nextToken="nonsense")
    assert refused.value.response["Error"]["Code"] == "InvalidToken"


def test_history_in_pages_and_backwards(machine: Machine, jobs: Jobs) -> None:
    arn = machine.start(keys(1))
    machine.ended(arn)
    pages = machine.sfn.get_paginator("get_execution_history").paginate(
        executionArn=arn, reverseOrder=True, PaginationConfig={"PageSize": 3}
    )
    ids = [event["id"] for page in pages for event in page["events"]]
    assert ids == list(range(len(ids), 0, -1))
    bare = machine.sfn.get_execution_history(executionArn=arn, includeExecutionData=False)["events"][0]
    assert "input" not in bare["executionStartedEventDetails"]


def test_status_events_of_execution_and_child(machine: Machine, jobs: Jobs, events: list[dict[str, Any]]) -> None:
    """R18: children emit events too, under a state machine ARN of their own."""
    arn = machine.start(keys(1))
    machine.ended(arn)
    until(lambda: len(events) == 4)
    seen = [(e["Detail"]["status"], e["Detail"]["stateMachineArn"].removeprefix(machine.arn)) for e in events]
    assert seen[:2] == [("RUNNING", ""), ("RUNNING", "/Reimport")]
    assert sorted(seen[2:]) == [("SUCCEEDED", ""), ("SUCCEEDED", "/Reimport")]
    assert {(e["Source"], e["DetailType"]) for e in events} == {
        ("aws.states", "Step Functions Execution Status Change")
    }
    running, ended = (next(e for e in events if e["Detail"]["status"] == s) for s in ("RUNNING", "SUCCEEDED"))
    assert running["Resources"] == [arn]
    assert running["Detail"]["stopDate"] is None
    assert running["Detail"]["output"] is None
    assert set(running["Detail"]) == {
        *("executionArn", "stateMachineArn", "name", "status", "startDate", "stopDate", "input", "inputDetails"),
        *("output", "outputDetails", "error", "cause", "stateMachineVersionArn", "stateMachineAliasArn"),
        *("redriveCount", "redriveDate", "redriveStatus", "redriveStatusReason"),
    }
    assert isinstance(ended["Detail"]["stopDate"], int)
    assert json.loads(running["Detail"]["input"])["list_key"].startswith("lists/")


def test_a_stop_and_a_redrive_are_told_once_each(machine: Machine, jobs: Jobs, events: list[dict[str, Any]]) -> None:
    jobs.held = True
    arn = machine.start(keys(1))
    until(lambda: jobs.open())
    machine.sfn.stop_execution(executionArn=arn, error="Operator", cause="busy")
    machine.ended(arn)
    jobs.release()
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    until(lambda: [e["Detail"]["status"] for e in events if e["Detail"]["executionArn"] == arn][3:])
    mine = [e["Detail"] for e in events if e["Detail"]["executionArn"] == arn]
    assert [d["status"] for d in mine] == ["RUNNING", "ABORTED", "RUNNING", "SUCCEEDED"]
    assert (mine[1]["error"], mine[1]["cause"], mine[3]["redriveCount"]) == ("Operator", "busy", 1)
    until(lambda: len([e for e in events if "/Reimport" in e["Detail"]["stateMachineArn"]]) == 4)
    children = [e["Detail"]["status"] for e in events if "/Reimport" in e["Detail"]["stateMachineArn"]]
    assert children == ["RUNNING", "ABORTED", "RUNNING", "SUCCEEDED"]


def test_large_payloads_are_left_out_of_events(jobs: Jobs, events: list[dict[str, Any]]) -> None:
    """EventBridge page: above 248 KB of input and output, `included` is false."""
    tree = {"QueryLanguage": "JSONata", "StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}
    machine = Machine().create(tree)
    text = json.dumps("x" * 130_000)
    arn = machine.sfn.start_execution(stateMachineArn=machine.arn, input=text)["executionArn"]
    machine.ended(arn)
    until(lambda: len(events) == 2)
    assert events[0]["Detail"]["inputDetails"] == {"included": True}
    assert events[1]["Detail"]["input"] is events[1]["Detail"]["output"] is None
    assert events[1]["Detail"]["outputDetails"] == {"included": False}


def test_an_event_reaches_a_rule_that_matches_the_machine_exactly(machine: Machine, jobs: Jobs) -> None:
    """R18: and not the children's."""
    sqs, bus = client("sqs"), client("events")
    url = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = {"source": ["aws.states"], "detail": {"stateMachineArn": [machine.arn], "status": ["SUCCEEDED"]}}
    bus.put_rule(Name="ended", EventPattern=json.dumps(pattern))
    bus.put_targets(Rule="ended", Targets=[{"Id": "queue", "Arn": arn}])
    execution = machine.start(keys(3))
    machine.ended(execution)
    message = until(lambda: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"))
    assert [json.loads(m["Body"])["detail"]["executionArn"] for m in message] == [execution]


def test_an_execution_times_out(jobs: Jobs) -> None:
    """TimeoutSeconds of the machine ends it as TIMED_OUT, with its jobs."""
    machine = Machine().create({**definition(), "TimeoutSeconds": 1})
    jobs.held = True
    arn = machine.start(keys(1))
    ended = machine.ended(arn)
    assert (ended["status"], ended["redriveStatus"]) == ("TIMED_OUT", "REDRIVABLE")
    assert len(jobs.terminated) == 1


def test_a_reset_forgets_everything_and_leaves_no_thread(machine: Machine, jobs: Jobs, events: list[Any]) -> None:
    """And says nothing about it: no event, no result, no TerminateJob after it."""
    from moto.core.base_backend import BackendDict

    jobs.held = True
    arn = machine.start(keys(5), max_concurrency=3)
    until(lambda: len(jobs.open()) == 3)
    working = [t for t in threading.enumerate() if t.name.startswith(("execution ", "child "))]
    assert len(working) == 4
    told = len(events)
    BackendDict.reset()
    assert not [t for t in working if t.is_alive()]
    assert len(events) == told
    assert not jobs.terminated
    with pytest.raises(machine.sfn.exceptions.ExecutionDoesNotExist):
        machine.describe(arn)
    machine.s3.create_bucket(Bucket=BUCKET)
    machine.create()
    jobs.release()
    assert machine.run(keys(1))["status"] == "SUCCEEDED"
