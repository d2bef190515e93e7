"""The Distributed Map: starts a child execution per item, no more at once than the cap, until all ended or too many
failed.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html (children are executions of
their own; they see neither the parent's variables nor its execution id) and
https://docs.aws.amazon.com/step-functions/latest/dg/redrive-map-run.html (same Map Run, original input, unsuccessful
children from the state they failed in, a new Map Run only after States.DataLimitExceeded or States.Runtime).
Gaps of moto 5.2.5: children see the parent's variables and execution id (eval/environment.py), which would hide a
failure on AWS; the cap is read once, when the workers start; stop leaves the Map Run alone;
redrive and results are missing.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from sandbox.step_functions import clock, item_reader, status_events
from sandbox.step_functions.attempts import Attempt
from sandbox.step_functions.definition import processor
from sandbox.step_functions.errors import Halted, StateFailed
from sandbox.step_functions.executions import Execution, Position
from sandbox.step_functions.expressions import evaluate, evaluate_as
from sandbox.step_functions.interpreter import Interpreter, encoded
from sandbox.step_functions.map_runs import MapRun
from sandbox.step_functions.result_files import ResultWriter

if TYPE_CHECKING:
    from sandbox.step_functions.store import Store

MOST_THREADS = 256
"""Children at once, whatever the cap: a laptop is not AWS."""
_STARTS_ANEW = ("States.DataLimitExceeded", "States.Runtime")
_log = logging.getLogger(__name__)


class DistributedMap:
    """One visit to a Distributed Map state."""

    def __init__(self, store: Store, parent: Interpreter, state: dict[str, Any], position: Position) -> None:
        self._store = store
        self._parent = parent
        self._state = state
        self._position = position
        self._program = processor(state)
        self._threads: dict[int, threading.Thread] = {}
        self._attempts: dict[int, Attempt] = {}

    def run(self) -> Any:
        """The map's output: where the results are, or without a ResultWriter the children's outputs."""
        settings = self._settings()
        source = self._source()
        run = self._open(settings)
        writer = self._writer(run)
        attempt = self._parent.attempt
        attempt.on_halt(lambda: self._wake(run))
        try:
            if writer is not None:
                writer.check()
            if run.items is None:
                run.items = source if isinstance(source, list) else item_reader.read(run.place, **source)
            exceeded = self._work(run)
            if attempt.forgotten:
                raise Halted
            output = writer.write() if writer is not None else self._outputs(run)
            if attempt.halted:
                self._record("MapRunAborted", None)
                run.close("ABORTED")
                raise Halted
            if exceeded:
                raise StateFailed(
                    "States.ExceedToleratedFailureThreshold", "The specified tolerated failure threshold was exceeded"
                )
        except Halted:
            raise
        except Exception as error:  # whatever it is, a Map Run that is over does not stay RUNNING
            failure = error if isinstance(error, StateFailed) else StateFailed("States.Runtime", repr(error))
            self._record("MapRunFailed", {"error": failure.error, "cause": failure.cause})
            run.close("FAILED", failure.error)
            raise
        self._record("MapRunSucceeded", None)
        run.close("SUCCEEDED")
        return output

    def _settings(self) -> dict[str, Any]:
        state, scope = self._state, self._parent.scope(self._position)
        cap = evaluate_as(int, state.get("MaxConcurrency", 0), scope, "MaxConcurrency")
        count = evaluate_as(int, state.get("ToleratedFailureCount", 0), scope, "ToleratedFailureCount")
        percentage = evaluate_as(
            (int, float), state.get("ToleratedFailurePercentage", 0), scope, "ToleratedFailurePercentage"
        )
        if cap < 0 or count < 0 or not 0 <= percentage <= 100:
            raise StateFailed(
                "States.QueryEvaluationError",
                f"MaxConcurrency {cap}, ToleratedFailureCount {count} or ToleratedFailurePercentage {percentage} "
                "is out of its range.",
            )
        return {"max_concurrency": cap, "tolerated_percentage": percentage, "tolerated_count": count}

    def _source(self) -> Any:
        """Bucket and key of the list, or the items themselves."""
        scope = self._parent.scope(self._position)
        if reader := self._state.get("ItemReader"):
            bucket = evaluate_as(str, reader["Arguments"]["Bucket"], scope, "ItemReader/Arguments/Bucket")
            key = evaluate_as(str, reader["Arguments"]["Key"], scope, "ItemReader/Arguments/Key")
            return {"bucket": bucket, "key": key}
        return evaluate_as(list, self._state.get("Items", self._position.input), scope, "Items")

    def _open(self, settings: dict[str, Any]) -> MapRun:
        """The Map Run of this visit: at a redrive the one there was, unless it failed in a way that starts anew."""
        run = self._position.map_run
        if run is not None and run.error not in _STARTS_ANEW:
            run.redrive()
            run.configure(**settings)
            self._record("MapRunRedriven", {"mapRunArn": run.arn, "redriveCount": run.redrive_count})
        else:
            execution = self._parent.execution
            run = MapRun(
                place=execution.place, execution=execution, label=self._state.get("Label", self._position.state)
            )
            run.configure(**settings)
            self._store.add_map_run(run)
            position = Position(
                state=self._position.state, input=self._position.input, variables=self._position.variables, map_run=run
            )
            self._parent.moved(position)
            self._record("MapRunStarted", {"mapRunArn": run.arn})
        run.input_of = lambda index: self._unstarted_input(run, index)
        return run

    def _writer(self, run: MapRun) -> ResultWriter | None:
        if "ResultWriter" not in self._state:
            return None
        scope = self._parent.scope(self._position)
        arguments = evaluate(self._state["ResultWriter"].get("Arguments", {}), scope, "ResultWriter/Arguments")
        return ResultWriter(run, arguments["Bucket"], arguments.get("Prefix"))

    def _work(self, run: MapRun) -> bool:
        """Start children until all ended; True when more failed than is tolerated. Leaves no thread."""
        todo, attempt = deque(run.unstarted()), self._parent.attempt
        try:
            while True:
                with run.changed:
                    exceeded = run.breached()
                    if exceeded or attempt.halted:
                        break
                    if not todo and not self._attempts:
                        return False
                    if not todo or run.room() <= 0 or len(self._attempts) >= MOST_THREADS:
                        run.changed.wait()
                        continue
                self._start(run, todo.popleft())
        finally:
            with run.changed:
                working = list(self._attempts.values())
            for child_attempt in working:
                child_attempt.halt(forget=attempt.forgotten)
            for thread in list(self._threads.values()):
                thread.join()
        with run.changed:
            return run.breached()

    def _start(self, run: MapRun, index: int) -> None:
        child = run.children.get(index)
        if child is None:
            child = self._child(run, index)
            attempt = child.attempt
            child.history.add(
                "ExecutionStarted",
                {"input": child.input, "inputDetails": {"truncated": False}, "roleArn": child.role_arn},
            )
            with run.changed:
                run.moved(index, child, "RUNNING")
        else:
            with run.changed:
                run.recount(child.status, "RUNNING")
                attempt = child.reopen()
        with run.changed:
            run.attempted.add(index)
            self._attempts[index] = attempt
        thread = threading.Thread(
            target=self._work_child, args=(run, index, child, attempt), name=f"child {child.name}", daemon=True
        )
        self._threads[index] = thread
        thread.start()

    def _child(self, run: MapRun, index: int) -> Execution:
        parent = self._parent.execution
        child = Execution(
            name=run.child_name(index),
            arn=run.child_arn(index),
            number=self._store.next_number(),
            place=parent.place,
            program=self._program,
            state_machine_arn=run.child_machine_arn,
            state_machine_name=run.child_machine_name,
            role_arn=parent.role_arn,
            input=self._input(run, index),
            start_date=clock.now(),
            map_run_arn=run.arn,
        )
        self._store.add_child(child)
        return child

    def _input(self, run: MapRun, index: int) -> str:
        """A child's input: the item, or what the ItemSelector makes of it, seen from the parent."""
        assert run.items is not None  # noqa: S101 (read before any child starts)
        item = run.items[index]
        if "ItemSelector" in self._state:
            scope = self._parent.item_scope(self._position, index, item)
            item = evaluate(self._state["ItemSelector"], scope, "ItemSelector")
        return encoded(item, self._position.state)

    def _unstarted_input(self, run: MapRun, index: int) -> str:
        """For the record of an item that was never started, whose input may not even be possible."""
        try:
            return self._input(run, index)
        except StateFailed:
            assert run.items is not None  # noqa: S101
            return json.dumps(run.items[index])

    def _work_child(self, run: MapRun, index: int, child: Execution, attempt: Attempt) -> None:
        """A child's thread."""
        ending: dict[str, Any] = {}
        try:
            status_events.publish(child)
            ending = {"status": "SUCCEEDED", "output": Interpreter(child, attempt).run()}
        except StateFailed as failure:
            ending = {"status": "FAILED", "error": failure.error, "cause": failure.cause}
        except Halted:
            ending = {"status": "ABORTED"}
        except Exception as error:  # noqa: BLE001 the thread's outermost edge
            _log.exception("the sandbox failed in %s", child.arn)
            ending = {"status": "FAILED", "error": "States.Runtime", "cause": repr(error)}
        finally:
            child.end(attempt, **ending)  # unless StopExecution ended it already
            if not attempt.forgotten:
                status_events.publish(child)
            with run.changed:
                self._attempts.pop(index)
                self._threads.pop(index)
                run.recount("RUNNING", child.status)

    @staticmethod
    def _outputs(run: MapRun) -> list[Any]:
        return [json.loads(run.children[index].output or "null") for index in sorted(run.children)]

    @staticmethod
    def _wake(run: MapRun) -> None:
        with run.changed:
            run.changed.notify_all()

    def _record(self, kind: str, details: dict[str, Any] | None) -> None:
        self._parent.execution.history.add(kind, details)


def runner(store: Store) -> Any:
    """What an interpreter calls at a Map state."""
    return lambda parent, state, position: DistributedMap(store, parent, state, position).run()
