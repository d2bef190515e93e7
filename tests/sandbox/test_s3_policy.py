"""Deny statements of a bucket policy (R2), against the IAM and S3 user guides."""

import json
from typing import Any

import pytest

from sandbox import s3_policy

LISTS = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:PutObject",
    "Resource": "arn:aws:s3:::b/lists/*",
    "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
}
TLS = {
    "Effect": "Deny",
    "Principal": {"AWS": "*"},
    "Action": "s3:*",
    "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def denied(document: str, action: str, key: str, **keys: str) -> bool:
    request = s3_policy.secure_request(
        action, f"arn:aws:s3:::b/{key}", {k.replace("__", ":"): v for k, v in keys.items()}
    )
    return s3_policy.denies(document, request)


def test_r2_an_unconditional_write_below_lists_is_denied_and_nothing_else() -> None:
    document = policy(LISTS, TLS)
    whole = {"s3__ObjectCreationOperation": "true"}
    assert denied(document, "s3:PutObject", "lists/a.json", **whole)
    assert not denied(document, "s3:PutObject", "lists/a.json", **whole, **{"s3__if-none-match": "*"})
    assert not denied(document, "s3:PutObject", "lists/a.json", s3__ObjectCreationOperation="false")
    assert not denied(document, "s3:PutObject", "results/a.json", **whole)
    assert not denied(document, "s3:GetObject", "lists/a.json")
    assert not denied(document, "s3:PutObjectTagging", "lists/a.json")


def test_the_local_endpoint_stands_for_one_with_tls() -> None:
    assert not denied(policy(TLS), "s3:GetObject", "a")
    request = s3_policy.Request(
        action="s3:GetObject", resource="arn:aws:s3:::b/a", keys={"aws:SecureTransport": "false"}
    )
    assert s3_policy.denies(policy(TLS), request)


def test_actions_have_wildcards_and_ignore_case_and_resources_do_not() -> None:
    document = policy({**LISTS, "Action": ["S3:PUT*"], "Condition": {}})
    assert denied(document, "s3:PutObject", "lists/a")
    assert not denied(document, "s3:PutObject", "Lists/a")
    assert not denied(
        policy({**LISTS, "Resource": "arn:aws:s3:::b/lists/[ab]", "Condition": {}}), "s3:PutObject", "lists/a"
    )


def test_allow_and_denials_of_one_principal_are_not_looked_at() -> None:
    assert not denied(policy({**LISTS, "Effect": "Allow", "Condition": {}}), "s3:PutObject", "lists/a")
    assert not denied(policy({**LISTS, "Principal": {"AWS": "arn:aws:iam::1:root"}}), "s3:PutObject", "lists/a")


@pytest.mark.parametrize(
    "statement",
    [
        {**LISTS, "Condition": {"StringLike": {"s3:if-none-match": "*"}}},
        {**LISTS, "Condition": {"StringEquals": {"aws:PrincipalArn": "x"}}},
        {**{k: v for k, v in LISTS.items() if k != "Action"}, "NotAction": "s3:GetObject"},
    ],
)
def test_what_cannot_be_enforced_is_refused_instead_of_ignored(statement: dict[str, Any]) -> None:
    with pytest.raises(s3_policy.UnsupportedPolicyError):
        s3_policy.check(policy(statement))


def test_our_own_policies_can_be_enforced() -> None:
    s3_policy.check(policy(LISTS, TLS))
