"""What the state machine refuses, and what becomes of bad lists and bad items (R8, R10, "Bad input")."""

import json
from typing import Any

import pytest

from tests.sandbox.reimport import logs
from tests.sandbox.reimport.operating import Operator

GOOD = {"list_key": "lists/never-uploaded.json"}
REFUSED: list[tuple[Any, list[str]]] = [
    ({}, ["list_key"]),
    ({"list_key": 3}, ["list_key", "3"]),
    ({"list_key": "other/x.json"}, ["list_key", "other/x.json", "lists/"]),
    ({**GOOD, "max_concurrency": 33}, ["max_concurrency", "33", "1", "32"]),
    ({**GOOD, "max_concurrency": 0}, ["max_concurrency", "0", "1", "32"]),
    ({**GOOD, "max_concurrency": "8"}, ["max_concurrency", "8"]),
    ({**GOOD, "max_concurrency": 1.5}, ["max_concurrency", "1.5"]),
    ({**GOOD, "max_concurrency": None}, ["max_concurrency", "null"]),
    ({**GOOD, "tolerated_failure_percentage": 101}, ["tolerated_failure_percentage", "101", "100"]),
    ({**GOOD, "tolerated_failure_percentage": -1}, ["tolerated_failure_percentage", "-1"]),
    ({**GOOD, "tolerated_failure_percentage": "x"}, ["tolerated_failure_percentage", "x"]),
    ({**GOOD, "maxConcurrency": 8}, ["maxConcurrency", "max_concurrency"]),
    ([], ["object"]),
    ("lists/x.json", ["object"]),
]


@pytest.mark.parametrize(("given", "named"), REFUSED, ids=lambda value: json.dumps(value)[:60])
def test_r10_input_is_refused_before_any_job(operator: Operator, given: Any, named: list[str]) -> None:
    execution = operator.start_input(given)
    ended = operator.ended(execution)
    assert ended["status"] == "FAILED"
    assert all(word in ended["cause"] for word in named), ended["cause"]
    assert not operator.sfn.list_map_runs(executionArn=execution)["mapRuns"]
    assert not operator.jobs(execution)


def test_r10_a_comment_is_no_unknown_field(operator: Operator) -> None:
    with operator.quiet():
        item = operator.put(logs.clone(1))
    execution = operator.start([item], Comment="asked for by nobody", adaptive=False)
    assert operator.ended(execution)["status"] == "SUCCEEDED"


def test_r22_bad_items_fail_alone(operator: Operator) -> None:
    with operator.quiet():
        good = [operator.put(logs.clone(n)) for n in range(2)]
    bad: list[Any] = [{"key": 7}, {"key": None}, {"size": 3}, "evals/x.eval", None, 5, [1]]
    execution = operator.start([good[0], *bad, good[1]], tolerated_failure_percentage=100)
    assert operator.ended(execution)["status"] == "SUCCEEDED"
    assert operator.counts(execution)["succeeded"] == 2
    assert operator.counts(execution)["failed"] == len(bad)
    assert len(operator.jobs(execution)) == 2
    causes = [record["Cause"] for record in operator.results(execution)["FAILED"]]
    assert len(causes) == len(bad)
    assert all("key" in cause for cause in causes)


@pytest.mark.parametrize("content", [b'{"key": "evals/x.eval"}', b'"evals/x.eval"', b"no json", b""])
def test_a_list_that_is_no_array_fails_without_jobs(operator: Operator, content: bytes) -> None:
    execution = operator.start(content)
    assert operator.ended(execution)["status"] == "FAILED"
    assert not operator.jobs(execution)


def test_a_missing_list_fails_as_item_reader_failed(operator: Operator) -> None:
    ended = operator.ended(operator.start_input(GOOD))
    assert (ended["status"], ended["error"]) == ("FAILED", "States.ItemReaderFailed")


def test_an_empty_list_ends_without_a_job(operator: Operator) -> None:
    execution = operator.start([])
    assert operator.ended(execution)["status"] in ("SUCCEEDED", "FAILED")
    assert not operator.jobs(execution)


NASTY = [
    "a b+c%2B.eval",
    "\u00e9\u2713.eval",
    "#?&=.eval",
    "back\\slash.eval",
    "quo\"te,'.eval",
    "../up/../x.eval",
    "a//b.eval",
    "\x1b[31mred\x1b[0m\n.eval",
    "Ref::key $(HOME) {% $states %}.eval",
    "\u00e9" * 503 + ".eval",  # below evals/nasty/ that makes 1,023 bytes
]


def test_keys_are_literal_s3_keys(operator: Operator) -> None:
    with operator.quiet():
        items = [operator.put(logs.clone(100 + n), f"evals/nasty/{name}") for n, name in enumerate(NASTY)]
    execution = operator.start(items)
    assert operator.ended(execution)["status"] == "SUCCEEDED"
    keys = [record["Input"] for record in operator.results(execution)["SUCCEEDED"]]
    assert sorted(json.loads(key)["key"] for key in keys) == sorted(item["key"] for item in items)
    for n in range(len(NASTY)):
        assert operator.rows("select count(*) from eval where id = %s", logs.eval_id(logs.clone(100 + n))) == [(1,)]


def test_a_wrong_size_picks_another_tier_and_nothing_else(operator: Operator) -> None:
    with operator.quiet():
        item = operator.put(logs.clone(5))
    memory = []
    for size in (1, 50_000_000, None):
        execution = operator.start([{"key": item["key"], **({"size": size} if size else {})}])
        assert operator.ended(execution)["status"] == "SUCCEEDED"
        [job] = operator.jobs(execution)
        memory += [r["value"] for r in job["container"]["resourceRequirements"] if r["type"] == "MEMORY"]
    assert memory == ["1024", "2048", "2048"]
