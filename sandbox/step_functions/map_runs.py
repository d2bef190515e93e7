"""Map Runs: the items of a Distributed Map, their children, the counts, the cap and the tolerance.

AWS: https://docs.aws.amazon.com/step-functions/latest/apireference/API_DescribeMapRun.html, API_UpdateMapRun.html,
https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html#maprun-fail-threshold (failed and
timed out, divided by *all* items, must exceed the threshold) and
https://docs.aws.amazon.com/step-functions/latest/dg/redrive-map-run.html.
Gaps of moto 5.2.5: a tolerance is recorded and never applied, UpdateMapRun sets an event that nobody watches
(distributed_iteration_component.py), nothing is ever pending, a redrive does not exist.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from fractions import Fraction
from typing import Any

from sandbox.step_functions import clock
from sandbox.step_functions.executions import UNSUCCESSFUL, Execution
from sandbox.step_functions.places import Place

UNLIMITED = 10_000
"""What a cap of 0 means."""


class MapRun:
    """All state is guarded by `changed`, which wakes the scheduler of `distributed_map`."""

    def __init__(self, *, place: Place, execution: Execution, label: str) -> None:
        self.id = uuid.uuid3(uuid.UUID(int=uuid.uuid4().int), execution.arn)
        self.place = place
        self.execution_arn = execution.arn
        self.state_machine_arn = execution.state_machine_arn
        self.child_machine_name = f"{execution.state_machine_name}/{label}"
        self.arn = place.arn("mapRun", self.child_machine_name, str(self.id))
        self.child_machine_arn = place.arn("stateMachine", self.child_machine_name)
        self.changed = threading.Condition()
        self.max_concurrency = 0
        self.tolerated_percentage: float = 0
        self.tolerated_count = 0
        self.status = "RUNNING"
        self.start_date = clock.now()
        self.stop_date: datetime | None = None
        self.redrive_count = 0
        self.redrive_date: datetime | None = None
        self.error: str | None = None
        self.items: list[Any] | None = None
        self.children: dict[int, Execution] = {}
        """By the item's index, in the order of their start."""
        self.attempted: set[int] = set()
        """Indices that the present redrive, or the first attempt, has started."""
        self.results_written = 0
        self.succeeded_files: list[dict[str, Any]] = []
        self.next_file: Counter[str] = Counter()
        """Per status, the index of its next result file."""
        self.input_of: Callable[[int], str] = lambda index: ""
        """A child's input before it is started."""
        self._before_redrive: dict[int, str] = {}
        self._counts: Counter[str] = Counter()

    def child_name(self, index: int) -> str:
        return str(uuid.uuid3(self.id, str(index)))

    def child_arn(self, index: int) -> str:
        return self.place.arn("execution", self.child_machine_name, self.child_name(index))

    def configure(self, *, max_concurrency: int, tolerated_percentage: float, tolerated_count: int) -> None:
        """The cap and tolerance, at the start, at a redrive (the original input's) or from UpdateMapRun."""
        with self.changed:
            self.max_concurrency = max_concurrency
            self.tolerated_percentage = tolerated_percentage
            self.tolerated_count = tolerated_count
            self.changed.notify_all()

    def room(self) -> int:
        """How many children may start now; negative after the cap was lowered. Call with `changed` held."""
        return (self.max_concurrency or UNLIMITED) - self._counts["RUNNING"]

    def breached(self) -> bool:
        """Whether more items failed than is tolerated. Call with `changed` held."""
        failed = self._counts["FAILED"] + self._counts["TIMED_OUT"]
        return breached(failed, len(self.items or ()), self.tolerated_percentage, self.tolerated_count)

    def moved(self, index: int, child: Execution, status: str) -> None:
        """Count a child's change of status. Call with `changed` held."""
        if index in self.children:
            self._counts[child.status] -= 1
        self.children[index] = child
        child.status = status
        self._counts[status] += 1

    def recount(self, before: str, after: str) -> None:
        """Count a change that was made elsewhere. Call with `changed` held."""
        self._counts[before] -= 1
        self._counts[after] += 1
        self.changed.notify_all()

    def redrive(self) -> None:
        """Open the run again: unsuccessful children wait for their redrive; those closed too long ago stay."""
        with self.changed:
            self.redrive_count += 1
            self.redrive_date, self.status, self.stop_date, self.error = clock.now(), "RUNNING", None, None
            self.results_written, self.attempted, self._before_redrive = 0, set(), {}
            for index, child in self.children.items():
                if child.status in UNSUCCESSFUL and child.redrivability()[0] == "REDRIVABLE":
                    self._before_redrive[index] = child.status
                    self.moved(index, child, "PENDING_REDRIVE")

    def unstarted(self) -> Iterable[int]:
        """Indices that this attempt has to work on, in the list's order."""
        children = self.children
        return (
            index
            for index in range(len(self.items or ()))
            if index not in children or children[index].status == "PENDING_REDRIVE"
        )

    def close(self, status: str, error: str | None = None) -> None:
        """The run is over; what still waited for its redrive is again what it was."""
        with self.changed:
            for index, earlier in self._before_redrive.items():
                if self.children[index].status == "PENDING_REDRIVE":
                    self.moved(index, self.children[index], earlier)
            self._before_redrive = {}
            self.stop_date, self.error, self.status = clock.now(), error, status

    def counts(self) -> dict[str, int]:
        with self.changed:
            total, count = len(self.items or ()), self._counts
            stuck = 0
            if self.redrive_count or self.status != "RUNNING":
                stuck = sum(
                    child.status in UNSUCCESSFUL and child.redrivability()[0] != "REDRIVABLE"
                    for child in self.children.values()
                )
            return {
                "pending": total - len(self.children),
                "running": count["RUNNING"],
                "succeeded": count["SUCCEEDED"],
                "failed": count["FAILED"],
                "timedOut": count["TIMED_OUT"],
                "aborted": count["ABORTED"],
                "total": total,
                "resultsWritten": self.results_written,
                "failuresNotRedrivable": stuck,
                "pendingRedrive": count["PENDING_REDRIVE"],
            }

    def describe(self) -> dict[str, Any]:
        """DescribeMapRun's answer; an item is a child, as there are no batches."""
        counts = self.counts()
        answer = {
            "mapRunArn": self.arn,
            "executionArn": self.execution_arn,
            "status": self.status,
            "startDate": self.start_date,
            "stopDate": self.stop_date,
            "maxConcurrency": self.max_concurrency,
            "toleratedFailurePercentage": float(self.tolerated_percentage),
            "toleratedFailureCount": self.tolerated_count,
            "itemCounts": counts,
            "executionCounts": counts,
            "redriveCount": self.redrive_count,
            "redriveDate": self.redrive_date,
        }
        return {key: value for key, value in answer.items() if value is not None}

    def listed(self) -> dict[str, Any]:
        """An entry of ListMapRuns."""
        answer = {
            "executionArn": self.execution_arn,
            "mapRunArn": self.arn,
            "stateMachineArn": self.child_machine_arn,
            "startDate": self.start_date,
            "stopDate": self.stop_date,
        }
        return {key: value for key, value in answer.items() if value is not None}


def breached(failed: int, total: int, percentage: float, count: int) -> bool:
    """R15: more than the percentage of all items, or more than the count; with neither given, any failure.

    A percentage of 0 beside a count means that only the count was given.
    """
    if count > 0 and failed > count:
        return True
    if percentage > 0 or count <= 0:
        return failed * 100 > Fraction(str(percentage)) * total
    return False
