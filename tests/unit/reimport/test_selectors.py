"""Selectors (R19)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from longhaul.reimport.errors import InvalidArgumentError
from longhaul.reimport.selectors import Selector, Tally, moment, select

LOGS = "logs-bucket"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def put(s3: Any, *keys: str, body: bytes = b"x") -> None:
    for key in keys:
        s3.put_object(Bucket=LOGS, Key=key, Body=body)


def test_markers_and_other_files_are_no_logs(s3: Any) -> None:
    """case-R05: "folder/" markers, other suffixes and buffers are skipped."""
    put(s3, "evals/logs/", body=b"")
    put(s3, "evals/logs/x.json", "evals/logs/.buffer/seg", "evals/logs/good.eval", "other/a.eval")
    assert list(select(s3, LOGS, Selector())) == [("evals/logs/good.eval", 1)]


def test_the_tally_says_what_was_passed_by(s3: Any) -> None:
    """A .json file may be a log, a marker and a buffer never are; a set that is misspelt has none."""
    put(s3, "evals/a/", "evals/a/.buffer/seg", "evals/a/1.eval", "evals/a/2.json", "evals/b/1.json")
    tally = Tally()
    found = list(select(s3, LOGS, Selector(eval_set_ids=("a", "b", "nope")), tally))
    assert [key for key, _ in found] == ["evals/a/1.eval"]
    assert tally == Tally(eval_set_ids={"a"}, other_files=2)
    small = Tally()
    assert list(select(s3, LOGS, Selector(min_bytes=2), small)) == []
    assert small == Tally()


def test_all_pages_are_read(s3: Any, hook: Any) -> None:
    """case-R06: a listing of several pages (of ten here, of a thousand on AWS)."""
    put(s3, *(f"evals/a/{i:04}.eval" for i in range(26)))
    hook("provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": 10})
    assert len({key for key, _ in select(s3, LOGS, Selector(prefix="evals/a/"))}) == 26


def test_eval_sets_are_whole_names(s3: Any) -> None:
    put(s3, "evals/a/1.eval", "evals/ab/1.eval", "evals/b/1.eval")
    found = [key for key, _ in select(s3, LOGS, Selector(eval_set_ids=("b", "a", "a")))]
    assert found == ["evals/a/1.eval", "evals/b/1.eval"]


def test_eval_sets_and_prefix_both_hold(s3: Any) -> None:
    put(s3, "evals/a/x/1.eval", "evals/a/y/1.eval", "evals/b/x/1.eval")
    selector = Selector(prefix="evals/a/x/", eval_set_ids=("a", "b"))
    assert [key for key, _ in select(s3, LOGS, selector)] == ["evals/a/x/1.eval"]


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        (Selector(modified_since=NOON), True),
        (Selector(modified_until=NOON), False),
        (Selector(modified_since=datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC)), False),
        (Selector(modified_until=datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC)), True),
        (Selector(min_bytes=5, max_bytes=5), True),
        (Selector(min_bytes=6), False),
        (Selector(max_bytes=4), False),
    ],
)
def test_bounds(selector: Selector, taken: bool) -> None:
    assert selector.takes(key="evals/a.eval", size_bytes=5, modified=NOON) is taken


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ({"prefixes": "evals/"}, "prefixes"),
        ({"prefix": "lists/"}, "prefix"),
        ({"eval_set_ids": "abc"}, "eval_set_ids"),
        ({"eval_set_ids": ["a/b"]}, "eval-set id"),
        ({"eval_set_ids": [""]}, "eval-set id"),
        ({"modified_since": "yesterday"}, "yesterday"),
        ({"min_bytes": "5"}, "min_bytes"),
        ({"max_bytes": -1}, "max_bytes"),
        ({"min_bytes": 100, "max_bytes": 50}, "at least 100 and at most 50"),
        (
            {"modified_since": "2026-06-02", "modified_until": "2026-06-01"},
            "at or after 2026-06-02.* before 2026-06-01",
        ),
    ],
)
def test_a_wrong_selector_never_selects_everything(event: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        Selector.from_event(event)


def test_moments() -> None:
    assert moment("2026-06-01") == datetime(2026, 6, 1, tzinfo=UTC)
    assert moment("2026-06-01T12:00:00+02:00") == datetime(2026, 6, 1, 10, tzinfo=UTC)
