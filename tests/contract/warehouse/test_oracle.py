"""W8: our rows equal what inspect_ai says of the same file, for every field that both have."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.contract.warehouse.support import imported, rows
from tests.logs import DEFLATE, dumps, entries, header, sample, write_zip

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(120)]  # the warnings are inspect_ai's


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Logs that inspect_ai itself wrote: epochs, errors, limits, tools, images, reasoning, odd values, edits."""
    os.environ["INSPECT_DISPLAY"] = "none"
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import (
        MetadataEdit,
        ProvenanceData,
        TagsEdit,
        edit_eval_log,
        edit_score,
        invalidate_samples,
        read_eval_log,
        write_eval_log,
    )
    from inspect_ai.model import (
        ChatMessageUser,
        ContentImage,
        ContentReasoning,
        ContentText,
        ModelOutput,
        ModelUsage,
        get_model,
    )
    from inspect_ai.scorer import Score, ScoreEdit, accuracy, mean, score, scorer
    from inspect_ai.solver import generate, solver, use_tools
    from inspect_ai.tool import ToolError, tool

    folder = tmp_path_factory.mktemp("evaluated")
    image = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 12).decode()

    @tool
    def shell():
        async def execute(cmd: str) -> str:
            """Run a command.

            Args:
              cmd: the command
            """
            if cmd == "bad":
                raise ToolError("it broke")
            return "output " * 60

        return execute

    @scorer(metrics=[mean()])
    def odd():
        async def score_one(state, target):
            value = {"nan": math.nan, "inf": math.inf, "big": 2**70, "list": [1, 2], "dict": {"a": 1}, "letter": "C"}
            return Score(
                value=value.get(state.sample_id, 0.5), answer="a\0b", explanation="why " * 60, metadata={"n": math.nan}
            )

        return score_one

    @scorer(metrics=[accuracy()])
    def second():
        async def score_one(state, target):
            return Score(value=True)

        return score_one

    @solver
    def work():
        async def solve(state, generate):
            state.store.set("k", math.inf)
            if state.sample_id == "scored":
                await score(state)
            if state.sample_id == "error" and state.epoch == 1:
                raise ValueError("boom \0")
            return state

        return solve

    def outputs(messages, tools, choice, config):
        turns = sum(message.role == "assistant" for message in messages)
        if turns == 0 and "tool" in messages[0].text:
            found = ModelOutput.for_tool_call(
                "mockllm/model", "shell", {"cmd": "bad" if "bad" in messages[0].text else "ls"}
            )
        elif turns == 0 and "think" in messages[0].text:
            parts = [ContentReasoning(reasoning="because"), ContentText(text="so"), ContentText(text="there")]
            found = ModelOutput.from_content("mockllm/model", parts)
        else:
            found = ModelOutput.from_content("mockllm/model", "an answer\0 " * 40)
        found.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10, input_tokens_cache_read=2)
        return found

    names = ["nan", "inf", "big", "list", "dict", "letter", "error", "scored", 7, "sl/ash é"]
    samples = [Sample(id=name, input=f"question {name}", target="x", metadata={"n": math.nan}) for name in names]
    samples.append(Sample(id="tool", input="use the tool", target=["x", "y"]))
    samples.append(Sample(id="tool-bad", input="use the bad tool", target="x"))
    samples.append(Sample(id="think", input="think", target="x", choices=["x", "y"]))
    parts = [ContentText(text="see"), ContentImage(image=image)]
    samples.append(Sample(id="image", input=[ChatMessageUser(content=parts)], target="x"))
    task = Task(
        dataset=MemoryDataset(samples),
        solver=[work(), use_tools(shell()), generate()],
        scorer=[odd(), second()],
        epochs=2,
        name="odd",
        metadata={"created_by": "test"},
        tags=["b", "a"],
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = evaluate(
        task,
        model=model,
        model_roles={"grader": get_model("mockllm/model", custom_outputs=outputs)},
        log_dir=str(folder),
        fail_on_error=False,
        log_model_api=True,
        display="none",
    )
    assert log.status == "success", log.error
    limited = Task(
        dataset=MemoryDataset([Sample(id="limited", input="use the tool", target="x")]),
        solver=[use_tools(shell()), generate()],
        scorer=odd(),
        message_limit=2,
        name="limited",
    )
    evaluate(limited, model=model, log_dir=str(folder), display="none")

    edited = read_eval_log(log.location)
    provenance = ProvenanceData(author="someone", reason="a mistake")
    edits = [
        TagsEdit(tags_add=["c"], tags_remove=["a"]),
        MetadataEdit(metadata_set={"new": 1}, metadata_remove=["created_by"]),
    ]
    edited = edit_eval_log(edited, edits, provenance)
    edit_score(edited, "letter", "odd", ScoreEdit(value="I", provenance=provenance), epoch=1)
    edited = invalidate_samples(edited, [edited.samples[0].uuid], provenance)
    write_eval_log(edited, str(folder / "edited.eval"))
    write_eval_log(read_eval_log(log.location), str(folder / "whole.json"))

    old = sample(1, transcript={"events": [], "content": {}})
    for name in ("events", "attachments", "uuid", "model_usage"):
        del old[name]
    head = header(results={"total_samples": 1, "completed_samples": 1, "scorer": {"name": "exact"}, "metrics": {}})
    head["eval"]["eval_id"] = ""
    write_zip(folder / "old.eval", entries(head, [old], method=DEFLATE))
    unnamed = {name: value for name, value in old.items() if name != "scores"} | {
        "score": {"value": "C", "answer": "x"}
    }
    head["eval"]["run_id"] = "older"
    (folder / "older.json").write_bytes(dumps(head | {"samples": [unnamed]}))  # scores had no names before `.eval`
    return sorted(folder.iterdir())


def stored(value: Any) -> Any:
    """A value of inspect_ai as jsonb shows it."""
    return json.loads(json.dumps(_stored(value)))


def _stored(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="python", exclude_none=True)
    if dataclasses.is_dataclass(value):
        value = dataclasses.asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_stored(key): _stored(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_stored(one) for one in value]
    return value


def without_none(value: Any) -> Any:
    """A stored value without the fields that say nothing."""
    if isinstance(value, dict):
        return {key: without_none(one) for key, one in value.items() if one is not None}
    return [without_none(one) for one in value] if isinstance(value, list) else value


def says(row: Any, told: Any) -> bool:
    """Whether the row says what inspect_ai says; what that fills in by itself, such as defaults, may be missing."""
    row, told = without_none(row), without_none(told)
    if isinstance(told, dict) and isinstance(row, dict):
        return all(name not in row or says(row[name], one) for name, one in told.items()) and set(row) <= set(told)
    if isinstance(told, list) and isinstance(row, list):
        return len(row) == len(told) and all(says(*pair) for pair in zip(row, told, strict=True))
    return row == told or (row is None and not told)


def at(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def test_w8_every_field_that_both_have(fresh_database, evaluated: list[Path]) -> None:
    from inspect_ai.log import read_eval_log

    assert len(evaluated) == 6
    for path in evaluated:
        imported(database_url := fresh_database(), path)
        log = read_eval_log(str(path), resolve_attachments="full")
        compare_eval(database_url, log)
        for one in log.samples:
            compare_sample(database_url, log, one)
        counted = rows(database_url, "SELECT count(*) AS n FROM log_sample WHERE location = %(l)s", l=path.as_uri())
        assert counted == [{"n": len(log.samples)}]


def compare_eval(url: str, log: Any) -> None:
    (row,) = rows(url, "SELECT * FROM eval WHERE id = %(id)s", id=log.eval.eval_id)
    spec, stats, results = log.eval, log.stats, log.results
    same = {
        "run_id": spec.run_id or None,
        "task_id": spec.task_id or None,
        "task_name": spec.task,
        "task_version": str(spec.task_version),
        "task_display_name": spec.task_display_name,
        "model": spec.model,
        "model_base_url": spec.model_base_url,
        "solver": spec.solver,
        "dataset_name": spec.dataset.name,
        "dataset_location": spec.dataset.location,
        "dataset_samples": spec.dataset.samples,
        "epochs": spec.config.epochs,
        "status": log.status,
        "invalidated": log.invalidated,
        "error_message": log.error.message if log.error else None,
        "error_traceback": log.error.traceback if log.error else None,
        "eval_set_id": (spec.metadata or {}).get("eval_set_id") or spec.eval_set_id,
        "agent": spec.solver or ",".join(step.solver for step in log.plan.steps) or None,
        "updated_at": max((update.provenance.timestamp for update in log.log_updates or []), default=None),
        "created_at": at(spec.created),
        "started_at": at(stats.started_at),
        "completed_at": at(stats.completed_at),
        "total_samples": results.total_samples,
        "completed_samples": results.completed_samples,
        "sample_count": len(log.samples),
        "errored_sample_count": sum(one.error is not None for one in log.samples),
        "tags": log.tags,
        "metadata": stored(log.metadata),
        "packages": stored(spec.packages),
        "task_args": stored(spec.task_args),
    }
    assert {name: row[name] for name in same} == same
    assert without_none(row["model_usage"]) == stored(stats.model_usage)
    for name, told in {
        "model_args": spec.model_args,
        "model_generate_config": spec.model_generate_config,
        "solver_args": spec.solver_args,
        "config": spec.config,
        "revision": spec.revision,
        "plan": log.plan,
        **({"results": results} if "scores" in row["results"] else {}),  # old logs: one `scorer`
    }.items():
        assert says(row[name], stored(told)), name
    roles = rows(url, "SELECT * FROM model_role WHERE eval_id = %(id)s ORDER BY role, ordinal", id=spec.eval_id)
    bound = {role: one if isinstance(one, list) else [one] for role, one in (spec.model_roles or {}).items()}
    wanted = [
        (role, number, config) for role, configs in sorted(bound.items()) for number, config in enumerate(configs)
    ]
    assert len(roles) == len(wanted)
    for found, (role, number, config) in zip(roles, wanted, strict=True):
        assert (found["role"], found["ordinal"], found["model"], found["base_url"]) == (
            role,
            number,
            config.model,
            config.base_url,
        )
        assert says(found["config"], stored(config.config))
        assert says(found["args"], stored(config.args))


def compare_sample(url: str, log: Any, one: Any) -> None:
    (row,) = rows(
        url,
        "SELECT * FROM sample WHERE eval_id = %(e)s AND id = %(i)s AND epoch = %(n)s",
        e=log.eval.eval_id,
        i=str(one.id),
        n=one.epoch,
    )
    error, limit = one.error, one.limit
    same = {
        "uuid": one.uuid or row["uuid"],
        "target": stored(one.target),
        "choices": one.choices,
        "metadata": stored(one.metadata),
        "started_at": at(one.started_at),
        "completed_at": at(one.completed_at),
        "total_seconds": one.total_time,
        "working_seconds": one.working_time,
        "error_message": stored(error.message) if error else None,
        "error_traceback": stored(error.traceback) if error else None,
        "error_retries": len(one.error_retries or []),
        "limit_type": limit.type if limit else None,
        "limit_value": limit.limit if limit else None,
        "limit_reason": limit.reason if limit else None,
        "turn_count": one.turn_count,
        "message_count": len(one.messages),
        "action_count": sum(event.event == "tool" for event in one.events),
        "generation_count": sum(event.event == "model" for event in one.events),
        **{name: total(one.model_usage.values(), name) for name in TOKENS},
    }
    assert {name: row[name] for name in same} == same
    assert without_none(row["input"]) == stored(one.input)
    told = without_none(stored(one.output))
    if "completion" not in row["output"]:  # old logs have it only as the text of the first choice
        del told["completion"]
    assert without_none(row["output"]) == told
    assert (row["invalidation"] is None) == (one.invalidation is None)
    spent = sum(event.working_time or 0 for event in one.events if event.event == "model")
    assert row["generation_seconds"] == pytest.approx(spent)
    compare_scores(url, row["uuid"], one)
    compare_messages(url, row["uuid"], one)
    assert without_none(row["model_usage"]) == stored(one.model_usage)
    if one.invalidation is not None:
        assert says(row["invalidation"], json.loads(one.invalidation.model_dump_json()))
    found = rows(url, "SELECT * FROM sample_model WHERE sample_uuid = %(u)s", u=row["uuid"])
    models = {row["model"]: tuple(row[name] for name in TOKENS) for row in found}
    spent_by = {name: tuple(getattr(usage, name) for name in TOKENS) for name, usage in one.model_usage.items()}
    assert models | spent_by == models
    assert set(models) == set(spent_by) | {event.model for event in one.events if event.event == "model"}


TOKENS = (
    *("input_tokens", "output_tokens", "total_tokens"),
    *("reasoning_tokens", "input_tokens_cache_read", "input_tokens_cache_write"),
)


def total(usages: Iterable[Any], name: str) -> int | None:
    """Of all models; None if none of them says."""
    known = [getattr(usage, name) for usage in usages if getattr(usage, name) is not None]
    return sum(known) if known else None


def compare_scores(url: str, uuid: str, one: Any) -> None:
    found = rows(url, "SELECT * FROM score WHERE sample_uuid = %(u)s ORDER BY scorer, ordinal", u=uuid)
    final = {row["scorer"]: row for row in found if row["ordinal"] == 0}
    assert set(final) == set(one.scores or {})
    for name, score in (one.scores or {}).items():
        row = final[name]
        assert (row["value"], row["answer"], row["explanation"], row["metadata"]) == (
            stored(score.value),
            stored(score.answer),
            stored(score.explanation),
            stored(score.metadata),
        )
        if isinstance(score.value, int | float):
            assert row["value_float"] == float(score.value) or (
                math.isnan(row["value_float"]) and math.isnan(score.value)
            )
    halfway = [event for event in one.events if event.event == "score" and event.intermediate]
    assert len([row for row in found if row["is_intermediate"]]) == len(halfway)
    numbers: dict[str, int] = {}
    for event in halfway:
        numbers[event.scorer] = numbers.get(event.scorer, 0) + 1
        (row,) = [one for one in found if (one["scorer"], one["ordinal"]) == (event.scorer, numbers[event.scorer])]
        score = event.score
        assert (row["value"], row["answer"], row["explanation"], row["metadata"], row["is_intermediate"]) == (
            stored(score.value),
            stored(score.answer),
            stored(score.explanation),
            stored(score.metadata),
            True,
        )


def compare_messages(url: str, uuid: str, one: Any) -> None:
    found = rows(url, "SELECT * FROM message WHERE sample_uuid = %(u)s ORDER BY ordinal", u=uuid)
    assert len(found) == len(one.messages)
    for row, message in zip(found, one.messages, strict=True):
        same = {
            "message_id": message.id or row["message_id"],
            "role": message.role,
            "source": message.source,
            "text": stored(message.text),
            "model": getattr(message, "model", None),
            "tool_call_id": getattr(message, "tool_call_id", None),
            "tool_function": getattr(message, "function", None),
        }
        assert {name: row[name] for name in same} == same
        error = getattr(message, "error", None)
        assert (row["tool_error_type"], row["tool_error_message"]) == (
            (error.type, error.message) if error else (None, None)
        )
        calls = getattr(message, "tool_calls", None)
        assert says(row["tool_calls"], stored(calls or None))
        assert says(row["metadata"], stored(message.metadata))
        parts = message.content if isinstance(message.content, list) else []
        reasoning = [part.reasoning for part in parts if part.type == "reasoning"]
        assert row["reasoning"] == ("\n".join(reasoning) if reasoning else None)
