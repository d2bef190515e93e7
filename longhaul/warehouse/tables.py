"""The tables that an import writes: their columns in COPY's order, and their keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Types of columns; the value is Postgres' name."""

    TEXT = "text"
    JSON = "jsonb"
    INTEGER = "integer"
    BIGINT = "bigint"
    FLOAT = "double precision"
    TIME = "timestamptz"
    BOOLEAN = "boolean"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; `columns` leaves out what the warehouse fills in itself and, for a sample's parts, the sample's uuid."""

    name: str
    key: tuple[str, ...]
    columns: tuple[tuple[str, Kind], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.columns)


def _columns(**kinds: str) -> tuple[tuple[str, Kind], ...]:
    pairs = [(name, kind) for kind, names in kinds.items() for name in names.split()]
    return tuple((name, Kind[kind.upper()]) for name, kind in pairs)


_TOKENS = "input_tokens output_tokens total_tokens reasoning_tokens input_tokens_cache_read input_tokens_cache_write"

EVAL = Table(
    name="eval",
    key=("id",),
    columns=_columns(
        text="id location eval_set_id run_id task_id task_name task_version task_display_name status error_message"
        " error_traceback model model_base_url agent solver dataset_name dataset_location etag importer_version",
        json="task_args model_args model_generate_config model_usage solver_args plan config results tags metadata"
        " revision packages",
        bigint="dataset_samples epochs total_samples completed_samples sample_count errored_sample_count"
        " file_size_bytes",
        time="created_at started_at completed_at updated_at file_last_modified",
        boolean="invalidated",
    ),
)
# Decides which log a sample belongs to (W5); kept in log_sample, not in sample.
ORDERED_AT = "ordered_at"
SAMPLE = Table(
    name="sample",
    key=("uuid",),
    columns=_columns(
        text="uuid id error_message error_traceback limit_type limit_reason",
        json="input choices target output metadata model_usage invalidation",
        integer="epoch message_count action_count generation_count error_retries turn_count",
        bigint=_TOKENS,
        float="generation_seconds total_seconds working_seconds limit_value",
        time="started_at completed_at ordered_at",
    ),
)
SCORE = Table(
    name="score",
    key=("sample_uuid", "scorer", "ordinal"),
    columns=_columns(
        text="scorer answer explanation reason", json="value metadata", integer="ordinal", float="value_float"
    ),
)
MESSAGE = Table(
    name="message",
    key=("sample_uuid", "ordinal"),
    columns=_columns(
        text="message_id role source text reasoning model tool_call_id tool_function tool_error_type"
        " tool_error_message",
        json="tool_calls metadata",
        integer="ordinal",
    ),
)
SAMPLE_MODEL = Table(name="sample_model", key=("sample_uuid", "model"), columns=_columns(text="model", bigint=_TOKENS))
MODEL_ROLE = Table(
    name="model_role",
    key=("eval_id", "role", "ordinal"),
    columns=_columns(text="role model base_url", json="args config", integer="ordinal"),
)
PARTS = (SCORE, MESSAGE, SAMPLE_MODEL)
