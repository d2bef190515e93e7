"""Executions, of state machines and of a map's children: what the API tells of them, and whether they can be
redriven.

AWS: https://docs.aws.amazon.com/step-functions/latest/apireference/API_DescribeExecution.html (fields; the reasons
why one cannot be redriven) and https://docs.aws.amazon.com/step-functions/latest/dg/redrive-executions.html (14
days, event limit).
Gap of moto 5.2.5: no children, no redrive, an execution ended by its interpreter's error stays RUNNING for ever.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sandbox.step_functions import clock
from sandbox.step_functions.attempts import Attempt
from sandbox.step_functions.definition import Program
from sandbox.step_functions.history import LONGEST, History
from sandbox.step_functions.places import Place

if TYPE_CHECKING:
    from sandbox.step_functions.map_runs import MapRun

REDRIVABLE_FOR = timedelta(days=14)
UNSUCCESSFUL = frozenset({"FAILED", "TIMED_OUT", "ABORTED"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """The state that an execution is in, with what it was given; a redrive goes on from here."""

    state: str
    input: Any
    variables: dict[str, Any]
    map_run: MapRun | None = None
    """The Map Run that the state had started."""


@dataclass(kw_only=True, slots=True, eq=False)
class Execution:
    """One execution; the thread of its attempt changes it, the API reads it."""

    name: str
    arn: str
    number: int
    """Of its start, so that lists can be paged while executions are added."""
    place: Place
    program: Program
    state_machine_arn: str
    state_machine_name: str
    role_arn: str
    input: str
    start_date: datetime
    definition: str | None = None
    """The text that it runs, whatever is deployed later; None for a child."""
    map_run_arn: str | None = None
    status: str = "RUNNING"
    stop_date: datetime | None = None
    output: str | None = None
    error: str | None = None
    cause: str | None = None
    redrive_count: int = 0
    redrive_date: datetime | None = None
    position: Position | None = None
    attempt: Attempt = field(default_factory=Attempt)
    history: History = field(default_factory=History)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def end(
        self,
        attempt: Attempt,
        status: str,
        *,
        output: str | None = None,
        error: str | None = None,
        cause: str | None = None,
    ) -> bool:
        """Close the execution, once: False when it had ended, or this attempt is not its present one."""
        with self._lock:
            if self.status != "RUNNING" or self.attempt is not attempt or attempt.forgotten:
                return False
            details = {"output": output, "outputDetails": {"truncated": False}} if status == "SUCCEEDED" else None
            self.history.add(f"Execution{_EVENT_OF[status]}", details or {"error": error, "cause": cause})
            self.history.pack()
            if status == "SUCCEEDED":
                self.position = None
            self.output, self.error, self.cause = output, error, cause
            self.stop_date, self.status = clock.now(), status  # last: whoever sees it ended finds all of it
        return True

    def reopen(self) -> Attempt:
        """Begin a redrive: RUNNING again, under the same ARN, from where it ended."""
        with self._lock:
            self.status, self.stop_date, self.error, self.cause = "RUNNING", None, None, None
            self.redrive_count += 1
            self.redrive_date = clock.now()
            self.attempt = Attempt()
            self.history.add("ExecutionRedriven", {"redriveCount": self.redrive_count})
            return self.attempt

    def redrivability(self) -> tuple[str, str | None]:
        """`redriveStatus` and, when it cannot be redriven, the reason in AWS's words."""
        if self.status not in UNSUCCESSFUL and self.status != "PENDING_REDRIVE":
            return "NOT_REDRIVABLE", f"Execution is {self.status} and cannot be redriven"
        if self.stop_date is not None and clock.now() - self.stop_date > REDRIVABLE_FOR:
            return "NOT_REDRIVABLE", "Execution redrivable period exceeded"
        if self.history.count >= LONGEST - 1:
            return "NOT_REDRIVABLE", "Execution history event limit exceeded"
        return "REDRIVABLE", None

    def describe(self) -> dict[str, Any]:
        """DescribeExecution's answer."""
        status, reason = self.redrivability()
        answer = self.listed()
        answer |= {"input": self.input, "inputDetails": {"included": True}, "redriveStatus": status}
        if self.output is not None:
            answer |= {"output": self.output, "outputDetails": {"included": True}}
        answer |= {"error": self.error, "cause": self.cause, "redriveStatusReason": reason}
        return {key: value for key, value in answer.items() if value is not None}

    def listed(self) -> dict[str, Any]:
        """An entry of ListExecutions."""
        answer = {
            "executionArn": self.arn,
            "stateMachineArn": self.state_machine_arn,
            "name": self.name,
            "status": self.status,
            "startDate": self.start_date,
            "stopDate": self.stop_date,
            "mapRunArn": self.map_run_arn,
            "itemCount": None if self.map_run_arn is None else 1,
            "redriveCount": self.redrive_count,
            "redriveDate": self.redrive_date,
        }
        return {key: value for key, value in answer.items() if value is not None}


_EVENT_OF = {"SUCCEEDED": "Succeeded", "FAILED": "Failed", "ABORTED": "Aborted", "TIMED_OUT": "TimedOut"}
