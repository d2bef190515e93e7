"""The re-import: bucket of lists and results, the state machine that a person starts, list building, results."""

from __future__ import annotations

import json

from aws_cdk import Aws, CfnOutput, Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stacks.constructs.buckets import given_key, private_bucket
from stacks.constructs.findings import acknowledge
from stacks.constructs.functions import PythonFunction
from stacks.constructs.importer_job import LOGS_PREFIX
from stacks.constructs.packaging import ROOT
from stacks.constructs.reimport_role import ReimportRole
from stacks.constructs.tiers import tier_environment, tier_values
from stacks.importer_stack import ImporterStack
from stacks.settings import Settings

DEFINITION = ROOT / "state_machines" / "reimport.asl.json"
LISTS, RESULTS = "lists/", "results/"
SCRATCH_MIB = 4096  # a million items, drafted or read, take some hundred MB of it; keys of 1 KiB several times that
ENDED = ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"]


class ReimportStack(Stack):
    """Everything that takes a list of logs through the importer again. All outputs that the CLI reads stand here."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings, importer: ImporterStack) -> None:
        super().__init__(scope, id_, stack_name=f"{settings.env}-{settings.project}-reimport")
        self.settings, self.importer = settings, importer
        self.bucket = self._bucket()
        self.machine = self._state_machine()
        self.extract_results = self._extract_results()
        self.build_list = self._build_list()
        self._outputs()

    def _bucket(self) -> s3.Bucket:
        """R2: apart from the logs bucket, so that an upload can never match the importer's rules."""
        bucket = private_bucket(
            self,
            "Bucket",
            key=given_key(self, "BucketKey", self.settings.reimport_bucket_key_arn),
            names="lists and eval sets",
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(90),
                    noncurrent_version_expiration=Duration.days(1),
                    abort_incomplete_multipart_upload_after=Duration.days(7),
                ),
                s3.LifecycleRule(expired_object_delete_marker=True),
            ],
        )
        bucket.add_to_resource_policy(
            iam.PolicyStatement(
                sid="ListsAreNeverOverwritten",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                resources=[bucket.arn_for_objects(f"{LISTS}*")],
                # the parts of a multipart upload cannot carry the header, what completes it can
                conditions={"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
            )
        )
        return bucket

    def _state_machine(self) -> sfn.StateMachine:
        """R1: nothing in these stacks starts it, but the Distributed Map its own children."""
        role = ReimportRole(
            self,
            "Role",
            machine=self.settings.reimport_name,
            bucket=self.bucket,
            queue_arn=self.importer.queues.on_demand.job_queue_arn,
            definition=self.importer.job.name,
        )
        machine = sfn.StateMachine(
            self,
            "StateMachine",
            state_machine_name=self.settings.reimport_name,
            definition_body=sfn.DefinitionBody.from_string(_definition()),
            definition_substitutions={
                "Bucket": self.bucket.bucket_name,
                "LogsBucket": self.importer.logs_bucket.bucket_name,
                "JobName": self.settings.reimport_name,
                "JobQueueArn": self.importer.queues.on_demand.job_queue_arn,
                "JobDefinitionName": self.importer.job.name,
                **tier_values(self.settings),
            },
            role=role.role,
        )
        acknowledge(
            machine,
            "SF1",
            "Every execution and child keeps its own history and result files; a log would copy the names of eval sets "
            "and needs account-wide permissions on log deliveries (R27 has none)",
        )
        acknowledge(
            machine, "SF2", "Jobs are not instrumented for X-Ray, so a trace would show nothing but their durations"
        )
        return machine

    def _execution_arn(self, name: str) -> str:
        return f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:{name}"

    def _extract_results(self) -> PythonFunction:
        """R18: run by the machine's own status events and, since those are best-effort, once an hour."""
        name = self.settings.reimport_name
        extract = PythonFunction(
            self,
            "ExtractResults",
            name="extract_results",
            settings=self.settings,
            packages=("reimport",),
            environment={
                "REIMPORT_BUCKET": self.bucket.bucket_name,
                "STATE_MACHINE_ARN": self.machine.state_machine_arn,
                **tier_environment(self.settings),
            },
            timeout=Duration.minutes(15),
            memory_mib=1024,
            scratch_mib=SCRATCH_MIB,
        )
        extract.allow(["states:ListExecutions"], [self.machine.state_machine_arn])
        extract.allow(
            ["states:DescribeExecution", "states:ListMapRuns"],
            [self._execution_arn(f"execution:{name}:*")],
            wildcards_because="The wildcard is the name of an execution of exactly this state machine",
        )
        extract.allow(
            ["states:DescribeMapRun"],
            [self._execution_arn(f"mapRun:{name}/*")],
            wildcards_because="The wildcard is the id of a Map Run of exactly this state machine",
        )
        extract.allow(
            ["s3:GetObject", "s3:PutObject"],
            [self.bucket.arn_for_objects(f"{RESULTS}*")],
            wildcards_because="The wildcard is the name of a result or report file",
        )
        extract.allow(["s3:ListBucket"], [self.bucket.bucket_arn])  # else a missing file is 403 instead of 404
        if self.bucket.encryption_key is not None:
            extract.allow(["kms:Decrypt", "kms:GenerateDataKey"], [self.bucket.encryption_key.key_arn])
        events.Rule(
            self,
            "ExecutionEnded",
            description="A re-import ended: extract its results (R18)",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                # exactly the machine: the executions of a Map Run's children have ARNs of their own
                detail={"stateMachineArn": [self.machine.state_machine_arn], "status": ENDED},
            ),
            targets=[targets.LambdaFunction(extract.function)],  # an event that is lost is made up for by the sweep
        )
        events.Rule(
            self,
            "Sweep",
            description="Extract the results of re-imports whose event was lost or came too early (R18)",
            schedule=events.Schedule.rate(Duration.hours(1)),
            targets=[targets.LambdaFunction(extract.function)],
        )
        return extract

    def _build_list(self) -> PythonFunction:
        """R19: invoked by hand."""
        logs, logs_arn = self.importer.logs_bucket, self.importer.exported_logs_bucket_arn()
        build = PythonFunction(
            self,
            "BuildList",
            name="build_list",
            settings=self.settings,
            packages=("reimport",),
            environment={
                "LOGS_BUCKET": logs.bucket_name,
                "REIMPORT_BUCKET": self.bucket.bucket_name,
                "SMALL_MAX_BYTES": str(self.settings.small_max_bytes),
            },
            timeout=Duration.minutes(15),
            memory_mib=1024,
            scratch_mib=SCRATCH_MIB,
        )
        build.allow(
            ["s3:GetObject"],  # what HeadObject takes
            [f"{logs_arn}/{LOGS_PREFIX}*"],
            wildcards_because="A list may name any log",
        )
        build.allow(["s3:ListBucket"], [logs_arn])  # for selectors, and else S3 says 403 for a missing log
        build.allow(
            ["s3:GetObject", "s3:PutObject"],  # to read: whether a list that is there already is this very one
            [self.bucket.arn_for_objects(f"{LISTS}*")],
            wildcards_because="The wildcard is the name of a new list; the bucket refuses to overwrite one",
        )
        build.allow(["s3:ListBucket"], [self.bucket.bucket_arn])
        if self.bucket.encryption_key is not None:
            build.allow(["kms:Decrypt", "kms:GenerateDataKey"], [self.bucket.encryption_key.key_arn])
        if logs.encryption_key is not None:
            build.allow(["kms:Decrypt"], [logs.encryption_key.key_arn])
        return build

    def _outputs(self) -> None:
        """Every name that the CLI needs: it reads them, it never rebuilds one (R2)."""
        importer = self.importer
        values = {
            "EvalLogReimportBucketName": self.bucket.bucket_name,
            "EvalLogReimportStateMachineArn": self.machine.state_machine_arn,
            "LogsBucketName": importer.logs_bucket.bucket_name,
            "ImporterJobDefinitionName": importer.job.name,
            "ImporterSpotQueueArn": importer.queues.spot.job_queue_arn,
            "ImporterOnDemandQueueArn": importer.queues.on_demand.job_queue_arn,
            "ImporterLogGroupName": importer.job.logs.log_group_name,
            "ImporterDlqUrl": importer.failed_imports.queue_url,
            "UndeliveredEventsDlqUrl": importer.undelivered_events.queue_url,
            "WarehouseSecretArn": importer.warehouse.secret.secret_arn,
            "BuildListFunctionName": self.build_list.function.function_name,
            "ExtractResultsFunctionName": self.extract_results.function.function_name,
            **tier_values(self.settings),
        }
        for name, value in values.items():
            CfnOutput(self, name, value=value)


def _definition() -> str:
    """The definition on one line, to stand in the template; other partitions name its integrations otherwise."""
    text = json.dumps(json.loads(DEFINITION.read_text("utf-8")))
    return text.replace("arn:aws:states:::", f"arn:{Aws.PARTITION}:states:::")
