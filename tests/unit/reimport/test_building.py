"""The build_list Lambda's work (R19)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longhaul.reimport.building import build_from_event
from longhaul.reimport.errors import InvalidArgumentError, NameTakenError

LOGS, BUCKET = "logs-bucket", "reimport-bucket"


def build(s3: Any, **event: Any) -> dict[str, Any]:
    return build_from_event(s3, event, LOGS, BUCKET, 10)


def test_keys_and_selector_together(s3: Any) -> None:
    for key in ("evals/a/1.eval", "evals/a/2.eval", "evals/b/1.eval"):
        s3.put_object(Bucket=LOGS, Key=key, Body=b"123")
    keys = [f"s3://{LOGS}/evals/a/1.eval", "evals/gone.eval"]
    answer = build(s3, name="n", keys=keys, selector={"eval_set_ids": ["a"]})
    assert answer == {
        "list_key": "lists/n.json",
        "dry_run": False,
        "items": 3,
        "bytes": 6,
        "tiers": {"small": 2, "full": 1},
        "missing": 1,
        "missing_keys": ["evals/gone.eval"],
        "duplicates": 1,
        "duplicate_keys": ["evals/a/1.eval"],
    }
    items = json.load(s3.get_object(Bucket=BUCKET, Key="lists/n.json")["Body"])
    assert [item["key"] for item in items] == ["evals/a/1.eval", "evals/gone.eval", "evals/a/2.eval"]
    with pytest.raises(NameTakenError):
        build(s3, name="n", keys=keys)


def test_a_dry_run_uploads_nothing(s3: Any) -> None:
    assert build(s3, name="n", keys=["evals/a.eval"], dry_run=True)["items"] == 1
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ({}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "n"}, "no log"),
        ({"name": "n", "keys": []}, "no log"),
        ({"name": "n", "keys": "evals/a.eval"}, "keys"),
        ({"name": "n", "keys": ["evals/a.eval", 5]}, "keys"),
        ({"name": "n", "keys": ["evals/a.eval", "s3://other/evals/b.eval"]}, "line 2"),
        ({"name": "n", "key": ["evals/a.eval"]}, "'key'"),
        ({"name": "n", "selector": "evals/"}, "selector"),
        ({"name": "n", "selector": {"prefx": "evals/"}}, "prefx"),
        ({"name": "n", "keys": ["evals/a.eval"], "dry_run": "no"}, "dry_run"),
    ],
)
def test_bad_events_upload_nothing(s3: Any, event: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        build(s3, **event)
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
