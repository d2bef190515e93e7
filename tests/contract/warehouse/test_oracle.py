"""W8: our rows equal what inspect_ai says of the same file, for every field that both have."""

from __future__ import annotations

import base64
import json
import math
import os
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
    roles = rows(url, "SELECT role, model FROM model_role WHERE eval_id = %(id)s", id=spec.eval_id)
    assert {one["role"]: one["model"] for one in roles} == {r: m.model for r, m in (spec.model_roles or {}).items()}


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
        "total_tokens": sum(usage.total_tokens for usage in one.model_usage.values()) if one.model_usage else None,
        "input_tokens": sum(usage.input_tokens for usage in one.model_usage.values()) if one.model_usage else None,
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
    models = rows(url, "SELECT model, total_tokens FROM sample_model WHERE sample_uuid = %(u)s", u=row["uuid"])
    told = {name: usage.total_tokens for name, usage in one.model_usage.items()}
    assert {row["model"]: row["total_tokens"] for row in models} | told == {
        row["model"]: row["total_tokens"] for row in models
    }


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
    for event in halfway:
        assert any(
            row["scorer"] == event.scorer and row["value"] == stored(event.score.value) and row["is_intermediate"]
            for row in found
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
        assert [(call["id"], call["function"], call["arguments"]) for call in row["tool_calls"] or []] == [
            (call.id, call.function, call.arguments) for call in calls or []
        ]
        parts = message.content if isinstance(message.content, list) else []
        reasoning = [part.reasoning for part in parts if part.type == "reasoning"]
        assert row["reasoning"] == ("\n".join(reasoning) if reasoning else None)
