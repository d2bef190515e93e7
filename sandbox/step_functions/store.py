"""All executions and Map Runs of one account and Region: started, found, listed, stopped, redriven, forgotten.

AWS: https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html (idempotent while the
same name and input run; a name is free again 90 days after its execution closed), API_StopExecution.html,
API_RedriveExecution.html.
Gaps of moto 5.2.5: CloudFormation fills another backend than its interpreter reads (models.py:291); an unnamed
execution is called "None"; ListMapRuns right after the start is a 500; a reset leaves threads running.
"""

from __future__ import annotations

import itertools
import logging
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from moto.stepfunctions.exceptions import (
    ExecutionAlreadyExists,
    ExecutionDoesNotExist,
    InvalidExecutionInput,
    ValidationException,
)

from sandbox.step_functions import clock, definition, distributed_map, json_text, status_events
from sandbox.step_functions.attempts import Attempt
from sandbox.step_functions.errors import ExecutionNotRedrivable, Halted, ResourceNotFound, StateFailed
from sandbox.step_functions.executions import Execution
from sandbox.step_functions.interpreter import LARGEST_PAYLOAD_BYTES, Interpreter
from sandbox.step_functions.map_runs import MapRun
from sandbox.step_functions.places import Place

NAME_TAKEN_FOR = timedelta(days=90)
SECONDS_TO_LET_GO = 10
_log = logging.getLogger(__name__)


