"""The importer: logs bucket, warehouse, Batch queues and job definition, the rules around them, their DLQs (R4–R6)."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.buckets import given_key, private_bucket
from stacks.constructs.findings import acknowledge
from stacks.constructs.functions import PythonFunction
from stacks.constructs.importer_job import LOGS_PREFIX, SPOT_INTERRUPTED, ImporterJob
from stacks.constructs.importer_queues import ImporterQueues
from stacks.constructs.network import Network
from stacks.constructs.tiers import tier_environment
from stacks.constructs.warehouse import Warehouse
from stacks.settings import Settings


class ImporterStack(Stack):
    """Everything that turns an uploaded log into a job, and keeps what failed."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings) -> None:
        super().__init__(scope, id_, stack_name=f"{settings.env}-{settings.project}-importer")
        self.settings = settings
        self.logs_bucket = self._logs_bucket()
        network = Network(self, "Network", settings=settings)
        self.warehouse = Warehouse(self, "Warehouse", settings=settings, network=network)
        self.queues = ImporterQueues(self, "Queues", settings=settings, network=network)
        self.job = ImporterJob(
            self, "Job", settings=settings, logs_bucket=self.logs_bucket, warehouse=self.warehouse.secret
        )
        self.failed_imports = self._queue("FailedImports")
        self.undelivered_events = self._queue("UndeliveredEvents")
        self._submit_uploads()
        self._keep_failures()

    def exported_logs_bucket_arn(self) -> str:
        """ARN of the logs bucket for another stack: an import by name, which acknowledgements there can quote."""
        arn = self.logs_bucket.bucket_arn
        return arn if self.settings.logs_bucket_name is not None else self.export_value(arn)

    def definition_arns(self) -> list[str]:
        """ARNs under which SubmitJob may name the job definition: without a revision, and with any."""
        arn = self._definition_arn()
        return [arn, f"{arn}:*"]

    def _definition_arn(self) -> str:
        return self.format_arn(service="batch", resource="job-definition", resource_name=self.job.name)

    def _logs_bucket(self) -> s3.IBucket:
        given = self.settings.logs_bucket_name
        key = given_key(self, "LogsKey", self.settings.logs_bucket_key_arn)
        if given is not None:
            return s3.Bucket.from_bucket_attributes(self, "Logs", bucket_name=given, encryption_key=key)
        bucket = private_bucket(self, "Logs", key=key, names="eval sets")
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)  # noqa: S101 - tells the type checker
        # the L2 property would bring a custom resource
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )
        return bucket

    def _queue(self, id_: str) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            id_,
            encryption=sqs.QueueEncryption.SQS_MANAGED,  # unlike with SQS's KMS key, EventBridge gets in (case-C05)
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        acknowledge(queue, "SQS3", "This queue is itself the place for what failed: nothing consumes it automatically")
        return queue

    def _submit_uploads(self) -> None:
        """R6a: an object evals/….eval becomes a job on the Spot queue."""
        submit = PythonFunction(
            self,
            "SubmitImport",
            name="submit_import",
            settings=self.settings,
            packages=("reimport",),
            environment={
                "JOB_QUEUE": self.queues.spot.job_queue_arn,
                "JOB_DEFINITION": self.job.name,
                "JOB_NAME": self.job.name,
                **tier_environment(self.settings),
            },
            timeout=Duration.seconds(30),
            dead_letters=self.undelivered_events,  # events that the function was given and could not submit
        )
        submit.allow(
            ["batch:SubmitJob"],
            [self.queues.spot.job_queue_arn, *self.definition_arns()],
            wildcards_because="The wildcard is the revision: a job takes the newest of exactly this definition",
        )
        events.Rule(
            self,
            "LogUploaded",
            description="An eval log was uploaded: import it (R6a)",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={
                    "bucket": {"name": [self.logs_bucket.bucket_name]},
                    "object": {"key": [{"wildcard": f"{LOGS_PREFIX}*.eval"}]},  # prefix and suffix would be an OR
                },
            ),
            targets=[targets.LambdaFunction(submit.function, dead_letter_queue=self.undelivered_events)],
        )

    def _keep_failures(self) -> None:
        """R6b–d: every failed import reaches the DLQ, interrupted ones too until a Lambda resubmits them."""
        spot = [self.queues.spot.job_queue_arn]
        interrupted = {"prefix": SPOT_INTERRUPTED}
        self._failure_rule(
            "SpotInterrupted", "A Spot import was interrupted (R6b)", {"jobQueue": spot, "statusReason": [interrupted]}
        )
        self._failure_rule(
            "ImportFailed", "An import failed that was not on Spot (R6c)", {"jobQueue": [{"anything-but": spot}]}
        )
        self._failure_rule(
            "SpotImportFailed",
            "A Spot import failed for another reason than an interruption (R6d)",
            {"jobQueue": spot, "statusReason": [{"anything-but": interrupted}, {"exists": False}]},
        )

    def _failure_rule(self, id_: str, description: str, detail: dict[str, object]) -> None:
        """A rule on the default bus, where Batch publishes (case-C01), for failed jobs of any importer revision."""
        events.Rule(
            self,
            id_,
            description=description,
            event_pattern=events.EventPattern(
                source=["aws.batch"],
                detail_type=["Batch Job State Change"],
                detail={"status": ["FAILED"], "jobDefinition": [{"prefix": f"{self._definition_arn()}:"}], **detail},
            ),
            targets=[targets.SqsQueue(self.failed_imports, dead_letter_queue=self.undelivered_events)],
        )
