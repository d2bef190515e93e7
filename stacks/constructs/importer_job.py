"""The importer as a Batch job definition: one for both sizes and for whoever submits (R5, R14)."""

from __future__ import annotations

from aws_cdk import Duration, Size
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stacks.constructs.findings import acknowledge_wildcards
from stacks.constructs.logs import log_group
from stacks.constructs.packaging import image_context
from stacks.settings import Settings

SPOT_INTERRUPTED = "Your Spot Task was interrupted"  # how the status reason of a reclaimed Fargate Spot job begins
LOGS_PREFIX = "evals/"


class ImporterJob(Construct):
    """The job definition, its log group and its two roles."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        logs_bucket: s3.IBucket,
        warehouse: secretsmanager.ISecret,
    ) -> None:
        super().__init__(scope, id_)
        self.name = settings.importer_name
        self.logs = log_group(self, "Logs", settings)
        container = batch.EcsFargateContainerDefinition(
            self,
            "Container",
            image=self._image(settings),
            command=["python", "-m", "longhaul.importer"],
            cpu=settings.full.vcpu,
            memory=Size.mebibytes(settings.full.memory_mib),
            ephemeral_storage_size=Size.gibibytes(settings.ephemeral_storage_gib),
            job_role=self._job_role(logs_bucket),
            secrets={  # the only way in for credentials: environment and command show up in events and causes (R4)
                variable: batch.Secret.from_secrets_manager(warehouse, field)
                for variable, field in (
                    ("PGHOST", "host"),
                    ("PGPORT", "port"),
                    ("PGUSER", "username"),
                    ("PGPASSWORD", "password"),
                    ("PGDATABASE", "dbname"),
                )
            },
            logging=ecs.LogDriver.aws_logs(stream_prefix="importer", log_group=self.logs),
        )
        acknowledge_wildcards(container.execution_role, "ecr:GetAuthorizationToken takes no resource", ["*"])
        self.definition = batch.EcsJobDefinition(
            self,
            "Definition",
            job_definition_name=self.name,
            container=container,
            timeout=Duration.seconds(settings.attempt_timeout_seconds),
            retry_attempts=3,
            retry_strategies=[batch.RetryStrategy.of(batch.Action.EXIT, reason) for reason in _permanent_failures()],
        )

    def _image(self, settings: Settings) -> ecs.ContainerImage:
        image = settings.image
        if image is None:
            context, _ = image_context()
            return ecs.ContainerImage.from_asset(str(context), file="longhaul/importer/Dockerfile")
        if "." in image.split("/")[0]:
            return ecs.ContainerImage.from_registry(image)
        name, tag = image.split("@" if "@" in image else ":", 1)
        return ecs.ContainerImage.from_ecr_repository(
            ecr.Repository.from_repository_name(self, "Repository", name), tag
        )

    def _job_role(self, logs_bucket: s3.IBucket) -> iam.Role:
        role = iam.Role(self, "JobRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        logs = logs_bucket.arn_for_objects(f"{LOGS_PREFIX}*")
        role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[logs]))
        # without it S3 answers 403 for a log that is not there, instead of 404
        role.add_to_policy(iam.PolicyStatement(actions=["s3:ListBucket"], resources=[logs_bucket.bucket_arn]))
        if logs_bucket.encryption_key is not None:
            logs_bucket.encryption_key.grant_decrypt(role)
        acknowledge_wildcards(role, "The importer reads whichever log it is told to", [logs])
        return role


def _permanent_failures() -> list[batch.Reason]:
    """What Batch must not try again, in this order; everything else it tries three times in all (R14)."""
    return [
        batch.Reason.custom(on_status_reason=f"{SPOT_INTERRUPTED}*"),
        batch.Reason.custom(on_reason="OutOfMemoryError*"),
        batch.Reason.custom(on_exit_code="1*"),  # 1, 10 to 12, 137, 143
        batch.Reason.custom(on_exit_code="2"),
    ]
