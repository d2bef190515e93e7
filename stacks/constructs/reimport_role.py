"""The role of the state machine: exactly what a Distributed Map over Batch jobs takes, and nothing else (R27)."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.findings import acknowledge_wildcards

EXECUTION_TAG = "longhaul:execution"  # of every job: the ARN of the execution that submitted it (R12)


class ReimportRole(Construct):
    """The role and its one policy."""

    def __init__(
        self, scope: Construct, id_: str, *, machine: str, bucket: s3.IBucket, queue_arn: str, definition: str
    ) -> None:
        super().__init__(scope, id_)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        executions = _arn("states", f"execution:{machine}:*")
        children = _arn("states", f"execution:{machine}/Reimport:*")
        definitions = [_arn("batch", f"job-definition/{definition}"), _arn("batch", f"job-definition/{definition}:*")]
        jobs = _arn("batch", "job/*")
        lists, results = bucket.arn_for_objects("lists/*"), bucket.arn_for_objects("results/*")

        self._allow(["states:StartExecution"], [_arn("states", f"stateMachine:{machine}")])
        self._allow(["states:DescribeExecution", "states:StopExecution"], [executions, children])
        self._allow(["states:RedriveExecution"], [children])
        self._allow(["batch:SubmitJob", "batch:TagResource"], [queue_arn, *definitions])
        self._allow(["batch:TagResource"], [jobs])
        self._allow(["batch:DescribeJobs"], ["*"])
        own = {"StringLike": {f"aws:ResourceTag/{EXECUTION_TAG}": executions}}
        self._allow(["batch:TerminateJob"], [jobs], conditions=own)
        self._allow(
            ["events:PutTargets", "events:PutRule", "events:DescribeRule"],
            [_arn("events", "rule/StepFunctionsGetEventsForBatchJobsRule")],
        )
        self._allow(["s3:GetObject"], [lists])
        self._allow(
            ["s3:PutObject", "s3:GetObject", "s3:ListMultipartUploadParts", "s3:AbortMultipartUpload"], [results]
        )
        self._allow(["s3:ListBucket"], [bucket.bucket_arn])
        if bucket.encryption_key is not None:
            self._allow(["kms:Decrypt", "kms:GenerateDataKey"], [bucket.encryption_key.key_arn])

        for reason, resources in (
            ("The wildcard is the name of an execution of exactly this state machine", [executions, children]),
            (
                "The wildcard is the revision: a redrive must take the newest of exactly this definition",
                definitions[1:],
            ),
            ("A job's id is not known before; only those that this machine tagged may be terminated", [jobs]),
            ("batch:DescribeJobs takes no resource", ["*"]),
            ("The wildcard is the name of a list or of a result file", [lists, results]),
        ):
            acknowledge_wildcards(self.role, reason, resources)

    def _allow(
        self, actions: list[str], resources: list[str], conditions: dict[str, dict[str, str]] | None = None
    ) -> None:
        self.role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions))


def _arn(service: str, resource: str) -> str:
    return f"arn:{Aws.PARTITION}:{service}:{Aws.REGION}:{Aws.ACCOUNT_ID}:{resource}"
