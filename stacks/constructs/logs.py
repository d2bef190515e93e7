"""Log groups: always ours, so that retention is set and no custom resource is needed to set it."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.settings import Settings


def log_group(scope: Construct, id_: str, settings: Settings) -> logs.LogGroup:
    """A log group with the environment's retention."""
    group = logs.LogGroup(
        scope, id_, removal_policy=RemovalPolicy.RETAIN if settings.retain_logs else RemovalPolicy.DESTROY
    )
    resource = group.node.default_child
    assert isinstance(resource, logs.CfnLogGroup)  # noqa: S101 - tells the type checker
    resource.retention_in_days = settings.log_retention_days
    return group
