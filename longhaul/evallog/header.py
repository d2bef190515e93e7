"""What a log says of its eval as a whole."""

from __future__ import annotations

import json
import re
from datetime import datetime

import msgspec
from msgspec import Raw

from longhaul.evallog import identity, records, times
from longhaul.evallog.decode import decode, optional
from longhaul.evallog.records import HeaderFields, ModelConfig, Spec

# Name that inspect_ai gives the only score of a sample in logs from before scores had names.
UNNAMED_SCORER = "88F74D2C"
_EVAL_SET = re.compile(r"(?:^|/)evals/([^/]+)/")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """An eval; JSON stays as bytes, None where the log says nothing. Times are aware UTC."""

    eval_id: str
    eval_set_id: str | None
    run_id: str | None
    task_id: str | None
    task_name: str
    task_version: str
    task_display_name: str | None
    task_args: bytes | None
    status: str
    invalidated: bool
    error_message: str | None
    error_traceback: str | None
    model: str
    model_args: bytes | None
    model_generate_config: bytes | None
    model_base_url: str | None
    model_usage: bytes | None
    model_roles: list[tuple[str, int, ModelConfig]]
    agent: str | None
    solver: str | None
    solver_args: bytes | None
    plan: bytes | None
    config: bytes | None
    dataset_name: str | None
    dataset_location: str | None
    dataset_samples: int | None
    results: bytes | None
    tags: bytes
    metadata: bytes
    revision: bytes | None
    packages: bytes | None
    epochs: int | None
    total_samples: int | None
    completed_samples: int | None
    created_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    updated_at: datetime | None
    unnamed_scorer: str


def finished(data: bytes, key: str, *, doubles_only: bool = False) -> Header:
    """The header of a log with its final header (`header.json`, or the front of a `.json` document)."""
    fields = decode(records.header_fields, data, "the header", doubles_only=doubles_only)
    return _header(fields, key)


def unfinished(data: bytes, key: str, *, doubles_only: bool = False) -> Header:
    """The header of a log that is still being written (`_journal/start.json`)."""
    start = decode(records.start_fields, data, "_journal/start.json", doubles_only=doubles_only)
    return _header(HeaderFields(eval=start.eval, version=start.version, plan=start.plan), key)


def _header(fields: HeaderFields, key: str) -> Header:
    spec, stats, error = fields.eval, fields.stats, fields.error
    results = (
        decode(records.results, bytes(fields.results), "results") if optional(fields.results) else records.Results()
    )
    created_at = times.parse(spec.created)
    created = created_at.isoformat() if created_at else spec.created
    tags, metadata = _edited(fields)
    return Header(
        eval_id=spec.eval_id or identity.eval_id(spec.run_id, spec.task_id, created),
        eval_set_id=_eval_set_id(spec, key),
        run_id=spec.run_id or None,
        task_id=spec.task_id or None,
        task_name=spec.task,
        task_version=str(spec.task_version),
        task_display_name=spec.task_display_name,
        task_args=optional(spec.task_args),
        status=fields.status,
        invalidated=fields.invalidated,
        error_message=error.message if error else None,
        error_traceback=error.traceback if error else None,
        model=spec.model,
        model_args=optional(spec.model_args),
        model_generate_config=optional(spec.model_generate_config),
        model_base_url=spec.model_base_url,
        model_usage=optional(stats.model_usage),
        model_roles=_roles(spec),
        agent=_agent(spec, fields.plan),
        solver=spec.solver,
        solver_args=optional(spec.solver_args),
        plan=optional(fields.plan),
        config=optional(spec.config),
        dataset_name=spec.dataset.name,
        dataset_location=spec.dataset.location,
        dataset_samples=spec.dataset.samples,
        results=optional(fields.results),
        tags=tags,
        metadata=metadata,
        revision=optional(spec.revision),
        packages=optional(spec.packages),
        epochs=_epochs(spec.config),
        total_samples=results.total_samples,
        completed_samples=results.completed_samples,
        created_at=created_at,
        started_at=times.parse(stats.started_at),
        completed_at=times.parse(stats.completed_at),
        updated_at=_updated_at(fields),
        unnamed_scorer=_unnamed_scorer(results),
    )


def _eval_set_id(spec: Spec, key: str) -> str | None:
    """From the eval's metadata, else its own field, else the key `evals/<eval-set-id>/…`."""
    raw = (spec.metadata or {}).get("eval_set_id")
    named = msgspec.json.decode(raw) if raw is not None else None
    if isinstance(named, str) and named:
        return named
    if spec.eval_set_id:
        return spec.eval_set_id
    found = _EVAL_SET.search(key)
    return found[1] if found else None


def _agent(spec: Spec, plan: Raw) -> str | None:
    if spec.solver:
        return spec.solver
    if optional(plan) is None:
        return None
    read = decode(records.plan, bytes(plan), "plan")
    return ",".join(step.solver for step in read.steps if step.solver) or None


def _roles(spec: Spec) -> list[tuple[str, int, ModelConfig]]:
    bound = spec.model_roles or {}
    lists = {role: found if isinstance(found, list) else [found] for role, found in bound.items()}
    return [(role, number, config) for role, configs in lists.items() for number, config in enumerate(configs)]


def _epochs(config: Raw) -> int | None:
    return decode(records.epochs, bytes(config), "config").epochs if optional(config) else None


def _edited(fields: HeaderFields) -> tuple[bytes, bytes]:
    """Tags (sorted) and metadata with the edits that the header records."""
    tags = set(fields.eval.tags or [])
    metadata = dict(fields.eval.metadata or {})
    for update in fields.log_updates or []:
        for edit in update.edits:
            tags = (tags - set(edit.tags_remove)) | set(edit.tags_add)
            for name in edit.metadata_remove:
                metadata.pop(name, None)
            metadata.update(edit.metadata_set)
    return json.dumps(sorted(tags)).encode(), msgspec.json.encode(metadata)


def _updated_at(fields: HeaderFields) -> datetime | None:
    found = [times.parse(update.provenance.timestamp) for update in fields.log_updates or []]
    return max((time for time in found if time is not None), default=None)


def _unnamed_scorer(results: records.Results) -> str:
    if results.scores:
        return results.scores[0].name
    return results.scorer.name if results.scorer else UNNAMED_SCORER
