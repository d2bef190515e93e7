"""AWS Batch: what SubmitJob takes and refuses, which revision of a definition it means, and jobs that really run.

Sources: API_SubmitJob, API_RegisterJobDefinition, API_DescribeJobs, API_ListJobs, API_TerminateJob, API_CancelJob of
the AWS Batch API reference. Gaps of moto 5.2.5 (`batch/models.py`, `batch/responses.py`) that this closes: SubmitJob
ignores retryStrategy and lets oversized overrides pass; a definition is looked up among INACTIVE revisions too and
never by an ARN without revision; a new revision inherits what it did not name, and platform capabilities for ever;
DescribeJobs loops over a dictionary that other threads change; ListJobs has no pages and lists all without a status
instead of RUNNING; `reset` leaves jobs running.
"""

from __future__ import annotations

import json
from typing import Any

from moto.batch import models, responses
from moto.batch.exceptions import ClientException
from moto.core.base_backend import BackendDict

from sandbox import batch_rules, processes, surroundings
from sandbox.batch_jobs import LocalJob

MOST_AT_ONCE = 100  # jobs of a DescribeJobs, and of a page of ListJobs
_UNSUPPORTED_OF_SUBMIT = (
    "arrayProperties", "nodeOverrides", "eksPropertiesOverride", "ecsPropertiesOverride", "schedulingPriorityOverride",
    "consumableResourcePropertiesOverride",
)  # fmt: skip


def backend() -> Any:
    """moto's Batch of the sandbox's account and region."""
    return models.batch_backends[surroundings.ACCOUNT][surroundings.region()]


def job(job_id: str) -> LocalJob | None:
    """A job by id or ARN. `job.ended.wait(seconds)` is the cheap way to wait for its end."""
    found: LocalJob | None = backend()._jobs.get(job_id.rsplit("/", 1)[-1])
    return found


def install() -> None:
    """Put local jobs into moto's Batch."""
    models.Job = LocalJob
    models.BatchBackend.get_job_definition = _get_job_definition
    models.BatchBackend.get_job_definitions = _get_job_definitions
    models.BatchBackend.register_job_definition = _register_job_definition
    models.BatchBackend.describe_jobs = _describe_jobs
    models.BatchBackend.cancel_job = lambda self, job_id, reason: _terminate(self, job_id, reason, cancel=True)
    models.BatchBackend.terminate_job = lambda self, job_id, reason: _terminate(self, job_id, reason, cancel=False)
    BackendDict.reset = classmethod(_after_the_jobs(BackendDict.reset.__func__))
    responses.BatchResponse.submitjob = _submit_job
    responses.BatchResponse.listjobs = _list_jobs


def _submit_job(self: Any) -> str:
    for name in _UNSUPPORTED_OF_SUBMIT:
        if self._get_param(name):
            raise ClientException(f"{name} is not supported by the sandbox")
    name, overrides, tags = (self._get_param(k) for k in ("jobName", "containerOverrides", "tags"))
    store, queue_id, definition_id = self.batch_backend, self._get_param("jobQueue"), self._get_param("jobDefinition")
    strategy = self._get_param("retryStrategy") or {}
    fault = batch_rules.fault_of_submission(name, overrides, tags) or batch_rules.fault_of_strategy(strategy)
    if fault:
        raise ClientException(f"Error executing request, Exception : {fault}")
    definition, queue = store.get_job_definition(definition_id), store.get_job_queue(queue_id)
    if definition is None:
        raise ClientException(f"Error executing request, Exception : JobDefinition {definition_id} is not found")
    if queue is None:
        raise ClientException(f"Error executing request, Exception : Job queue {queue_id} does not exist")
    if queue.state != "ENABLED":
        raise ClientException(f"Error executing request, Exception : Job queue {queue_id} is DISABLED")
    if "FARGATE" in (definition.platform_capabilities or []):
        merged = batch_rules.merged_requirements(definition.container_properties, overrides or {})
        size = {item["type"]: item["value"] for item in merged}
        if fault := batch_rules.fault_of_fargate_size(size["VCPU"], size["MEMORY"]):
            raise ClientException(f"Error executing request, Exception : {fault}")
    new = LocalJob(
        name,
        definition,
        queue,
        store,
        log_backend=store.logs_backend,
        container_overrides=overrides,
        eks_properties_override=None,
        depends_on=self._get_param("dependsOn"),
        parameters=self._get_param("parameters"),
        all_jobs=store._jobs,
        timeout=self._get_param("timeout"),  # AWS wants 60 s at least; the sandbox takes shorter ones, for tests
        array_properties={},
        tags=tags,
        retry_strategy=strategy or None,
    )
    store._jobs[new.job_id] = new
    new.start()
    return json.dumps({"jobArn": new.arn, "jobId": new.job_id, "jobName": name})


