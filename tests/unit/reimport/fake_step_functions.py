"""Step Functions as far as the operator's code asks it, in memory, with AWS's answers and error codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:dev-hawk-eval-log-reimport"
START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
PAGE = 100


class FakeStepFunctions:
    """A client with executions, Map Runs and children that tests put there."""

    def __init__(self) -> None:
        self.executions: dict[str, dict[str, Any]] = {}
        self.map_runs: dict[str, dict[str, Any]] = {}
        self.children: dict[str, list[dict[str, Any]]] = {}
        self.definition = '{"StartAt": "now"}'
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def add(self, name: str, status: str = "SUCCEEDED", input_: Any = None, **more: Any) -> str:
        arn = execution_arn(name)
        started = START + timedelta(minutes=len(self.executions))
        self.executions[arn] = {
            "executionArn": arn,
            "stateMachineArn": MACHINE,
            "name": name,
            "status": status,
            "startDate": started,
            "input": json.dumps({"list_key": f"lists/{name}.json"} if input_ is None else input_),
            "redriveCount": 0,
            **({} if status == "RUNNING" else {"stopDate": started + timedelta(minutes=10)}),
            **more,
        }
        return arn

    def add_map_run(self, execution: str, id_: str, status: str = "SUCCEEDED", **more: Any) -> str:
        arn = f"{MACHINE.replace(':stateMachine:', ':mapRun:')}/Reimport:{id_}"
        counts = dict.fromkeys(("pending", "running", "succeeded", "failed", "timedOut", "aborted"), 0)
        counts |= more.pop("counts", {})
        counts.setdefault("total", sum(counts.values()))
        self.map_runs[arn] = {
            "mapRunArn": arn,
            "executionArn": execution,
            "status": status,
            "startDate": self.executions[execution]["startDate"],
            "maxConcurrency": 8,
            "toleratedFailurePercentage": 0.5,
            "itemCounts": {**counts, "resultsWritten": 0},
            "redriveCount": 0,
            **({} if status == "RUNNING" else {"stopDate": self.executions[execution]["startDate"]}),
            **more,
        }
        return arn

    def _log(self, call: str, **arguments: Any) -> None:
        self.calls.append((call, arguments))

    def describe_execution(self, executionArn: str) -> dict[str, Any]:  # noqa: N803
        for found in (*self.executions.values(), *(c for cs in self.children.values() for c in cs)):
            if found["executionArn"] == executionArn:
                return found
        raise client_error("ExecutionDoesNotExist", "DescribeExecution")

    def list_map_runs(self, executionArn: str) -> dict[str, Any]:  # noqa: N803
        return {"mapRuns": [m for m in self.map_runs.values() if m["executionArn"] == executionArn]}

    def describe_map_run(self, mapRunArn: str) -> dict[str, Any]:  # noqa: N803
        return self.map_runs[mapRunArn]

    def update_map_run(self, mapRunArn: str, maxConcurrency: int) -> None:  # noqa: N803
        self._log("update_map_run", maxConcurrency=maxConcurrency)
        self.map_runs[mapRunArn]["maxConcurrency"] = maxConcurrency

    def start_execution(self, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: A002, N803
        self._log("start_execution", name=name, input=json.loads(input))
        existing = self.executions.get(execution_arn(name))
        if existing and not (existing["status"] == "RUNNING" and existing["input"] == input):
            raise client_error("ExecutionAlreadyExists", "StartExecution")
        return {"executionArn": existing["executionArn"] if existing else self.add(name, "RUNNING", json.loads(input))}

    def stop_execution(self, executionArn: str, error: str, cause: str) -> None:  # noqa: N803
        self._log("stop_execution", cause=cause)
        self.executions[executionArn] |= {"status": "ABORTED", "error": error, "cause": cause, "stopDate": START}

    def redrive_execution(self, executionArn: str) -> None:  # noqa: N803
        self._log("redrive_execution", arn=executionArn)

    def describe_state_machine(self, stateMachineArn: str) -> dict[str, Any]:  # noqa: N803
        return {"definition": self.definition}

    def describe_state_machine_for_execution(self, executionArn: str) -> dict[str, Any]:  # noqa: N803
        return {"definition": self.executions[executionArn].get("definition", '{ "StartAt" : "now" }')}

    def get_paginator(self, call: str) -> Any:
        return _Paginator(self, call)

    def pages(self, call: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if call == "list_map_runs":
            yield self.list_map_runs(**arguments)
            return
        assert call == "list_executions"
        if "mapRunArn" in arguments:
            assert "stateMachineArn" not in arguments  # AWS takes one of them
            found = self.children.get(arguments["mapRunArn"], [])
        else:
            found = sorted(self.executions.values(), key=lambda e: e["startDate"], reverse=True)
        found = [e for e in found if arguments.get("statusFilter") in (None, e["status"])]
        for start in range(0, max(1, len(found)), PAGE):
            yield {"executions": found[start : start + PAGE]}


class _Paginator:
    def __init__(self, fake: FakeStepFunctions, call: str) -> None:
        self._fake, self._call = fake, call

    def paginate(self, **arguments: Any) -> Iterator[dict[str, Any]]:
        return self._fake.pages(self._call, arguments)


def execution_arn(name: str) -> str:
    return f"{MACHINE.replace(':stateMachine:', ':execution:')}:{name}"


def client_error(code: str, operation: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)  # type: ignore[typeddict-item]
