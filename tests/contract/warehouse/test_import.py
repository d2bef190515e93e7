"""What one import leaves in the warehouse, for logs of every shape. Cases are those of docs/rules.md."""

from __future__ import annotations

import gc
import json
import math
from pathlib import Path

import pytest

from longhaul.evallog import log as logs
from longhaul.importer.outcome import Outcome
from tests.contract.warehouse.support import attempt, contents, imported, rows, values
from tests.logs import DEFLATE, ZSTD, dumps, entries, header, sample, write_log, write_zip


def test_a_simple_log(database_url: str, tmp_path: Path) -> None:
    result = imported(database_url, write_log(tmp_path / "a.eval", [sample(1), sample(2)]))
    assert (result.samples, result.scores, result.messages) == (2, 2, 4)
    (eval_row,) = rows(database_url, "SELECT * FROM eval")
    assert eval_row["id"] == result.eval_id == "eval-1"
    assert (eval_row["eval_set_id"], eval_row["agent"], eval_row["sample_count"]) == ("set-1", "generate", 2)
    assert eval_row["metadata"] == {"eval_set_id": "set-1"}
    first = rows(database_url, "SELECT * FROM sample ORDER BY id")[0]
    assert (first["input"], first["total_tokens"], first["message_count"]) == ("What is it?", 15, 2)
    assert (first["action_count"], first["generation_count"], first["generation_seconds"]) == (1, 1, 0.25)
    assert values(database_url, "SELECT text FROM message ORDER BY sample_uuid, ordinal LIMIT 2") == [
        "What is it?",
        "this",
    ]
    assert rows(database_url, "SELECT outcome, exit_code, samples, rows_changed > 0 AS any FROM import_run") == [
        {"outcome": "imported", "exit_code": 0, "samples": 2, "any": True}
    ]


def test_the_eval_set_comes_from_the_key_when_the_log_does_not_name_it(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "evals" / "set-from-key").mkdir(parents=True)
    head = header(eval={"metadata": None}, samples=0, results=None)
    imported(database_url, write_log(tmp_path / "evals" / "set-from-key" / "a.eval", head=head))
    assert values(database_url, "SELECT eval_set_id FROM eval") == ["set-from-key"]