def _list_jobs(self: Any) -> str:
    """Pages of a hundred at most; without a status or a filter those that are RUNNING."""
    filters = self._get_param("filters")
    found = self.batch_backend.list_jobs(
        job_queue_name=self._get_param("jobQueue"),
        array_job_id=self._get_param("arrayJobId"),
        job_status=self._get_param("jobStatus") or (None if filters else "RUNNING"),
        filters=filters,
    )
    start = int(self._get_param("nextToken") or 0)
    end = start + min(int(self._get_param("maxResults") or MOST_AT_ONCE), MOST_AT_ONCE)
    more = {"nextToken": str(end)} if end < len(found) else {}
    return json.dumps({"jobSummaryList": [one.describe_short() for one in found[start:end]], **more})


def _describe_jobs(self: Any, jobs: list[str] | None) -> list[dict[str, Any]]:
    if len(jobs or []) > MOST_AT_ONCE:
        raise ClientException(
            f"Error executing request, Exception : at most {MOST_AT_ONCE} jobs can be described at once"
        )
    found = (self._jobs.get(one.rsplit("/", 1)[-1]) for one in dict.fromkeys(jobs or []))
    return [one.describe() for one in found if one is not None]


def _terminate(self: Any, job_id: str, reason: str, *, cancel: bool) -> None:
    for name, value in (("jobId", job_id), ("reason", reason)):
        if not value:
            raise ClientException(f"Error executing request, Exception : {name} must be provided")
    found = self._jobs.get(job_id.rsplit("/", 1)[-1])
    if found is None:
        raise ClientException(f"Error executing request, Exception : Job {job_id} does not exist")
    found.terminate(reason, cancel=cancel)


def _get_job_definition(self: Any, identifier: str) -> Any:
    """The latest ACTIVE revision, or the very one that is named; by name or by ARN."""
    name = identifier.rsplit("/", 1)[-1]
    known = [d for d in list(self._job_definitions.values()) if d.status == "ACTIVE"]
    return max((d for d in known if name in (d.name, f"{d.name}:{d.revision}")), key=lambda d: d.revision, default=None)


def _get_job_definitions(self: Any, identifier: str) -> list[Any]:
    """All revisions of a name or, by name:revision or ARN, the one."""
    name = identifier.rsplit("/", 1)[-1]
    return [d for d in list(self._job_definitions.values()) if name in (d.name, f"{d.name}:{d.revision}")]


def _register_job_definition(
    self: Any,
    def_name: str,
    parameters: dict[str, Any] | None,
    _type: str,
    tags: dict[str, str] | None,
    retry_strategy: dict[str, Any] | None,
    container_properties: dict[str, Any] | None,
    node_properties: dict[str, Any] | None,
    eks_properties: dict[str, Any] | None,
    timeout: dict[str, int] | None,
    platform_capabilities: list[str] | None,
    propagate_tags: bool | None,
) -> Any:
    if not def_name:
        raise ClientException("jobDefinitionName must be provided")
    if _type != "container" or node_properties or eks_properties:
        raise ClientException(f"Job definition {def_name}: the sandbox runs containers only")
    if fault := batch_rules.fault_of_strategy(retry_strategy or {}):
        raise ClientException(f"Error executing request, Exception : {fault}")
    revisions = [d.revision for d in self._job_definitions.values() if d.name == def_name]
    new = models.JobDefinition(
        def_name,
        parameters,
        _type,
        container_properties,
        node_properties=None,
        eks_properties=None,
        tags=tags or {},
        retry_strategy=retry_strategy or {},
        timeout=timeout or {},
        backend=self,
        platform_capabilities=platform_capabilities or [],
        propagate_tags=bool(propagate_tags),
        revision=max(revisions, default=0),
    )
    if "FARGATE" in new.platform_capabilities:
        size = {item["type"]: item["value"] for item in new.container_properties["resourceRequirements"]}
        if fault := batch_rules.fault_of_fargate_size(size["VCPU"], size["MEMORY"]):
            raise ClientException(f"Error executing request, Exception : {fault}")
    self._job_definitions[new.arn] = new
    return new


def _after_the_jobs(original: Any) -> Any:
    def reset(cls: Any) -> None:
        """End the jobs before moto takes the lock that every look-up of a backend needs, an ending job's too."""
        ending = [one for account in list(models.batch_backends.values()) for one in _jobs(account)]
        for one in ending:
            one.terminate("sandbox reset")
        processes.current().kill_all()
        for one in ending:
            one.ended.wait(5)
        original(cls)

    return reset


def _jobs(account: Any) -> list[LocalJob]:
    return [one for backend in list(account.values()) for one in list(backend._jobs.values())]
