"""W1, W3, W5: whatever the order and number of imports, the warehouse says what the current logs say."""

from __future__ import annotations

import copy
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhaul.importer.outcome import Outcome
from tests.contract.warehouse.support import attempt, contents, imported, rows, values
from tests.logs import header, sample, write_log

EDITED = "2026-02-0{}T00:00:00+00:00"


def edited(day: int) -> list[dict[str, Any]]:
    """An edit of a log as its header records it."""
    edit = {"type": "metadata", "metadata_set": {"day": day}, "metadata_remove": []}
    return [{"edits": [edit], "provenance": {"timestamp": EDITED.format(day), "author": "someone"}}]


def updates(url: str) -> dict[str, int]:
    """Rows updated or deleted, by table, since the database was made."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    for _ in range(200):  # a session's numbers are there when it has ended
        if values(url, others) == [0]:
            break
        time.sleep(0.02)
    found = rows(url, "SELECT relname, n_tup_upd + n_tup_del AS n FROM pg_stat_user_tables WHERE schemaname = 'public'")
    return {row["relname"]: row["n"] for row in found}


def test_w1_what_is_gone_from_a_log_is_gone_from_the_warehouse(
    database_url: str, fresh_database, tmp_path: Path
) -> None:
    samples = [sample(n, scores={"a": {"value": 1}, "b": {"value": 2}}) for n in range(4)]
    path = tmp_path / "a.eval"
    roles = {"grader": {"model": "m/a"}, "judge": {"model": "m/b"}}
    imported(database_url, write_log(path, samples, head=header(samples=4, eval={"model_roles": roles})))
    fewer = copy.deepcopy(samples[:3])
    del fewer[0]["scores"]["b"]
    fewer[1]["messages"] = fewer[1]["messages"][:1]
    fewer[2]["model_usage"] = {"other/model": {"input_tokens": 1}}
    fewer[2]["events"] = []
    imported(
        database_url, write_log(path, fewer, head=header(samples=3, eval={"model_roles": {"judge": {"model": "m/c"}}}))
    )
    imported(other := fresh_database(), path)
    assert contents(database_url) == contents(other)


def test_w1_two_samples_that_swap_their_ids(database_url: str, fresh_database, tmp_path: Path) -> None:
    path, one, two = tmp_path / "a.eval", sample(1), sample(2)
    imported(database_url, write_log(path, [one, two]))
    one["id"], two["id"] = 2, 1
    imported(database_url, write_log(path, [one, two]))
    imported(other := fresh_database(), path)
    assert contents(database_url) == contents(other)


def test_w1_a_key_that_holds_another_eval_now(database_url: str, fresh_database, tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    imported(database_url, write_log(path, [sample(1), sample(2)], head=header("old")))
    imported(database_url, write_log(path, [sample(1)], head=header("new")))
    imported(other := fresh_database(), path)
    assert values(database_url, "SELECT id FROM eval") == ["new"]
    assert contents(database_url) == contents(other)


def test_w1_a_dropped_sample_comes_back_with_the_older_log(database_url: str, tmp_path: Path) -> None:
    """The newest log drops what an older one holds: removed, the older one reported and not taken for unchanged."""
    shared = sample(1, uuid="shared")
    older = write_log(tmp_path / "older.eval", [shared, sample(2)], head=header("eval-old"))
    newer_path = tmp_path / "newer.eval"
    head = header("eval-new", log_updates=edited(1))
    imported(database_url, older)
    imported(database_url, write_log(newer_path, [shared | {"input": "newer"}, sample(3)], head=head))
    assert values(database_url, "SELECT input FROM sample WHERE uuid = 'shared'") == ["newer"]

    result = imported(database_url, write_log(newer_path, [sample(3)], head=head))
    assert result.stale_logs == (older.as_uri(),)
    assert values(database_url, "SELECT count(*) FROM sample WHERE uuid = 'shared'") == [0]
    result = imported(database_url, older)  # without force: its ETag is unchanged, its samples are wanted
    assert values(database_url, "SELECT input FROM sample WHERE uuid = 'shared'") == ["What is it?"]
    assert attempt(database_url, older).outcome is Outcome.UNCHANGED


def test_w1_a_dropped_place_comes_back_with_the_older_log(database_url: str, tmp_path: Path) -> None:
    """The same where two logs of one eval hold other samples at one place, as after a retry of the sample."""
    older = write_log(tmp_path / "older.eval", [sample(1, uuid="first"), sample(2)])
    newer_path, head = tmp_path / "newer.eval", header(log_updates=edited(1))
    imported(database_url, older)
    imported(database_url, write_log(newer_path, [sample(1, uuid="again"), sample(3)], head=head))
    assert values(database_url, "SELECT uuid FROM sample WHERE id = '1'") == ["again"]

    result = imported(database_url, write_log(newer_path, [sample(3)], head=head))
    assert result.stale_logs == (older.as_uri(),)
    imported(database_url, older)
    assert values(database_url, "SELECT uuid FROM sample WHERE id = '1'") == ["first"]


def test_w3_unchanged_bytes_are_not_read_again(database_url: str, tmp_path: Path, monkeypatch) -> None:
    path = write_log(tmp_path / "a.eval", [sample(1)])
    imported(database_url, path)
    before = updates(database_url)
    monkeypatch.setattr("longhaul.evallog.log.open_log", lambda *a, **k: pytest.fail("the log was read"))
    assert attempt(database_url, path).outcome is Outcome.UNCHANGED
    assert updates(database_url) == before


def test_w3_a_forced_import_of_unchanged_bytes_updates_no_row(database_url: str, tmp_path: Path) -> None:
    odd = sample(
        1, scores={"s": {"value": float("nan")}}, metadata={"big": 2**70}, limit={"type": "t", "limit": float("nan")}
    )
    roles = {"grader": {"model": "m/a", "args": {"x": 1}}}
    path = write_log(tmp_path / "a.eval", [odd, sample(2)], head=header(eval={"model_roles": roles}))
    imported(database_url, path)
    before = updates(database_url)
    result = imported(database_url, path, force=True)
    assert result.rows_changed == 0
    assert updates(database_url) == before


def test_case_l10_an_edit_under_the_same_key(database_url: str, tmp_path: Path) -> None:
    path, one = tmp_path / "a.eval", sample(1)
    imported(database_url, write_log(path, [one]))
    one["scores"]["match"]["value"] = "I"
    write_log(path, [one])
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))  # at least one tick of the clock later
    imported(database_url, path)
    assert values(database_url, "SELECT value FROM score") == ["I"]
    assert attempt(database_url, path).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"sample": {"completed_at": "2026-01-01T00:00:03Z"}}, {"sample": {"completed_at": "2026-01-01T00:00:04Z"}}),
        ({}, {"log_updates": edited(1)}),
        ({"log_updates": edited(1)}, {"log_updates": edited(2)}),
        ({"created": "2026-01-01T00:00:00Z"}, {"created": "2026-01-01T00:00:01Z"}),
        ({}, {}),
    ],
    ids=["completion", "edited", "edited later", "creation", "key"],
)
@pytest.mark.parametrize("force", [False, True])
def test_w5_the_newest_log_owns_a_sample_in_any_order(
    database_url: str, fresh_database, tmp_path: Path, old: dict[str, Any], new: dict[str, Any], force: bool
) -> None:
    shared = sample(1, uuid="shared")
    paths = []
    for name, facts in (("a", old), ("b", new)):
        head = header(f"eval-{name}", eval={"created": facts.get("created", "2026-01-01T00:00:00Z")})
        head["log_updates"] = facts.get("log_updates")
        own = shared | {"input": name} | facts.get("sample", {})
        paths.append(
            write_log(tmp_path / f"{name}.eval", [own, sample(f"only-{name}", uuid=f"only-{name}")], head=head)
        )
    other = fresh_database()
    for url, order in ((database_url, [0, 1, 0, 1, 0]), (other, [1, 0])):
        for one in order:
            attempt(url, paths[one], force=force)
    assert values(database_url, "SELECT input FROM sample WHERE uuid = 'shared'") == ["b"]
    assert contents(database_url) == contents(other)


def world(draw: random.Random, folder: Path, rename: Callable[[str], str]) -> list[Path]:
    """Logs that share evals, samples and places in all ways; written anew at each call."""
    paths = []
    for name in "abcd":
        samples = []
        for uuid in draw.sample(["u1", "u2", "u3", "u4", "u5"], draw.randint(1, 4)):
            scores = {scorer: {"value": draw.random()} for scorer in draw.sample("xyz", draw.randint(0, 3))}
            place = draw.choice([1, 2, 3]) if draw.random() < 0.3 else uuid
            done = f"2026-01-01T00:00:0{draw.randint(0, 2)}Z"
            samples.append(sample(place, uuid=uuid, scores=scores, input=f"{name}{draw.random()}", completed_at=done))
        unique = list({one["id"]: one for one in samples}.values())
        head = header(f"eval-{draw.choice('12')}", samples=len(unique))
        head["eval"]["created"] = f"2026-01-01T00:00:0{draw.randint(0, 1)}Z"
        head["log_updates"] = draw.choice([None, edited(1), edited(2)])
        paths.append(write_log(folder / f"{rename(name)}.eval", unique, head=head))
    return paths


@pytest.mark.parametrize("seed", range(6))
def test_w1_sets_of_overlapping_logs_in_random_orders(
    database_url: str, fresh_database, tmp_path: Path, seed: int
) -> None:
    """After every log's current version was imported, and stale ones again, all is as in a fresh warehouse."""
    draw = random.Random(seed)
    for _ in range(3):
        paths = world(draw, tmp_path, lambda name: name)
        draw.shuffle(paths)
        for path in paths:
            attempt(database_url, path, force=draw.random() < 0.5)
    settle(database_url)
    other = fresh_database()
    draw.shuffle(paths)
    for path in paths:
        imported(other, path)
    settle(other)
    assert contents(database_url) == contents(other)


def settle(url: str) -> None:
    """Import again what is reported as stale."""
    for _ in range(10):
        for location in values(url, "SELECT DISTINCT location FROM stale_log"):
            attempt(url, Path(location.removeprefix("file://")))
    assert values(url, "SELECT count(*) FROM stale_log") == [0]
