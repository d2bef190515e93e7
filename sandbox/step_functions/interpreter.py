"""Runs the states of a program for one execution: choices, tasks, failures, retriers, catchers, variables.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/workflow-states.html and, for redrives,
https://docs.aws.amazon.com/step-functions/latest/dg/redrive-executions.html (an execution goes on in the state that
did not end well, with that state's input; states that ended are not run again).
Gap of moto 5.2.5: its interpreter knows no redrive and no position to go on from, and shares one environment between a
map and its children. A child of three states costs 2 ms of processor time here, its history and events included.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sandbox.step_functions import batch_jobs, clock, json_text
from sandbox.step_functions.attempts import Attempt
from sandbox.step_functions.definition import SUBMIT_JOB_SYNC
from sandbox.step_functions.errors import StateFailed, matches
from sandbox.step_functions.executions import Execution, Position
from sandbox.step_functions.expressions import evaluate, evaluate_as
from sandbox.step_functions.retry import Retriers

LARGEST_PAYLOAD_BYTES = 256 * 1024
"""Of a state's input or output, as UTF-8."""

RunMap = Callable[["Interpreter", dict[str, Any], Position], Any]


def encoded(value: Any, what: str) -> str:
    """A payload as compact JSON, refused when Step Functions would not carry it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if json_text.size_bytes(text) > LARGEST_PAYLOAD_BYTES:
        raise StateFailed(
            "States.DataLimitExceeded",
            f"The state/task {what} returned a result with a size exceeding the maximum number of bytes service limit.",
        )
    return text


class Interpreter:
    """Runs one attempt of one execution, in the thread that calls `run`."""

    def __init__(self, execution: Execution, attempt: Attempt, run_map: RunMap | None = None) -> None:
        self.execution = execution
        self.attempt = attempt
        self._run_map = run_map
        self._context: dict[str, Any] = {
            "Execution": {
                "Id": execution.arn,
                "Input": json.loads(execution.input),
                "Name": execution.name,
                "RoleArn": execution.role_arn,
                "StartTime": clock.iso(execution.start_date),
                "RedriveCount": execution.redrive_count,
            },
            "StateMachine": {"Id": execution.state_machine_arn, "Name": execution.state_machine_name},
        }
        if execution.redrive_date is not None:
            self._context["Execution"]["RedriveTime"] = clock.iso(execution.redrive_date)

    def run(self) -> str:
        """To the end of the program; returns the output as JSON. Raises StateFailed or Halted."""
        program, execution = self.execution.program, self.execution
        resumed = execution.position
        if resumed is None:
            execution.position = Position(
                state=program.start_at, input=self._context["Execution"]["Input"], variables={}
            )
        while True:
            self.attempt.check()
            position = execution.position
            assert position is not None  # noqa: S101 (set above, and by each transition below)
            state = program.states[position.state]
            self._context["State"] = {"EnteredTime": clock.iso(clock.now()), "Name": position.state, "RetryCount": 0}
            kind = state["Type"]
            if position is not resumed:  # a redriven state was entered long ago
                entered = {"name": position.state, "input": encoded(position.input, position.state)}
                self._record(f"{kind}StateEntered", {**entered, "inputDetails": {"truncated": False}}, "stateEntered")
            output, following, assigned = self._visit(state, position)
            text = encoded(output, position.state)
            details = {"name": position.state, "output": text, "outputDetails": {"truncated": False}}
            self._record(f"{kind}StateExited", details, "stateExited")
            if following is None:
                return text
            execution.position = Position(state=following, input=output, variables={**position.variables, **assigned})

    def scope(self, position: Position, **states: Any) -> dict[str, Any]:
        """What expressions of the state see: `$states` and the execution's own variables."""
        return {**position.variables, "states": {"input": position.input, "context": self._context, **states}}

    def item_scope(self, position: Position, index: int, item: Any) -> dict[str, Any]:
        """The scope of an ItemSelector: that of the map, with the item in the context."""
        context = {**self._context, "Map": {"Item": {"Index": index, "Value": item}}}
        return {**position.variables, "states": {"input": position.input, "context": context}}

    def moved(self, position: Position) -> None:
        self.execution.position = position

    def _visit(self, state: dict[str, Any], position: Position) -> tuple[Any, str | None, dict[str, Any]]:
        """Run a state, retried and caught as it says: its output, the next state's name, and what it assigns."""
        retriers = Retriers(state.get("Retry", []))
        while True:
            try:
                return self._act(state, position)
            except StateFailed as failure:
                failure = self._explained(failure, position.state)
                delay = retriers.delay_seconds(failure.error)
                if delay is not None:
                    self._context["State"]["RetryCount"] = retriers.count
                    position = replace(position, map_run=None)  # a retried map starts a new Map Run
                    self.moved(position)
                    self.attempt.wait(delay)
                    continue
                for catcher in state.get("Catch", []):
                    if matches(catcher["ErrorEquals"], failure.error):
                        problem = {"Error": failure.error, "Cause": failure.cause}
                        caught = {key: value for key, value in problem.items() if value is not None}
                        return self._left(catcher, self.scope(position, errorOutput=caught), caught, catcher["Next"])
                raise failure from None

    def _act(self, state: dict[str, Any], position: Position) -> tuple[Any, str | None, dict[str, Any]]:
        kind, scope = state["Type"], self.scope(position)
        following = state.get("Next")
        if kind == "Choice":
            return self._choose(state, position)
        if kind == "Fail":
            raise StateFailed(
                *(evaluate_as(str, state[key], scope, key) if key in state else None for key in ("Error", "Cause"))
            )
        if kind == "Wait":
            seconds = evaluate_as((int, float), state["Seconds"], scope, "Seconds")
            self.attempt.wait(max(0.0, float(seconds)))
        if kind == "Task":
            result = self._task(state, scope)
            return self._left(state, self.scope(position, result=result), result, following)
        if kind == "Map":
            assert self._run_map is not None  # noqa: S101 (a definition with a map in a map is refused)
            result = self._run_map(self, state, position)
            return self._left(state, self.scope(position, result=result), result, following)
        return self._left(state, scope, position.input, following)

    def _choose(self, state: dict[str, Any], position: Position) -> tuple[Any, str | None, dict[str, Any]]:
        scope = self.scope(position)
        for index, rule in enumerate(state["Choices"]):
            if evaluate_as(bool, rule["Condition"], scope, f"Choices[{index}]/Condition"):
                return self._left(rule, scope, position.input, rule["Next"])
        if "Default" not in state:
            raise StateFailed("States.NoChoiceMatched", "No choice rule matched, and the state has no Default.")
        return self._left(state, scope, position.input, state["Default"])

    def _left(
        self, says: dict[str, Any], scope: dict[str, Any], result: Any, following: str | None
    ) -> tuple[Any, str | None, dict[str, Any]]:
        """Output and Assign of a state, choice rule or catcher: both see the variables as they were before."""
        assigned = evaluate(says.get("Assign", {}), scope, "Assign")
        output = evaluate(says["Output"], scope, "Output") if "Output" in says else result
        return output, following, assigned

    def _task(self, state: dict[str, Any], scope: dict[str, Any]) -> Any:
        timeout = None
        if "TimeoutSeconds" in state:
            timeout = evaluate_as(int, state["TimeoutSeconds"], scope, "TimeoutSeconds")
        return batch_jobs.run(
            evaluate(state.get("Arguments", {}), scope, "Arguments"),
            place=self.execution.place,
            execution_arn=self.execution.arn,
            attempt=self.attempt,
            history=self.execution.history,
            sync=state["Resource"] == SUBMIT_JOB_SYNC,
            timeout_seconds=timeout,
        )

    def _explained(self, failure: StateFailed, name: str) -> StateFailed:
        if failure.error != "States.QueryEvaluationError":
            return failure
        cause = f"An error occurred while executing the state '{name}'. {failure.cause}"
        self._record("EvaluationFailed", {"error": failure.error, "cause": cause, "state": name}, "evaluationFailed")
        return StateFailed(failure.error, cause)

    def _record(self, kind: str, details: dict[str, Any], of: str) -> None:
        self.execution.history.add(kind, details, of=of)
