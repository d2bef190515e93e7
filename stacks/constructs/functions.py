"""A Lambda function: its code, its own log group and a role that may do nothing but write there until granted more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import AssetHashType, Duration, Size, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.findings import acknowledge_wildcards
from stacks.constructs.logs import log_group
from stacks.constructs.packaging import function_code, layer_code
from stacks.settings import Settings

RUNTIME = lambda_.Runtime.PYTHON_3_14


class PythonFunction(Construct):
    """The function of lambdas/<name>/handler.py."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        settings: Settings,
        packages: tuple[str, ...],
        environment: Mapping[str, str],
        timeout: Duration,
        memory_mib: int = 256,
        scratch_mib: int = 512,
        dead_letters: sqs.IQueue | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self.logs: logs.LogGroup = log_group(self, "Logs", settings)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.logs.grant_write(self.role)
        folder, content = function_code(name, packages)
        self.function = lambda_.Function(
            self,
            "Function",
            code=lambda_.Code.from_asset(str(folder), asset_hash_type=AssetHashType.CUSTOM, asset_hash=content),
            handler="handler.handler",
            runtime=RUNTIME,
            role=self.role,
            layers=[_layer(Stack.of(self))],
            log_group=self.logs,
            logging_format=lambda_.LoggingFormat.TEXT,  # Powertools writes JSON lines itself
            timeout=timeout,
            memory_size=memory_mib,
            ephemeral_storage_size=Size.mebibytes(scratch_mib),
            environment={"POWERTOOLS_SERVICE_NAME": name, **environment},
            dead_letter_queue=dead_letters,
        )

    def allow(self, actions: Sequence[str], resources: Sequence[str], *, wildcards_because: str | None = None) -> None:
        """Let the function do `actions` on `resources`; those with a wildcard need a reason."""
        self.role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources)))
        if wildcards_because is not None:
            acknowledge_wildcards(self.role, wildcards_because, [arn for arn in resources if "*" in arn])


def _layer(stack: Stack) -> lambda_.LayerVersion:
    """The stack's one layer with the third-party code."""
    existing = stack.node.try_find_child("Layer")
    if isinstance(existing, lambda_.LayerVersion):
        return existing
    folder, made_from = layer_code()
    return lambda_.LayerVersion(
        stack,
        "Layer",
        code=lambda_.Code.from_asset(str(folder), asset_hash_type=AssetHashType.CUSTOM, asset_hash=made_from),
        compatible_runtimes=[RUNTIME],
        compatible_architectures=[lambda_.Architecture.X86_64],
        description="Third-party code of the Lambda functions",
    )
