"""From what a log says to the warehouse's rows."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter

from msgspec.structs import astuple

from longhaul.evallog.decode import whole_number
from longhaul.evallog.header import Header
from longhaul.evallog.records import NULL, Usage
from longhaul.evallog.sample import MessageRecord, Sample, ScoreRecord
from longhaul.warehouse.tables import MESSAGE, SAMPLE, SCORE

_TOKENS = Usage.__struct_fields__  # in the order of the columns
_TOKENS_AT = SAMPLE.names.index(_TOKENS[0])
_before_tokens = attrgetter(*SAMPLE.names[:_TOKENS_AT])
_after_tokens = attrgetter(*SAMPLE.names[_TOKENS_AT + len(_TOKENS) :])
_score_values, _message_values = attrgetter(*SCORE.names), attrgetter(*MESSAGE.names)


def eval_row(
    header: Header,
    *,
    location: str,
    etag: str,
    file_size_bytes: int,
    file_last_modified: datetime | None,
    importer_version: str,
    sample_count: int,
    errored_sample_count: int,
) -> dict[str, object]:
    """The row of `eval`, JSON as text."""
    row: dict[str, object] = {name: getattr(header, name) for name in header.__struct_fields__}
    del row["eval_id"], row["model_roles"], row["unnamed_scorer"]
    row = {name: value.decode() if isinstance(value, bytes) else value for name, value in row.items()}
    return row | {
        "id": header.eval_id,
        "location": location,
        "etag": etag,
        "file_size_bytes": file_size_bytes,
        "file_last_modified": file_last_modified,
        "importer_version": importer_version,
        "sample_count": sample_count,
        "errored_sample_count": errored_sample_count,
    }


def role_rows(header: Header) -> list[dict[str, object]]:
    """The rows of `model_role`."""
    return [
        {
            "role": role,
            "ordinal": ordinal,
            "model": config.model,
            "base_url": config.base_url,
            "args": None if config.args == NULL else bytes(config.args).decode(),
            "config": None if config.config == NULL else bytes(config.config).decode(),
        }
        for role, ordinal, config in header.model_roles
    ]


def sample_row(sample: Sample) -> list[object]:
    """The row of `sample`."""
    return [*_before_tokens(sample), *_tokens(sample.usage), *_after_tokens(sample)]


def score_row(score: ScoreRecord) -> tuple[object, ...]:
    """A row of `score`."""
    return _score_values(score)


def message_row(message: MessageRecord) -> tuple[object, ...]:
    """A row of `message`."""
    return _message_values(message)


def model_row(model: str, usage: Usage | None) -> list[object]:
    """A row of `sample_model`."""
    return [model, *_tokens(usage)]


def _tokens(usage: Usage | None) -> list[int | None]:
    return [None] * len(_TOKENS) if usage is None else [whole_number(value) for value in astuple(usage)]
