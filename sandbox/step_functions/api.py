"""The API actions of executions and Map Runs, in place of those of moto's response class.

AWS: https://docs.aws.amazon.com/step-functions/latest/apireference/Welcome.html, page by page.
Gaps of moto 5.2.5: RedriveExecution is missing; StopExecution loses error and cause; ListExecutions knows no
mapRunArn and no redriveFilter; DescribeExecution no redrive fields; an unknown Map Run is a 500; UpdateMapRun takes
anything.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.stepfunctions.exceptions import InvalidArn, InvalidToken, ValidationException
from moto.stepfunctions.responses import StepFunctionResponse

from sandbox.step_functions import clock
from sandbox.step_functions.store import Store

MOST_RESULTS = 1000
_MAP_RUN_ARN = re.compile(r"arn:[^:]+:states:[^:]+:\d{12}:mapRun:[^:/]+/[^:]+:[0-9a-f-]{36}")
_DATA = ("input", "output", "parameters", "cause", "error")


class Actions(StepFunctionResponse):
    """Never made: `install` moves its methods into moto's class."""

    @property
    def _store(self) -> Store:
        return self.stepfunction_backend.sandbox_store

    def start_execution(self) -> ActionResult:
        backend, name = self.stepfunction_backend, self._get_param("name")
        if name is not None:
            backend._validate_name(name)
        machine_arn = self._get_param("stateMachineArn")
        if "/" in machine_arn:
            raise ValidationException("A qualified state machine ARN of a Distributed Map state cannot be started")
        machine = backend.describe_state_machine(machine_arn)
        execution = self._store.start(machine, name, self._get_param("input", "{}"))
        return ActionResult({"executionArn": execution.arn, "startDate": execution.start_date})

    def stop_execution(self) -> ActionResult:
        arn, error, cause = (self._get_param(key) for key in ("executionArn", "error", "cause"))
        self.stepfunction_backend._validate_execution_arn(arn)
        if len(error or "") > 256 or len(cause or "") > 32_768:
            raise ValidationException("error has at most 256 characters, cause at most 32768")
        return ActionResult({"stopDate": self._store.stop(arn, error, cause).stop_date or clock.now()})

    def redrive_execution(self) -> ActionResult:
        arn = self._get_param("executionArn")
        self.stepfunction_backend._validate_execution_arn(arn)
        return ActionResult({"redriveDate": self._store.redrive(arn).redrive_date})

    def describe_execution(self) -> ActionResult:
        arn = self._get_param("executionArn")
        self.stepfunction_backend._validate_execution_arn(arn)
        return ActionResult(self._store.execution(arn).describe())

    def describe_state_machine_for_execution(self) -> ActionResult:
        execution = self._store.execution(self._get_param("executionArn"))
        parent = execution
        if execution.map_run_arn is not None:
            parent = self._store.execution(self._store.map_run(execution.map_run_arn).execution_arn)
        answer = {
            "stateMachineArn": execution.state_machine_arn,
            "name": execution.state_machine_name,
            "definition": parent.definition,
            "roleArn": execution.role_arn,
            "updateDate": parent.start_date,
        }
        if execution.map_run_arn is not None:
            label = execution.state_machine_name.split("/", 1)[1]
            answer |= {"mapRunArn": execution.map_run_arn, "label": label}
        return ActionResult(answer)

    def list_executions(self) -> ActionResult:
        machine, run = self._get_param("stateMachineArn"), self._get_param("mapRunArn")
        status, redriven = self._get_param("statusFilter"), self._get_param("redriveFilter")
        if (machine is None) == (run is None):
            raise ValidationException("Either stateMachineArn or mapRunArn must be given, and not both")
        if run is None:
            if status == "PENDING_REDRIVE":
                raise ValidationException("The PENDING_REDRIVE filter needs a mapRunArn")
            found = self._store.executions_of(self.stepfunction_backend.describe_state_machine(machine).arn)
        else:
            found = self._store.children_of(_map_run_arn(run))
        if status is not None:
            found = [x for x in found if x.status == status]
        if redriven is not None:
            found = [x for x in found if (x.redrive_count > 0) == (redriven == "REDRIVEN")]
        page, token = self._page(found, lambda x: -x.number)
        return ActionResult({"executions": [x.listed() for x in page], "nextToken": token})

    def get_execution_history(self) -> ActionResult:
        events = self._store.execution(self._get_param("executionArn")).history.events()
        backwards = bool(self._get_param("reverseOrder"))
        if backwards:
            events.reverse()
        page, token = self._page(events, lambda event: -event["id"] if backwards else event["id"])
        if self._get_param("includeExecutionData", True) is False:
            page = [_without_data(event) for event in page]
        return ActionResult({"events": page, "nextToken": token})

    def list_map_runs(self) -> ActionResult:
        arn = self._get_param("executionArn")
        self.stepfunction_backend._validate_execution_arn(arn)
        runs = self._store.map_runs_of(arn)
        page, token = self._page(list(enumerate(runs)), lambda numbered: numbered[0])
        return ActionResult({"mapRuns": [run.listed() for _, run in page], "nextToken": token})

    def describe_map_run(self) -> ActionResult:
        return ActionResult(self._store.map_run(_map_run_arn(self._get_param("mapRunArn"))).describe())

    def update_map_run(self) -> ActionResult:
        run = self._store.map_run(_map_run_arn(self._get_param("mapRunArn")))
        cap, percentage, count = (
            self._get_param(key) for key in ("maxConcurrency", "toleratedFailurePercentage", "toleratedFailureCount")
        )
        if cap is None and percentage is None and count is None:
            raise ValidationException("At least one of the fields to update must be given")
        if (cap or 0) < 0 or (count or 0) < 0 or not 0 <= (percentage or 0) <= 100:
            raise ValidationException(
                "maxConcurrency and toleratedFailureCount must be at least 0, the percentage 0 to 100"
            )
        if run.status != "RUNNING":
            raise ValidationException(f"Map Run is {run.status} and cannot be updated: '{run.arn}'")
        run.configure(
            max_concurrency=run.max_concurrency if cap is None else cap,
            tolerated_percentage=run.tolerated_percentage if percentage is None else percentage,
            tolerated_count=run.tolerated_count if count is None else count,
        )
        return EmptyResult()

    def _page(self, found: Sequence[Any], place_of: Callable[[Any], int]) -> tuple[list[Any], str | None]:
        """A page of a list sorted by `place_of`. A token says after which place to go on: additions shift nothing."""
        most = self._get_param("maxResults") or 100
        if not 0 <= most <= MOST_RESULTS:
            raise ValidationException(f"maxResults must be at most {MOST_RESULTS}")
        if token := self._get_param("nextToken"):
            after = _place(token)
            found = [one for one in found if place_of(one) > after]
        page = list(found[:most])
        return page, _token(place_of(page[-1])) if len(found) > most else None


def _map_run_arn(arn: str) -> str:
    if not _MAP_RUN_ARN.fullmatch(arn):
        raise InvalidArn(f"Invalid Arn: '{arn}'")
    return arn


def _token(place: int) -> str:
    return base64.urlsafe_b64encode(f"after {place}".encode()).decode()


def _place(token: str) -> int:
    try:
        return int(base64.urlsafe_b64decode(token).decode().removeprefix("after "))
    except ValueError as error:
        raise InvalidToken(token) from error


def _without_data(event: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {k: v for k, v in value.items() if k not in _DATA} if isinstance(value, dict) else value
        for key, value in event.items()
    }


ACTIONS = tuple(name for name in vars(Actions) if not name.startswith("__"))