class Store:
    """One per moto backend; thrown away, threads and all, when moto is reset."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.RLock()
        self._executions: dict[str, Execution] = {}
        self._map_runs: dict[str, MapRun] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._timers: dict[str, threading.Timer] = {}
        self._numbers = itertools.count(1)

    def start(self, machine: Any, name: str | None, text: str) -> Execution:
        """StartExecution, of a state machine as moto keeps it."""
        _check_input(text)
        program = definition.read(machine.definition)
        name = name or str(uuid.uuid4())
        arn = self.place.arn("execution", machine.name, name)
        with self._lock:
            known = self._executions.get(arn)
            if known is not None:
                if known.status == "RUNNING" and known.input == text:
                    return known
                if known.stop_date is None or clock.now() - known.stop_date < NAME_TAKEN_FOR:
                    raise ExecutionAlreadyExists(f"Execution Already Exists: '{arn}'")
            execution = Execution(
                name=name,
                arn=arn,
                number=self.next_number(),
                place=self.place,
                program=program,
                definition=machine.definition,
                state_machine_arn=machine.arn,
                state_machine_name=machine.name,
                role_arn=machine.roleArn,
                input=text,
                start_date=clock.now(),
            )
            self._executions[arn] = execution
            execution.history.add(
                "ExecutionStarted",
                {"input": text, "inputDetails": {"truncated": False}, "roleArn": machine.roleArn},
            )
            self._begin(execution, execution.attempt)
        return execution

    def stop(self, arn: str, error: str | None, cause: str | None) -> Execution:
        """StopExecution: ABORTED at once; a Map Run below ends its children and writes its results after that."""
        execution = self.execution(arn)
        attempt = execution.attempt
        ended = execution.end(attempt, "ABORTED", error=error, cause=cause)
        attempt.halt() if ended else None
        if ended and execution.map_run_arn is None:  # a child's own thread tells of it
            status_events.publish(execution)
        return execution

    def redrive(self, arn: str) -> Execution:
        """RedriveExecution: the same execution goes on, once whatever its last attempt still does is done."""
        execution = self.execution(arn)
        with self._lock:
            if execution.map_run_arn is not None:
                raise ExecutionNotRedrivable(f"Execution '{arn}' is a child: redrive the execution of its Map Run")
            status, reason = execution.redrivability()
            if status != "REDRIVABLE":
                raise ExecutionNotRedrivable(f"Execution is not redrivable: '{reason}'")
            self._begin(execution, execution.reopen())
        return execution

    def execution(self, arn: str) -> Execution:
        found = self._executions.get(arn)
        if found is None:
            raise ExecutionDoesNotExist(f"Execution Does Not Exist: '{arn}'")
        return found

    def executions_of(self, machine_arn: str) -> list[Execution]:
        """Newest first."""
        with self._lock:
            return [x for x in reversed(self._executions.values()) if x.state_machine_arn == machine_arn]

    def children_of(self, map_run_arn: str) -> list[Execution]:
        """Newest first."""
        run = self.map_run(map_run_arn)
        with run.changed:
            return sorted(run.children.values(), key=lambda child: -child.number)

    def map_run(self, arn: str) -> MapRun:
        found = self._map_runs.get(arn)
        if found is None:
            raise ResourceNotFound(f"Resource not found: '{arn}'")
        return found

    def map_runs_of(self, execution_arn: str) -> list[MapRun]:
        """Newest first."""
        self.execution(execution_arn)
        return [run for run in reversed(list(self._map_runs.values())) if run.execution_arn == execution_arn]

    def add_map_run(self, run: MapRun) -> None:
        with self._lock:
            self._map_runs[run.arn] = run

    def add_child(self, child: Execution) -> None:
        with self._lock:
            self._executions[child.arn] = child

    def next_number(self) -> int:
        return next(self._numbers)

    def forget(self) -> None:
        """Moto is reset: every thread lets go, writes nothing more, and is waited for."""
        with self._lock:
            executions, threads = list(self._executions.values()), list(self._threads.values())
            for execution in executions:
                execution.attempt.halt(forget=True)
            for timer in self._timers.values():
                timer.cancel()
            self._executions, self._map_runs, self._timers = {}, {}, {}
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(SECONDS_TO_LET_GO)

    def running(self) -> Iterator[threading.Thread]:
        return (thread for thread in list(self._threads.values()) if thread.is_alive())

    def _begin(self, execution: Execution, attempt: Attempt) -> None:
        status_events.publish(execution)
        before = self._threads.get(execution.arn)
        thread = threading.Thread(
            target=self._work, args=(execution, attempt, before), name=f"execution {execution.name}", daemon=True
        )
        self._threads[execution.arn] = thread
        if execution.program.timeout_seconds is not None:
            timer = threading.Timer(execution.program.timeout_seconds, self._time_out, (execution, attempt))
            timer.daemon = True
            self._timers[execution.arn] = timer
            timer.start()
        thread.start()

    def _work(self, execution: Execution, attempt: Attempt, before: threading.Thread | None) -> None:
        """An execution's thread."""
        if before is not None:
            before.join()
        ending: dict[str, Any] | None = None
        try:
            output = Interpreter(execution, attempt, distributed_map.runner(self)).run()
            ending = {"status": "SUCCEEDED", "output": output}
        except StateFailed as failure:
            ending = {"status": "FAILED", "error": failure.error, "cause": failure.cause}
        except Halted:
            pass  # whoever halted it has said how it ended
        except Exception as error:  # noqa: BLE001 the thread's outermost edge
            _log.exception("the sandbox failed in %s", execution.arn)
            ending = {"status": "FAILED", "error": "States.Runtime", "cause": repr(error)}
        if ending is not None and execution.end(attempt, **ending):
            status_events.publish(execution)
        with self._lock:
            if self._threads.get(execution.arn) is threading.current_thread():
                del self._threads[execution.arn]
            if execution.attempt is attempt and (timer := self._timers.pop(execution.arn, None)):
                timer.cancel()

    def _time_out(self, execution: Execution, attempt: Attempt) -> None:
        if execution.end(attempt, "TIMED_OUT"):
            attempt.halt()
            status_events.publish(execution)


def _check_input(text: str) -> None:
    try:
        json_text.parse(text)
    except ValueError as error:
        raise InvalidExecutionInput(f"Invalid State Machine Execution Input: '{error}'") from error
    if json_text.size_bytes(text) > LARGEST_PAYLOAD_BYTES:
        raise ValidationException(
            "1 validation error detected: Value at 'input' failed to satisfy constraint: "
            f"Member must have length less than or equal to {LARGEST_PAYLOAD_BYTES}"
        )
