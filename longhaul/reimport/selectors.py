"""Selectors: which logs of the bucket a list is made of, when no keys are given (R19)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from longhaul.reimport.errors import InvalidArgumentError
from longhaul.reimport.keys import LOGS_PREFIX

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LOG_SUFFIX = ".eval"
OTHER_SUFFIX = ".json"  # a log may be one, but so are many other files: only a keys file takes it


@dataclass(frozen=True, kw_only=True)
class Selector:
    """All conditions must hold; an eval-set id stands for the prefix `evals/<id>/`."""

    prefix: str = LOGS_PREFIX
    eval_set_ids: tuple[str, ...] = ()
    modified_since: datetime | None = None  # inclusive
    modified_until: datetime | None = None  # exclusive
    min_bytes: int | None = None  # inclusive
    max_bytes: int | None = None  # inclusive

    def __post_init__(self) -> None:
        if not self.prefix.startswith(LOGS_PREFIX):
            raise InvalidArgumentError(f"the prefix must begin with {LOGS_PREFIX}, it is {self.prefix!r}")
        for eval_set_id in self.eval_set_ids:
            if not eval_set_id or "/" in eval_set_id:
                raise InvalidArgumentError(f"an eval-set id is one path segment, not {eval_set_id!r}")
        for name, moment in (("since", self.modified_since), ("until", self.modified_until)):
            if moment is not None and moment.tzinfo is None:
                raise InvalidArgumentError(f"modified_{name} needs a time zone")
        if self.modified_since and self.modified_until and self.modified_since >= self.modified_until:
            raise InvalidArgumentError(
                f"no time is at or after {self.modified_since.isoformat()} and before {self.modified_until.isoformat()}"
            )
        if self.min_bytes is not None and self.max_bytes is not None and self.min_bytes > self.max_bytes:
            raise InvalidArgumentError(f"no size is at least {self.min_bytes} and at most {self.max_bytes} bytes")

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Selector:
        """Read a selector of the build_list Lambda; unknown fields are refused, a typo must not select everything."""
        fields = {"prefix", "eval_set_ids", "modified_since", "modified_until", "min_bytes", "max_bytes"}
        if unknown := sorted(set(event) - fields):
            raise InvalidArgumentError(f"unknown selector field {unknown[0]!r}; there are {', '.join(sorted(fields))}")
        ids = event.get("eval_set_ids", ())
        if isinstance(ids, str) or not all(isinstance(i, str) for i in ids):
            raise InvalidArgumentError("eval_set_ids must be a list of strings")
        return cls(
            prefix=str(event.get("prefix", LOGS_PREFIX)),
            eval_set_ids=tuple(ids),
            modified_since=moment(event.get("modified_since")),
            modified_until=moment(event.get("modified_until")),
            min_bytes=_size(event, "min_bytes"),
            max_bytes=_size(event, "max_bytes"),
        )

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes to list, none of which holds another."""
        if not self.eval_set_ids:
            return (self.prefix,)
        wanted = (f"{LOGS_PREFIX}{eval_set_id}/" for eval_set_id in sorted(set(self.eval_set_ids)))
        # a set inside the prefix is listed whole, of a set that holds the prefix only the prefix
        return tuple(w if w.startswith(self.prefix) else self.prefix for w in wanted if _nested(w, self.prefix))

    def takes(self, *, key: str, size_bytes: int, modified: datetime) -> bool:
        """Say whether an object is a log that all conditions hold for; "folder/" markers and other files are not."""
        return key.endswith(LOG_SUFFIX) and self.within(size_bytes=size_bytes, modified=modified)

    def within(self, *, size_bytes: int, modified: datetime) -> bool:
        """Say whether the conditions on size and time hold for an object, whatever it is."""
        return (
            (self.modified_since is None or modified >= self.modified_since)
            and (self.modified_until is None or modified < self.modified_until)
            and (self.min_bytes is None or size_bytes >= self.min_bytes)
            and (self.max_bytes is None or size_bytes <= self.max_bytes)
        )


@dataclass(kw_only=True)
class Tally:
    """What an operator should hear about a selection; complete when it has been read to its end."""

    eval_set_ids: set[str] = field(default_factory=set)  # those of the selector of which a log was taken
    other_files: int = 0  # .json files, perhaps logs, that nothing but their suffix kept out


def select(s3: S3Client, bucket: str, selector: Selector, tally: Tally | None = None) -> Iterator[tuple[str, int]]:
    """Yield key and size in bytes of every log the selector takes, reading all pages of the listing."""
    tally = Tally() if tally is None else tally
    pages: Iterable[Any] = (
        page
        for prefix in selector.prefixes
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    )
    for page in pages:
        for found in page.get("Contents", ()):
            key, size, modified = found["Key"], found["Size"], found["LastModified"]
            if selector.takes(key=key, size_bytes=size, modified=modified):
                if selector.eval_set_ids:
                    tally.eval_set_ids.add(key.removeprefix(LOGS_PREFIX).split("/", 1)[0])
                yield key, size
            elif key.endswith(OTHER_SUFFIX) and selector.within(size_bytes=size, modified=modified):
                tally.other_files += 1


def moment(text: object) -> datetime | None:
    """Parse an ISO 8601 date or time; without a zone it is UTC."""
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise InvalidArgumentError(f"{text!r} is not an ISO 8601 date or time such as 2025-06-30T12:00Z") from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _size(event: Mapping[str, Any], name: str) -> int | None:
    value = event.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise InvalidArgumentError(f"{name} must be a number of bytes, it is {value!r}")
    return value


def _nested(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
