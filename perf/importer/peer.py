"""A peer that can be run: an importer of the usual shape, writing the columns that ours writes.

Samples are read one by one with inspect_ai's `read_eval_log_sample`, made into dictionaries, and written through
SQLAlchemy, `insert().values(…).on_conflict_do_update(…)` with 300 rows a statement, in one transaction. It neither
deletes what is gone nor decides between logs. `python -m perf.importer.peer LOG DATABASE_URL [messages]`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHUNK_ROWS = 300
Rows = dict[str, list[dict[str, Any]]]


def run(path: str, url: str, *, with_messages: bool) -> int:
    """Import the log; return the number of rows."""
    import sqlalchemy
    from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
    from sqlalchemy.dialects.postgresql import insert

    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    tables = sqlalchemy.MetaData()
    tables.reflect(engine, only=["eval", "sample", "score", "message", "sample_model"])
    log = read_eval_log(path, header_only=True)
    rows: Rows = {"eval": [_eval(log, path)], "sample": [], "score": [], "sample_model": [], "message": []}
    for summary in read_eval_log_sample_summaries(path):
        sample = read_eval_log_sample(path, id=summary.id, epoch=summary.epoch, resolve_attachments=True)
        _sample(sample, log, path, rows)
        if with_messages:
            rows["message"].extend(_messages(sample))
    with engine.begin() as connection:
        for name, found in rows.items():
            table = tables.tables[name]
            keys = [column.name for column in table.primary_key]
            for at in range(0, len(found), CHUNK_ROWS):
                statement = insert(table).values(found[at : at + CHUNK_ROWS])
                changed = {key: statement.excluded[key] for key in found[at] if key not in keys}
                connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))
    return sum(map(len, rows.values()))


def _eval(log: Any, path: str) -> dict[str, Any]:
    spec, stats, results = log.eval, log.stats, log.results
    names = ("eval_set_id", "run_id", "task_id", "task_display_name", "model", "model_base_url", "solver")
    bulky = ("task_args", "model_args", "config", "revision", "packages", "metadata", "tags", "model_generate_config")
    return {
        "id": spec.eval_id,
        "location": f"file://{path}",
        "task_name": spec.task,
        "task_version": str(spec.task_version),
        "status": log.status,
        "invalidated": log.invalidated,
        **{name: getattr(spec, name) for name in names},
        **{name: _plain(getattr(spec, name)) for name in bulky},
        "model_usage": _plain(stats.model_usage),
        "plan": _plain(log.plan),
        "results": _plain(results),
        "dataset_name": spec.dataset.name,
        "dataset_location": spec.dataset.location,
        "dataset_samples": spec.dataset.samples,
        "total_samples": results.total_samples,
        "completed_samples": results.completed_samples,
        "sample_count": results.completed_samples,
        "errored_sample_count": 0,
        "created_at": spec.created,
        "started_at": stats.started_at,
        "completed_at": stats.completed_at,
        "file_size_bytes": Path(path).stat().st_size,
        "etag": str(Path(path).stat().st_mtime_ns),
        "importer_version": "peer",
    }


def _sample(sample: Any, log: Any, path: str, rows: Rows) -> None:
    models = [event for event in sample.events if event.event == "model"]
    usage = {name: _plain(found) for name, found in sample.model_usage.items()}
    rows["sample"].append(
        {
            "uuid": sample.uuid,
            "eval_id": log.eval.eval_id,
            "location": f"file://{path}",
            "id": str(sample.id),
            "epoch": sample.epoch,
            **{name: _plain(getattr(sample, name)) for name in ("input", "choices", "target", "output", "metadata")},
            "model_usage": usage,
            **{name: sum(found.get(name) or 0 for found in usage.values()) for name in _TOKENS},
            "message_count": len(sample.messages),
            "action_count": sum(event.event == "tool" for event in sample.events),
            "generation_count": len(models),
            "generation_seconds": sum(event.working_time or 0.0 for event in models),
            "started_at": sample.started_at,
            "completed_at": sample.completed_at,
            "total_seconds": sample.total_time,
            "working_seconds": sample.working_time,
            "error_message": sample.error.message if sample.error else None,
            "error_traceback": sample.error.traceback if sample.error else None,
            "error_retries": len(sample.error_retries or []),
            "limit_type": sample.limit.type if sample.limit else None,
            "limit_value": sample.limit.limit if sample.limit else None,
            "invalidation": _plain(sample.invalidation),
        }
    )
    for name, found in usage.items():
        tokens = {kind: found.get(kind) for kind in _TOKENS}
        rows["sample_model"].append({"sample_uuid": sample.uuid, "model": name, **tokens})
    for scorer, score in (sample.scores or {}).items():
        rows["score"].append(
            {
                "sample_uuid": sample.uuid,
                "scorer": scorer,
                "ordinal": 0,
                "value": score.value,
                "value_float": score.as_float() if isinstance(score.value, int | float | bool) else None,
                "answer": score.answer,
                "explanation": score.explanation,
                "metadata": _plain(score.metadata),
            }
        )


def _messages(sample: Any) -> Iterator[dict[str, Any]]:
    for ordinal, message in enumerate(sample.messages):
        error = getattr(message, "error", None)
        calls = getattr(message, "tool_calls", None)
        yield {
            "sample_uuid": sample.uuid,
            "ordinal": ordinal,
            "message_id": message.id,
            "role": message.role,
            "source": message.source,
            "text": message.text,
            "reasoning": None,
            "model": getattr(message, "model", None),
            "tool_calls": _plain(calls) if calls else None,
            "tool_call_id": getattr(message, "tool_call_id", None),
            "tool_function": getattr(message, "function", None),
            "tool_error_type": error.type if error else None,
            "tool_error_message": error.message if error else None,
            "metadata": _plain(message.metadata),
        }


_TOKENS = (
    *("input_tokens", "output_tokens", "total_tokens"),
    *("reasoning_tokens", "input_tokens_cache_read", "input_tokens_cache_write"),
)


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, exclude_none=True)


if __name__ == "__main__":
    os.environ.setdefault("INSPECT_DISPLAY", "none")
    print(run(sys.argv[1], sys.argv[2], with_messages="messages" in sys.argv[3:]))
