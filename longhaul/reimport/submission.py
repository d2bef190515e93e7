"""The Batch job for one log that appeared in the logs bucket (R6a)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longhaul.reimport.sizing import Tiers

if TYPE_CHECKING:
    from mypy_boto3_batch import BatchClient
    from mypy_boto3_batch.type_defs import SubmitJobRequestTypeDef


@dataclass(frozen=True, kw_only=True)
class JobTarget:
    """Where importer jobs go."""

    queue: str
    definition: str  # without a revision, so that the newest is taken
    name: str  # one name for all jobs: a key is no legal job name, the command says which log it is
    tiers: Tiers

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> JobTarget:
        """Read JOB_QUEUE, JOB_DEFINITION, JOB_NAME and the tiers."""
        return cls(
            queue=environ["JOB_QUEUE"],
            definition=environ["JOB_DEFINITION"],
            name=environ["JOB_NAME"],
            tiers=Tiers.from_environment(environ),
        )


def job_request(detail: Mapping[str, Any], target: JobTarget) -> SubmitJobRequestTypeDef:
    """Return the arguments of SubmitJob for the `detail` of an S3 `Object Created` event.

    Keys in EventBridge's S3 events are not URL-encoded, unlike those in S3's own notifications: the key is taken
    as it stands (R6a).
    """
    log = detail["object"]
    size = target.tiers.size_of(target.tiers.choose(log.get("size")))
    command = ["python", "-m", "longhaul.importer", "--bucket", detail["bucket"]["name"], "--key", log["key"]]
    return {
        "jobName": target.name,
        "jobQueue": target.queue,
        "jobDefinition": target.definition,
        "containerOverrides": {
            "command": [*command, "--force", "false"],
            "resourceRequirements": [
                {"type": "VCPU", "value": size.vcpu},
                {"type": "MEMORY", "value": str(size.memory_mib)},
            ],
        },
    }


def submit(batch: BatchClient, detail: Mapping[str, Any], target: JobTarget) -> str:
    """Submit the job and return its id; botocore retries throttling, Lambda retries the rest."""
    return batch.submit_job(**job_request(detail, target))["jobId"]
