"""Choice, Fail, Pass, Wait, retriers, catchers, and the Batch task's errors (R10, R14)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from moto.batch.exceptions import ClientException
from moto.batch.responses import BatchResponse
from moto.core.exceptions import JsonRESTError

from sandbox.step_functions.errors import matches
from sandbox.step_functions.retry import Retriers

from .conftest import Jobs, Machine, definition, keys, submit


def run(states: dict[str, Any], text: str = "{}", start: str = "A") -> dict[str, Any]:
    machine = Machine().create({"QueryLanguage": "JSONata", "StartAt": start, "States": states})
    arn = machine.sfn.start_execution(stateMachineArn=machine.arn, input=text)["executionArn"]
    return machine.ended(arn)


def test_fail_with_expressions() -> None:
    """R10: the Cause names field and value."""
    fail = {"Type": "Fail", "Error": "InvalidInput", "Cause": "{% 'cap is ' & $string($states.input.cap) %}"}
    ended = run({"A": fail}, '{"cap": "8\\""}')
    assert (ended["status"], ended["error"], ended["cause"]) == ("FAILED", "InvalidInput", 'cap is 8"')


def test_a_choice_assigns_for_the_next_state() -> None:
    choice = {
        "Type": "Choice",
        "Choices": [
            {"Condition": "{% $states.input.n > 5 %}", "Assign": {"size": "large"}, "Next": "B"},
            {"Condition": "{% $states.input.n > 1 %}", "Assign": {"size": "middle"}, "Output": "chosen", "Next": "B"},
        ],
        "Default": "B",
        "Assign": {"size": "small"},
    }
    after = {"Type": "Pass", "Output": {"size": "{% $size %}", "input": "{% $states.input %}"}, "End": True}
    assert json.loads(run({"A": choice, "B": after}, '{"n": 3}')["output"]) == {"size": "middle", "input": "chosen"}
    assert json.loads(run({"A": choice, "B": after}, '{"n": 0}')["output"]) == {"size": "small", "input": {"n": 0}}


def test_a_choice_without_a_match_or_default_fails() -> None:
    choice = {"Type": "Choice", "Choices": [{"Condition": "{% false %}", "Next": "B"}]}
    assert run({"A": choice, "B": {"Type": "Succeed"}})["error"] == "States.NoChoiceMatched"


def test_assign_and_output_see_the_variables_as_they_were() -> None:
    first = {"Type": "Pass", "Assign": {"x": 1}, "Next": "B"}
    second = {"Type": "Pass", "Assign": {"x": 2}, "Output": "{% $x %}", "Next": "C"}
    third = {"Type": "Pass", "Output": ["{% $states.input %}", "{% $x %}"], "End": True}
    assert json.loads(run({"A": first, "B": second, "C": third})["output"]) == [1, 2]


def test_an_evaluation_error_names_the_state() -> None:
    ended = run({"A": {"Type": "Pass", "Output": "{% $none %}", "End": True}})
    assert ended["error"] == "States.QueryEvaluationError"
    assert "executing the state 'A'" in ended["cause"]


def test_an_output_above_256_kib_fails() -> None:
    ended = run({"A": {"Type": "Pass", "Output": "{% $pad('', 300000, 'x') %}", "End": True}})
    assert ended["error"] == "States.DataLimitExceeded"


def test_wait_can_be_stopped() -> None:
    machine = Machine().create(
        {"QueryLanguage": "JSONata", "StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 600, "End": True}}}
    )
    arn = machine.sfn.start_execution(stateMachineArn=machine.arn, input="{}")["executionArn"]
    machine.sfn.stop_execution(executionArn=arn)
    assert machine.ended(arn)["status"] == "ABORTED"  # and the fixture sees the thread end


def test_the_submitted_job(machine: Machine, jobs: Jobs) -> None:
    arn = machine.start([{"key": "evals/a.eval", "size": 99}])
    machine.ended(arn)
    (job,) = jobs.all
    overrides = job.given["container_overrides"]
    assert overrides["command"] == ["import", "--key", "evals/a.eval", "--force", "true"]
    assert overrides["resourceRequirements"] == [{"type": "VCPU", "value": "2"}]
    assert {"name": "MANAGED_BY_AWS", "value": "STARTED_BY_STEP_FUNCTIONS"} in overrides["environment"]
    assert job.given["tags"] == {"longhaul:child": machine.children(arn)[0]["executionArn"]}


def retrying(machine: Machine) -> None:
    task = submit(["import", "--key", "{% $states.input.key %}"])
    names = ["Batch.AWSBatchException", "Batch.ServerException", "Batch.TooManyRequestsException"]
    task["Retry"] = [{"ErrorEquals": names, "IntervalSeconds": 0.01, "MaxAttempts": 2, "JitterStrategy": "FULL"}]
    tree = json.dumps(definition({"StartAt": "Import", "States": {"Import": task}}))
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=tree)


@pytest.mark.parametrize(
    ("raised", "times", "error"),
    [
        (JsonRESTError("ServerException", "busy"), 2, None),
        (JsonRESTError("TooManyRequestsException", "busy"), 2, None),
        (JsonRESTError("ServerException", "busy"), 3, "Batch.ServerException"),
        (ClientException("no such queue"), 1, "Batch.ClientException"),
    ],
)
def test_submission_is_retried(
    machine: Machine,
    jobs: Jobs,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    times: int,
    error: str | None,
) -> None:
    """R14, case-C07: trouble with SubmitJob is retried, a request that is wrong is not."""
    retrying(machine)
    left, original = [raised] * times, BatchResponse.submitjob

    def submitjob(self: Any) -> str:
        if left:
            raise left.pop()
        return str(original(self))

    monkeypatch.setattr(BatchResponse, "submitjob", submitjob)
    arn = machine.start(keys(1), tolerated=100)
    machine.ended(arn)
    failed = machine.results(arn)["FAILED"]
    assert [record["Error"] for record in failed] == ([error] if error else [])
    assert len(jobs.all) == (0 if error else 1)


def test_a_failed_job_is_not_retried_by_batch_errors(machine: Machine, jobs: Jobs) -> None:
    """R14: Batch's own retry strategy does that."""
    retrying(machine)
    jobs.outcome = lambda key: "FAILED"
    machine.run(keys(1))
    assert len(jobs.all) == 1