def test_messages_can_be_switched_off_and_on_again(database_url: str, tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.eval", [sample(1)])
    imported(database_url, path)
    imported(database_url, path, with_messages=False)
    assert values(database_url, "SELECT count(*) FROM message") == [0]
    imported(database_url, path)
    assert values(database_url, "SELECT count(*) FROM message") == [2]


def test_case_l01_a_log_cut_off_beside_a_good_one(database_url: str, tmp_path: Path) -> None:
    good = write_log(tmp_path / "good.eval", [sample(1)])
    bad = write_log(tmp_path / "bad.eval", [sample(2)], head=header("eval-2"))
    bad.write_bytes(bad.read_bytes()[:-200])
    result = attempt(database_url, bad)
    assert (result.outcome, result.outcome.exit_code) == (Outcome.DAMAGED_LOG, 10)
    assert "corrupt archive" in str(result.reason)
    assert "\n" not in str(result.reason)
    imported(database_url, good)
    assert values(database_url, "SELECT id FROM eval") == ["eval-1"]
    assert values(database_url, "SELECT outcome FROM import_run ORDER BY id") == ["damaged_log", "imported"]


def test_case_l02_deflate_and_zstd_give_the_same_rows(database_url: str, fresh_database, tmp_path: Path) -> None:
    samples = [sample(n) for n in range(3)]
    path = tmp_path / "a.eval"
    found = []
    for method, url in ((ZSTD, database_url), (DEFLATE, fresh_database())):
        imported(url, write_log(path, samples, method=method))
        said = contents(url)
        found.append({table: said[table] for table in ("sample", "score", "message", "sample_model", "log_sample")})
    assert found[0] == found[1]


def test_case_l04_non_finite_scores_stay_distinguishable(database_url: str, tmp_path: Path) -> None:
    numbers = {"nan": math.nan, "inf": math.inf, "neg": -math.inf, "zero": 0}
    samples = [sample(name, scores={"s": {"value": value}}) for name, value in numbers.items()]
    head = header(samples=4, results={"total_samples": 4, "completed_samples": 4, "scores": [], "x": math.nan})
    imported(database_url, write_log(tmp_path / "a.eval", samples, head=head))
    found = {
        row["id"]: (row["value"], row["value_float"])
        for row in rows(database_url, "SELECT s.id, value, value_float FROM score JOIN sample s ON uuid = sample_uuid")
    }
    assert {name: value for name, (value, _) in found.items()} == {
        "nan": "NaN",
        "inf": "Infinity",
        "neg": "-Infinity",
        "zero": 0,
    }
    assert math.isnan(found["nan"][1])
    assert [found[name][1] for name in ("inf", "neg", "zero")] == [math.inf, -math.inf, 0.0]


def test_case_l06_nul_is_dropped_and_everything_around_it_kept(database_url: str, tmp_path: Path) -> None:
    odd = sample(
        1,
        output={"completion": "be\0fore"},
        metadata={"k\0ey": "va\0lue", "back\\u0000slash": 1},
        error={"message": "bo\0om", "traceback": "tr\0ace"},
        messages=[{"role": "user", "content": "m\0sg"}],
    )
    imported(database_url, write_log(tmp_path / "a.eval", [odd, sample(2)]))
    row, other = rows(database_url, "SELECT * FROM sample ORDER BY id")
    assert row["output"] == {"completion": "before"}
    assert row["metadata"] == {"key": "value", "back\\u0000slash": 1}
    assert (row["error_message"], row["error_traceback"]) == ("boom", "trace")
    assert other["error_message"] is None
    assert "msg" in values(database_url, "SELECT text FROM message")


def test_lone_surrogates_huge_integers_and_numbers_beyond_a_double(database_url: str, tmp_path: Path) -> None:
    metadata = {"lone": "a\ud800b", "pair": "\U0001f600", "big": 2**70}
    path = write_zip(tmp_path / "a.eval", entries(header(), [sample(1, metadata=metadata, total_time=math.inf)]))
    raw = dumps(sample(2, metadata="HERE")).replace(b'"HERE"', b'{"huge": 1e400, "escape": "\\ud83d x"}')
    imported(database_url, path)
    (row,) = rows(database_url, "SELECT metadata, metadata->>'big' AS big, total_seconds FROM sample")
    assert row["metadata"]["lone"].replace("\ufffd", "") == "ab"
    assert row["metadata"]["pair"] == "\U0001f600"
    assert (row["big"], row["total_seconds"]) == (str(2**70), math.inf)

    second = entries(header("eval-2"), [sample(2)])
    second[1].data = raw
    imported(database_url, write_zip(tmp_path / "b.eval", second))
    (row,) = rows(
        database_url, "SELECT metadata->>'huge' AS huge, metadata->>'escape' AS text FROM sample WHERE id = '2'"
    )
    assert (int(row["huge"]), row["text"]) == (10**400, "\ufffd x")


def test_a_number_too_long_for_jsonb_becomes_an_infinity(database_url: str, tmp_path: Path) -> None:
    members = entries(header(), [sample(1)])
    members[1].data = members[1].data.replace(b'"difficulty": 3', b'"difficulty": -1e200000, "b": 1e-200000')
    imported(database_url, write_zip(tmp_path / "a.eval", members))
    assert values(database_url, "SELECT metadata FROM sample") == [{"difficulty": "-Infinity", "b": 0}]


def test_case_l08_odd_ids_stay_exact_and_apart(database_url: str, tmp_path: Path) -> None:
    ids = ["a:b", "a/b", "é 1", "007", 7]
    imported(database_url, write_log(tmp_path / "a.eval", [sample(name) for name in ids]))
    assert sorted(values(database_url, "SELECT id FROM sample")) == sorted(str(name) for name in ids)


def test_case_l11_an_eval_error_is_not_the_samples_error(database_url: str, tmp_path: Path) -> None:
    samples = [sample(n, error={"message": "own", "traceback": ""} if n < 2 else None) for n in range(6)]
    head = header(status="error", samples=6, error={"message": "eval", "traceback": "t"})
    imported(database_url, write_log(tmp_path / "a.eval", samples, head=head))
    assert values(database_url, "SELECT id FROM sample WHERE error_message IS NOT NULL ORDER BY id") == ["0", "1"]
    (row,) = rows(database_url, "SELECT status, error_message, completed_samples, errored_sample_count FROM eval")
    assert tuple(row.values()) == ("error", "eval", 6, 2)


def test_case_l12_several_scorers_none_and_absent(database_url: str, tmp_path: Path) -> None:
    two, empty, absent = (
        sample("two", scores={"a": {"value": 1}, "b": {"value": 2}}),
        sample("empty", scores={}),
        sample("absent"),
    )
    del absent["scores"]
    imported(database_url, write_log(tmp_path / "a.eval", [two, empty, absent]))
    counts = rows(
        database_url,
        "SELECT id, count(sample_uuid) AS n FROM sample LEFT JOIN score ON uuid = sample_uuid GROUP BY id ORDER BY id",
    )
    assert {row["id"]: row["n"] for row in counts} == {"absent": 0, "empty": 0, "two": 2}


def test_case_l13_a_cancelled_log_without_results(database_url: str, tmp_path: Path) -> None:
    head = header(status="cancelled", samples=5, results=None)
    result = imported(database_url, write_log(tmp_path / "a.eval", [sample(1), sample(2)], head=head))
    assert result.samples == 2
    assert rows(database_url, "SELECT status, dataset_samples, sample_count FROM eval") == [
        {"status": "cancelled", "dataset_samples": 5, "sample_count": 2}
    ]


def test_case_l14_a_log_still_being_written_and_then_finished(
    database_url: str, fresh_database, tmp_path: Path
) -> None:
    path, samples = tmp_path / "a.eval", [sample(1), sample(2), sample(3)]
    write_zip(path, entries(None, samples[:2]))
    result = attempt(database_url, path)
    assert (result.outcome, result.outcome.exit_code) == (Outcome.LOG_CHANGED, 21)
    assert values(database_url, "SELECT count(*) FROM eval") == [0]
    imported(database_url, path, allow_started=True)
    assert rows(database_url, "SELECT status, sample_count FROM eval") == [{"status": "started", "sample_count": 2}]
    write_log(path, samples)
    imported(database_url, path)
    imported(other := fresh_database(), path)
    assert contents(database_url) == contents(other)


def test_case_l15_no_stored_text_is_a_reference(database_url: str, tmp_path: Path) -> None:
    long, image, lost = "long text " * 99, "data:image/png;base64," + "A" * 400, "0" * 32
    names = {"1" * 32: long, "2" * 32: image}
    odd = sample(
        1,
        input=[{"role": "user", "content": [{"type": "image", "image": f"attachment://{'2' * 32}"}]}],
        messages=[
            {"role": "user", "content": f"attachment://{'1' * 32}"},
            {"role": "user", "content": f"tc://{'1' * 32}"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": f"attachment://{'1' * 32}"}],
                "tool_calls": [{"id": "t", "function": "f", "arguments": {"x": f"attachment://{'1' * 32}"}}],
            },
            {"role": "tool", "content": f"attachment://{lost}"},
        ],
        output={"completion": f"attachment://{'1' * 32}"},
        scores={"s": {"value": "x", "explanation": f"attachment://{'1' * 32}"}},
        attachments=names,
    )
    imported(database_url, write_log(tmp_path / "a.eval", [odd]))
    assert values(database_url, "SELECT text FROM message ORDER BY ordinal") == [
        long,
        long,
        long,
        f"[the log lacks attachment {lost}]",
    ]
    assert values(database_url, "SELECT tool_calls #>> '{0,arguments,x}' FROM message WHERE ordinal = 2") == [long]
    assert values(database_url, "SELECT output->>'completion' FROM sample") == [long]
    assert values(database_url, "SELECT input #>> '{0,content,0,image}' FROM sample") == [image]
    assert values(database_url, "SELECT explanation FROM score") == [long]
    assert "attachment://" not in json.dumps(contents(database_url))


def test_case_l20_values_are_kept_as_they_are(database_url: str, tmp_path: Path) -> None:
    given = ["C", "I", "P", "N", "0.85", True, 4, {"a": 1}, ["x"]]
    samples = [sample(n, scores={"s": {"value": value}}) for n, value in enumerate(given)]
    imported(database_url, write_log(tmp_path / "a.eval", samples))
    found = rows(
        database_url, "SELECT value, value_float FROM score JOIN sample ON uuid = sample_uuid ORDER BY sample.id::int"
    )
    assert [row["value"] for row in found] == given
    assert [row["value_float"] for row in found] == [1.0, 0.0, 0.5, 0.0, 0.85, 1.0, 4.0, None, None]


def test_of_two_samples_with_one_id_and_epoch_or_one_uuid_the_last_counts(database_url: str, tmp_path: Path) -> None:
    first, second, third = sample(1, uuid="a"), sample(1, uuid="b"), sample(2, uuid="b", input="last")
    document = header(samples=3) | {"samples": [first, second, third]}
    path = tmp_path / "a.json"
    path.write_bytes(dumps(document))
    result = imported(database_url, path)
    assert (result.samples, result.superseded_samples) == (1, 2)
    assert rows(database_url, "SELECT uuid, id, input FROM sample") == [{"uuid": "b", "id": "2", "input": "last"}]
    assert values(database_url, "SELECT count(*) FROM message") == [2]


def test_layouts_that_would_be_imported_by_half_are_refused(database_url: str, tmp_path: Path) -> None:
    members = entries(header(), [sample(1)])
    members[1].name = "samples/1_epoch_1/sample.json"
    chunked = attempt(database_url, write_zip(tmp_path / "chunked.eval", members))
    (tmp_path / "m.shards" / "0").mkdir(parents=True)
    shard = attempt(database_url, write_log(tmp_path / "m.shards" / "0" / "a.eval", [sample(1)]))
    empty = attempt(database_url, write_log(tmp_path / "empty.eval", [], head=header(samples=3)))
    for result, reason in ((chunked, "several parts"), (shard, "shard"), (empty, "no samples")):
        assert (result.outcome.exit_code, reason in str(result.reason)) == (10, True), result
    assert values(database_url, "SELECT count(*) FROM eval") == [0]


@pytest.mark.parametrize("missing", ["plan", "results", "stats"])
def test_everything_optional_may_be_missing(database_url: str, tmp_path: Path, missing: str) -> None:
    head = header(samples=1)
    del head[missing]
    bare = {"id": 1, "epoch": 1, "input": "x", "target": "y"}
    imported(database_url, write_log(tmp_path / "a.eval", [bare], head=head))
    assert values(database_url, "SELECT message_count FROM sample") == [0]


def test_model_roles_limits_and_intermediate_scores(database_url: str, tmp_path: Path) -> None:
    roles = {"grader": {"model": "m/a", "config": {}, "args": {}}, "panel": [{"model": "m/b"}, {"model": "m/c"}]}
    events = [
        {"event": "score", "intermediate": True, "scorer": name, "score": {"value": n}} for n, name in enumerate("aab")
    ]
    odd = sample(1, limit={"type": "brand_new_limit", "limit": 1e400, "reason": "why"}, events=events)
    imported(database_url, write_log(tmp_path / "a.eval", [odd], head=header(eval={"model_roles": roles})))
    assert [
        tuple(row.values()) for row in rows(database_url, "SELECT role, ordinal, model FROM model_role ORDER BY 1, 2")
    ] == [
        ("grader", 0, "m/a"),
        ("panel", 0, "m/b"),
        ("panel", 1, "m/c"),
    ]
    assert rows(database_url, "SELECT limit_type, limit_value, limit_reason FROM sample") == [
        {"limit_type": "brand_new_limit", "limit_value": math.inf, "limit_reason": "why"}
    ]
    query = "SELECT scorer, ordinal, is_intermediate, value FROM score ORDER BY 1, 2"
    assert [tuple(row.values()) for row in rows(database_url, query)] == [
        ("a", 1, True, 0),
        ("a", 2, True, 1),
        ("b", 1, True, 2),
        ("match", 0, False, "C"),
    ]


def test_the_collector_works_while_a_log_is_read(database_url: str, tmp_path: Path, monkeypatch) -> None:
    """The command switches it off until all is loaded; a long log must not be read without it (W7)."""
    path, reading, seen = write_log(tmp_path / "a.eval", [sample(1)]), logs.open_log, []
    monkeypatch.setattr(logs, "open_log", lambda *a, **k: seen.append(gc.isenabled()) or reading(*a, **k))
    gc.disable()
    try:
        imported(database_url, path)
        assert seen == [True]
        assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
