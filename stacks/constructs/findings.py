"""Acknowledging a finding of cdk-nag: always on the construct it is about, always with a reason that is true of it."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledge a `rule` that reports one finding a resource."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))


def acknowledge_wildcards(role: IConstruct, reason: str, resources: Iterable[str]) -> None:
    """Acknowledge the wildcard in each of `resources` of the role's policy.

    Each is named whole, so a wildcard that is added later is a new finding (case-C12).
    """
    for resource in resources:
        finding = f"AwsSolutions-IAM5[Resource::{_as_reported(Stack.of(role).resolve(resource))}]"
        Validations.of(role).acknowledge(Acknowledgment(id=finding, reason=reason))


def _as_reported(value: object) -> str:
    """The text by which cdk-nag names a resource that is still an expression of CloudFormation."""
    match value:
        case {"Fn::Join": [str(separator), [*parts]]}:
            return separator.join(map(_as_reported, parts))
        case {"Ref": str(name)}:
            return f"<{name}>"
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"<{name}.{attribute}>"
        case {"Fn::ImportValue": str(name)}:
            return name
        case str(text):
            return text
        case _:
            raise AssertionError(f"no resource of a policy statement: {value!r}")
