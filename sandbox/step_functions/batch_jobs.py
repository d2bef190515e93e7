"""The task `batch:submitJob.sync`: submit a Batch job, wait for its end, terminate it when the execution is stopped.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/connect-batch.html. Errors of SubmitJob are
`Batch.<exception>`; a job that FAILED is States.TaskFailed whose Cause is the job's description in PascalCase, cut
at 32,768 characters (R14, R17); the task's result is that description. Submitted jobs carry the environment variable
MANAGED_BY_AWS. A stopped execution's jobs are terminated with the reason that AWS gives
(https://stackoverflow.com/questions/45596276).
Gaps of moto 5.2.5: it polls over HTTP twice a second (state_task_service_callback.py), terminates nothing, writes
the Cause with spaces and half in camelCase. Here the request goes to the very handler of the server's SubmitJob,
without HTTP, and the wait is for the job's own `ended` event (sandbox/batch_jobs.py).
"""

from __future__ import annotations

import functools
import json
from typing import Any

import botocore.session
import botocore.validate
from moto.batch.models import BatchBackend, batch_backends
from moto.batch.responses import BatchResponse
from moto.core.exceptions import JsonRESTError

from sandbox.step_functions import clock
from sandbox.step_functions.attempts import Attempt
from sandbox.step_functions.errors import Halted, StateFailed
from sandbox.step_functions.history import History
from sandbox.step_functions.places import Place

LOOK_SECONDS = 0.1
"""How soon a waiting task notices that it is stopped; a job's end wakes it at once."""
_MANAGED = {"name": "MANAGED_BY_AWS", "value": "STARTED_BY_STEP_FUNCTIONS"}


def run(
    arguments: Any,
    *,
    place: Place,
    execution_arn: str,
    attempt: Attempt,
    history: History,
    sync: bool,
    timeout_seconds: float | None,
) -> Any:
    """Submit the job that `arguments` (PascalCase) describe; with `sync` return its description once it SUCCEEDED."""
    resource = {"resourceType": "batch", "resource": "submitJob.sync" if sync else "submitJob"}
    history.add("TaskScheduled", {**resource, "region": place.region, "parameters": _compact(arguments)})
    history.add("TaskStarted", resource)
    backend = batch_backends[place.account][place.region]
    deadline = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
    try:
        submitted = _submit(backend, arguments)
    except StateFailed as failure:
        history.add("TaskSubmitFailed", {**resource, "error": failure.error, "cause": failure.cause})
        raise
    answer = pascal(submitted, _operation("SubmitJob").output_shape)
    history.add("TaskSubmitted", {**resource, "output": _compact(answer), "outputDetails": {"truncated": False}})
    if not sync:
        return answer
    job_id = submitted["jobId"]
    try:
        status = _wait(backend, job_id, attempt, deadline)
    except Halted:
        if not attempt.forgotten:
            _terminate(backend, job_id, execution_arn, "aborted")
        raise
    except StateFailed as failure:
        _terminate(backend, job_id, execution_arn, "timed out")
        history.add("TaskTimedOut", {**resource, "error": failure.error, "cause": failure.cause})
        raise
    job = _described(backend, job_id)
    if status == "FAILED":
        failed = StateFailed("States.TaskFailed", _compact(job))
        history.add("TaskFailed", {**resource, "error": failed.error, "cause": failed.cause})
        raise failed
    history.add("TaskSucceeded", {**resource, "output": _compact(job), "outputDetails": {"truncated": False}})
    return job


def _submit(backend: BatchBackend, arguments: Any) -> dict[str, Any]:
    shape = _operation("SubmitJob").input_shape
    request = camel(arguments, shape)
    report = botocore.validate.ParamValidator().validate(request, shape)
    if report.has_errors():
        raise StateFailed(
            "States.Runtime", f"The Arguments of batch:submitJob are not valid: {report.generate_report()}"
        )
    overrides = request.setdefault("containerOverrides", {})
    overrides["environment"] = [*overrides.get("environment", []), _MANAGED]
    try:
        answer: dict[str, Any] = json.loads(BatchResponse.submitjob(_Request(backend, request)))
    except JsonRESTError as error:
        raise StateFailed(f"Batch.{_exception(error)}", f"{error.message} (Service: AWSBatch)") from error
    return answer


class _Request:
    """What the handler of SubmitJob asks of an HTTP request."""

    def __init__(self, backend: BatchBackend, parameters: dict[str, Any]) -> None:
        self.batch_backend = backend
        self._parameters = parameters

    def _get_param(self, name: str, if_none: Any = None) -> Any:
        return self._parameters.get(name, if_none)


def _exception(error: JsonRESTError) -> str:
    """The exception's name as Step Functions reports it, the SDK for Java's: the base class is AWSBatchException."""
    name = str(error.error_type)
    return name if name.endswith("Exception") else f"{name}Exception"


def _wait(backend: BatchBackend, job_id: str, attempt: Attempt, deadline: float | None) -> str:
    while True:
        job = backend._jobs.get(job_id)
        if job is None:  # the server was reset
            attempt.halt(forget=True)
            raise Halted
        if job.ended.wait(LOOK_SECONDS):
            return str(getattr(job.status, "value", job.status))
        attempt.check()
        if deadline is not None and clock.monotonic() > deadline:
            raise StateFailed("States.Timeout")


def _terminate(backend: BatchBackend, job_id: str, execution_arn: str, why: str) -> None:
    reason = (
        f"The Task state in AWS Step Functions execution [{execution_arn}] which was managing this resource was {why}"
    )
    backend.terminate_job(job_id, reason)


def _described(backend: BatchBackend, job_id: str) -> Any:
    # not describe_jobs: moto's loops over a dictionary that other threads change
    job = json.loads(json.dumps(backend._jobs[job_id].describe()))
    return pascal(job, _operation("DescribeJobs").output_shape.members["jobs"].member)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@functools.cache
def _operation(name: str) -> Any:
    return botocore.session.get_session().get_service_model("batch").operation_model(name)


def camel(value: Any, shape: Any) -> Any:
    """PascalCase fields of an AWS structure as the API spells them; keys of maps (tags, parameters) stay."""
    return _renamed(value, shape, lambda name: name[:1].lower() + name[1:])


def pascal(value: Any, shape: Any) -> Any:
    """The API's fields in Step Functions' PascalCase and order; what the API does not have is left out."""
    return _renamed(value, shape, lambda name: name[:1].upper() + name[1:], known_only=True)


def _renamed(value: Any, shape: Any, rename: Any, known_only: bool = False) -> Any:
    if shape is None:
        return value
    if shape.type_name == "structure" and isinstance(value, dict):
        answer = {}
        for key, item in value.items():
            api_name = key[:1].lower() + key[1:]
            member = shape.members.get(api_name)
            if member is None and known_only:
                continue
            answer[rename(key)] = _renamed(item, member, rename, known_only)
        return dict(sorted(answer.items()))
    if shape.type_name == "list" and isinstance(value, list):
        return [_renamed(item, shape.member, rename, known_only) for item in value]
    if shape.type_name == "map" and isinstance(value, dict):
        return {key: _renamed(item, shape.value, rename, known_only) for key, item in value.items()}
    return value
