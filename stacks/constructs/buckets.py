"""A bucket as both stacks make them: private, TLS only, versioned, encrypted, and kept when its stack is deleted."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.findings import acknowledge


def private_bucket(
    scope: Construct,
    id_: str,
    *,
    key: kms.IKey | None,
    names: str,
    lifecycle_rules: Sequence[s3.LifecycleRule] | None = None,
) -> s3.Bucket:
    """A bucket with a generated name; `names` says what its keys tell, for whoever wonders about access logs."""
    bucket = s3.Bucket(
        scope,
        id_,
        encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
        encryption_key=key,
        bucket_key_enabled=None if key is None else True,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        versioned=True,
        lifecycle_rules=lifecycle_rules,
        removal_policy=RemovalPolicy.RETAIN,
    )
    acknowledge(
        bucket,
        "S1",
        "Access is recorded by CloudTrail data events where an account wants it; access logs would copy the names "
        f"of {names} to another bucket",
    )
    return bucket


def given_key(scope: Construct, id_: str, arn: str | None) -> kms.IKey | None:
    """The customer key of this ARN, if the settings name one."""
    return None if arn is None else kms.Key.from_key_arn(scope, id_, arn)
