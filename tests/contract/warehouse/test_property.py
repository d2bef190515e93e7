"""W1, W3, W5 for logs that hypothesis makes and shrinks: any versions in any order equal a fresh import row by row."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longhaul.importer.outcome import Outcome
from tests.contract.warehouse.support import attempt, contents, values
from tests.contract.warehouse.test_convergence import edited, settle, updates
from tests.logs import header, sample, write_log

EXAMPLES = int(os.environ.get("LONGHAUL_EXAMPLES", "12"))
SECONDS = st.sampled_from([f"2026-01-01T00:00:0{n}+00:00" for n in range(3)])
NUMBERS = st.sampled_from([0, 1, 0.5, float("nan"), float("-inf"), "C", "0.85", None, [1], {"a": 1}])


def some(names: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Values for some of the names."""
    return st.dictionaries(st.sampled_from(names), values, max_size=3)


@st.composite
def samples(draw: st.DrawFn) -> dict[str, Any]:
    """One sample; few uuids and places, so that logs share them."""
    message = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.sampled_from("xyé")})
    event = st.fixed_dictionaries(
        {
            "event": st.sampled_from(["model", "tool", "score"]),
            "model": st.sampled_from("mn"),
            "intermediate": st.booleans(),
            "scorer": st.sampled_from("pq"),
            "score": st.fixed_dictionaries({"value": NUMBERS}),
        }
    )
    error = st.fixed_dictionaries({"message": st.sampled_from(["boom", "b\0m"]), "traceback": st.just("")})
    return sample(
        draw(st.integers(1, 3)),
        uuid=draw(st.sampled_from(["u1", "u2", "u3", "u4"])),
        completed_at=draw(st.none() | SECONDS),
        input=draw(st.sampled_from(["one", "two"])),
        messages=draw(st.lists(message, max_size=3)),
        events=draw(st.lists(event, max_size=3)),
        scores=draw(some("abc", st.fixed_dictionaries({"value": NUMBERS}))),
        model_usage=draw(some("mno", st.fixed_dictionaries({"input_tokens": st.integers(0, 2**40)}))),
        error=draw(st.none() | error),
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and samples; within a log no uuid and no place comes twice."""
    found = draw(st.lists(samples(), max_size=3, unique_by=(lambda one: one["uuid"], lambda one: one["id"])))
    head = header(
        draw(st.sampled_from(["e1", "e2"])),
        samples=len(found),
        status=draw(st.sampled_from(["success", "error", "cancelled"])),
        log_updates=draw(st.sampled_from([None, edited(1), edited(2)])),
        eval={
            "created": draw(SECONDS),
            "model_roles": draw(some("gj", st.fixed_dictionaries({"model": st.sampled_from(["x", "y"])}))),
        },
    )
    return head, found


STEPS = st.lists(st.tuples(st.sampled_from("abc"), logs(), st.booleans()), min_size=1, max_size=6)


def place(uuid: str, second: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A log whose only sample stands at the first place."""
    return header("e1"), [sample(1, uuid=uuid, completed_at=f"2026-01-01T00:00:0{second}+00:00")]


@pytest.mark.timeout(900)  # when it fails: shrinking takes minutes
def test_w1_w3_w5_any_versions_in_any_order(
    database_url: str, fresh_database: Callable[[], str], tmp_path: Path
) -> None:
    other = fresh_database()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="LONGHAUL_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    @given(steps=STEPS)
    @example(steps=[("a", place("u1", 0), False), ("b", place("u2", 1), False)])  # one place, another sample
    def check(steps: list[tuple[str, Any, bool]]) -> None:
        for url in (database_url, other):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DELETE FROM log; DELETE FROM sample; DELETE FROM eval")  # the rest cascades
        paths: dict[str, Path] = {}
        for number, (name, (head, found), force) in enumerate(steps):
            path = paths[name] = tmp_path / f"{name}.eval"
            write_log(path, found, head=head)
            os.utime(path, ns=(number, number))
            result = attempt(database_url, path, force=force)
            assert result.outcome in (Outcome.IMPORTED, Outcome.UNCHANGED), result
        settle(database_url)
        for name in sorted(paths, reverse=len(steps) % 2 == 0):
            assert attempt(other, paths[name]).outcome is Outcome.IMPORTED
        settle(other)
        assert contents(database_url) == contents(other)
        before = updates(database_url)
        for path in paths.values():
            assert attempt(database_url, path, force=True).rows_changed == 0
        assert updates(database_url) == before
        assert values(database_url, "SELECT count(*) FROM stale_log") == [0]

    check()
