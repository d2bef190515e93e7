"""The build_list Lambda's work: from an event to an uploaded list (R19)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from longhaul.reimport.errors import InvalidArgumentError, NameTakenError
from longhaul.reimport.keys import read_keys
from longhaul.reimport.listing import ListSummary, draft, exists, list_key
from longhaul.reimport.selectors import Selector, select

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_FIELDS = {"name", "keys", "selector", "dry_run"}


def build_from_event(
    s3: S3Client, event: Mapping[str, Any], logs_bucket: str, reimport_bucket: str, small_max_bytes: int
) -> dict[str, Any]:
    """Check the whole event, read the sizes, upload the list unless `dry_run`, and say what it holds.

    `keys` are keys or `s3://` URIs as in a keys file; a bad one is named by its place, counted from 1.
    """
    if unknown := sorted(set(event) - _FIELDS):
        raise InvalidArgumentError(f"unknown field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}")
    name, keys, selector = event.get("name"), event.get("keys", []), event.get("selector")
    if not isinstance(name, str):
        raise InvalidArgumentError("name must be a string")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise InvalidArgumentError("keys must be a list of strings")
    if selector is not None and not isinstance(selector, dict):
        raise InvalidArgumentError("selector must be an object")
    if not isinstance(event.get("dry_run", False), bool):
        raise InvalidArgumentError("dry_run must be true or false")
    if exists(s3, reimport_bucket, list_key(name)):
        raise NameTakenError(f"the list {list_key(name)} exists already and is never overwritten; take another name")
    with draft(small_max_bytes) as items:
        lines = (key.encode("utf-8", "surrogatepass") for key in keys)
        items.add((key, None) for key in read_keys(lines, logs_bucket, "keys"))
        if selector is not None:
            items.add(select(s3, logs_bucket, Selector.from_event(selector)))
        items.read_sizes(s3, logs_bucket)
        summary = items.summary()
        if not summary.items:
            raise InvalidArgumentError("no log was given or selected")
        if not event.get("dry_run"):
            items.upload(s3, reimport_bucket, name)
    return {"list_key": list_key(name), "dry_run": event.get("dry_run", False), **as_json(summary)}


def as_json(summary: ListSummary) -> dict[str, Any]:
    """Return the summary as the Lambda and `--json` print it."""
    return {
        "items": summary.items,
        "bytes": summary.total_bytes,
        "tiers": {"small": summary.small_items, "full": summary.full_items},
        "missing": summary.missing,
        "missing_keys": list(summary.missing_keys),
        "duplicates": summary.duplicates,
        "duplicate_keys": list(summary.duplicate_keys),
    }