def test_arguments_that_batch_would_not_take(machine: Machine, jobs: Jobs) -> None:
    task = submit(["--key", "x"])
    task["Arguments"]["JobQueue"] = 5
    tree = json.dumps(definition({"StartAt": "Import", "States": {"Import": task}}))
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=tree)
    arn = machine.start(keys(1))
    machine.ended(arn)
    (failed,) = machine.results(arn)["FAILED"]
    assert failed["Error"] == "States.Runtime"
    assert "jobQueue" in failed["Cause"]


def test_a_task_times_out_and_terminates_its_job(machine: Machine, jobs: Jobs) -> None:
    task = {**submit(["import", "--key", "{% $states.input.key %}"]), "TimeoutSeconds": 1}
    tree = json.dumps(definition({"StartAt": "Import", "States": {"Import": task}}))
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=tree)
    jobs.held = True
    arn = machine.start(keys(1))
    machine.ended(arn)
    assert machine.results(arn)["FAILED"][0]["Error"] == "States.Timeout"
    assert len(jobs.terminated) == 1


def test_a_catcher_takes_over(machine: Machine, jobs: Jobs) -> None:
    task = submit(["import", "--key", "{% $states.input.key %}"])
    output = "{% $states.errorOutput.Error %}"
    task["Catch"] = [{"ErrorEquals": ["States.ALL"], "Output": output, "Assign": {"seen": output}, "Next": "After"}]
    after = {"Type": "Pass", "Output": ["{% $states.input %}", "{% $seen %}"], "End": True}
    tree = json.dumps(definition({"StartAt": "Import", "States": {"Import": task, "After": after}}))
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=tree)
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(1))
    machine.ended(arn)
    assert json.loads(machine.results(arn)["SUCCEEDED"][0]["Output"]) == ["States.TaskFailed"] * 2


def runs(machine: Machine, arn: str) -> list[dict[str, Any]]:
    listed = machine.sfn.list_map_runs(executionArn=arn)["mapRuns"]
    return [machine.sfn.describe_map_run(mapRunArn=run["mapRunArn"]) for run in listed]


def test_a_retried_map_starts_a_new_map_run(machine: Machine, jobs: Jobs) -> None:
    """R11: why the deployed Map has no Retry."""
    retry = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 0.01, "MaxAttempts": 1}]
    machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=json.dumps(definition(Retry=retry)))
    jobs.outcome = lambda key: "FAILED"
    arn = machine.start(keys(1))
    machine.ended(arn)
    assert len(machine.sfn.list_map_runs(executionArn=arn)["mapRuns"]) == 2
    machine.sfn.redrive_execution(executionArn=arn)
    machine.ended(arn)
    counts = [run["redriveCount"] for run in runs(machine, arn)]
    assert counts == [0, 1, 0], "newest first: the redriven one failed, and its retry is a third"
    assert len(jobs.all) == 4


@pytest.mark.parametrize(
    ("names", "error", "expected"),
    [
        (["A"], "A", True),
        (["States.ALL"], "A", True),
        (["States.ALL"], "States.Runtime", False),
        (["States.ALL"], "States.DataLimitExceeded", False),
        (["States.Runtime"], "States.Runtime", True),
        (["States.TaskFailed"], "Batch.ServerException", True),
        (["States.TaskFailed"], "States.Timeout", False),
        (["A"], "B", False),
        (["States.ALL"], None, True),
    ],
)
def test_which_errors_a_retrier_covers(names: list[str], error: str | None, expected: bool) -> None:
    assert matches(names, error) is expected


def test_delays_back_off_up_to_their_limit() -> None:
    retrier = {"ErrorEquals": ["A"], "IntervalSeconds": 2, "BackoffRate": 3, "MaxDelaySeconds": 10, "MaxAttempts": 3}
    retriers = Retriers([retrier])
    assert [retriers.delay_seconds("A") for _ in range(4)] == [2, 6, 10, None]
    assert retriers.delay_seconds("B") is None


def test_full_jitter_is_between_nothing_and_the_delay() -> None:
    retrier = {
        "ErrorEquals": ["A"],
        "IntervalSeconds": 8,
        "MaxAttempts": 99,
        "BackoffRate": 1,
        "JitterStrategy": "FULL",
    }
    retriers = Retriers([retrier], random.Random(1))
    delays = [retriers.delay_seconds("A") or 0 for _ in range(99)]
    assert all(0 <= delay <= 8 for delay in delays)
    assert max(delays) > 6
    assert min(delays) < 2
