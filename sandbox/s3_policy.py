"""Deny statements of a bucket policy, as far as the stacks use them; what cannot be enforced is refused when it is put.

Sources: "Enforce conditional writes on Amazon S3 buckets", "Bucket policy examples using condition keys" of the S3
user guide; "IAM JSON policy elements: Condition operators" of the IAM user guide. moto 5.2.5 ignores every Condition
of a bucket policy, so that "deny unless TLS" would deny everything (`s3/models.py` FakeBucket.get_permission). The
local endpoint is plain http: conditions on the transport are taken as met by a secure one. Allow statements are not
looked at: no IAM here.
"""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from typing import Any

_OPERATORS = ("Null", "Bool", "StringEquals", "StringNotEquals", "NumericLessThan")
_KEYS = ("s3:if-none-match", "s3:if-match", "s3:ObjectCreationOperation", "aws:SecureTransport", "s3:TlsVersion")
_NEGATED = ("NotAction", "NotResource", "NotPrincipal")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a policy can ask about one request; `keys` holds the condition keys that the request has."""

    action: str
    resource: str
    keys: dict[str, str]


class UnsupportedPolicyError(ValueError):
    """A Deny statement that the sandbox cannot enforce."""


def secure_request(action: str, resource: str, keys: dict[str, str]) -> Request:
    """A request over what stands for TLS."""
    return Request(
        action=action, resource=resource, keys={"aws:SecureTransport": "true", "s3:TlsVersion": "1.3", **keys}
    )


def check(document: str) -> None:
    """Refuse a policy whose denials could not be enforced."""
    for statement in _denials(document):
        for name in _NEGATED:
            if name in statement:
                raise UnsupportedPolicyError(f"the sandbox cannot enforce {name} in a Deny statement")
        for operator, conditions in statement.get("Condition", {}).items():
            for key in conditions:
                if operator not in _OPERATORS or key not in _KEYS:
                    raise UnsupportedPolicyError(f"the sandbox cannot enforce the condition {operator} {key}")


def denies(document: str, request: Request) -> bool:
    """Whether some Deny statement of the policy applies to the request."""
    return any(_applies(statement, request) for statement in _denials(document))


def _denials(document: str) -> list[dict[str, Any]]:
    statements = _list(json.loads(document).get("Statement", []))
    return [one for one in statements if one.get("Effect") == "Deny" and _everybody(one.get("Principal"))]


def _everybody(principal: Any) -> bool:
    return principal == "*" or (isinstance(principal, dict) and "*" in _list(principal.get("AWS")))


def _applies(statement: dict[str, Any], request: Request) -> bool:
    actions = [one.lower() for one in _list(statement.get("Action"))]
    if not any(fnmatch.fnmatchcase(request.action.lower(), one) for one in actions):
        return False
    if not any(_glob(one, request.resource) for one in _list(statement.get("Resource"))):
        return False
    return all(
        _holds(operator, request.keys.get(key), [str(one) for one in _list(wanted)])
        for operator, conditions in statement.get("Condition", {}).items()
        for key, wanted in conditions.items()
    )


def _holds(operator: str, value: str | None, wanted: list[str]) -> bool:
    if operator == "Null":
        return ("true" if value is None else "false") in [one.lower() for one in wanted]
    if value is None:
        return operator == "StringNotEquals"
    if operator == "Bool":
        return value.lower() in [one.lower() for one in wanted]
    if operator == "StringEquals":
        return value in wanted
    if operator == "StringNotEquals":
        return value not in wanted
    return any(float(value) < float(one) for one in wanted)


def _glob(pattern: str, value: str) -> bool:
    """IAM's wildcards: star and question mark, and no brackets."""
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
