"""Secrets of a container, as ECS resolves `valueFrom`: a secret's ARN, or ARN:json-key:version-stage:version-id.

Source: "Specifying sensitive data with Secrets Manager" of the AWS Batch user guide. moto 5.2.5 ignores a job's
secrets.
"""

from __future__ import annotations

import json
from typing import Any

from sandbox import surroundings

UNREADABLE = "ResourceInitializationError: unable to pull secrets or registry auth"
_ARN_FIELDS = 7  # arn:partition:secretsmanager:region:account:secret:name


class UnresolvableError(Exception):
    """The secret cannot be read: the container does not start."""


def resolve(secrets: list[dict[str, str]]) -> dict[str, str]:
    """Environment variable → value."""
    found: dict[str, str] = {}
    read: dict[tuple[str, str, str], str] = {}
    for secret in secrets:
        parts = [*secret["valueFrom"].split(":"), "", "", ""]
        arn, (key, stage, version) = ":".join(parts[:_ARN_FIELDS]).rstrip(":"), parts[_ARN_FIELDS : _ARN_FIELDS + 3]
        place = (arn, stage, version)
        if place not in read:
            read[place] = _read(arn, stage, version)
        found[secret["name"]] = _of_json(read[place], key, secret["valueFrom"]) if key else read[place]
    return found


def _read(arn: str, stage: str, version: str) -> str:
    from moto.secretsmanager.models import secretsmanager_backends

    backend = secretsmanager_backends[surroundings.ACCOUNT][surroundings.region()]
    try:
        return str(backend.get_secret_value(arn, version or None, stage or None)["SecretString"])
    except Exception as error:
        raise UnresolvableError(f"{UNREADABLE}: unable to retrieve secret from asm: {arn}: {error}") from error


def _of_json(text: str, key: str, place: str) -> str:
    try:
        value: Any = json.loads(text)[key]
    except (ValueError, KeyError, TypeError) as error:
        raise UnresolvableError(
            f"{UNREADABLE}: retrieved secret from Secrets Manager did not contain json key {key}: {place}"
        ) from error
    return value if isinstance(value, str) else json.dumps(value)
