"""Logs of every layout and size as a header and a stream of samples."""

from __future__ import annotations

import contextlib
import json
import random
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from longhaul.evallog import log as logs
from longhaul.evallog.errors import (
    DamagedLogError,
    LogError,
    OversizedValueError,
    UnfinishedLogError,
    UnsupportedLogError,
)
from longhaul.evallog.log import open_log
from tests.logs import DEFLATE, STORED, ZSTD, Entry, dumps, entries, header, sample, write_log, write_zip


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Everything that the reader says of a log."""
    found = []
    with contextlib.closing(open_log(path, str(path), **options)) as log, contextlib.closing(log.samples()) as samples:
        for one in samples:
            said = {name: getattr(one, name) for name in one.__struct_fields__ if name != "messages"}
            found.append(said | {"messages": list(one.messages())})
        assert len(found) == log.sample_count
    return found


def rich(number: int) -> dict[str, Any]:
    """A sample with something in every field that is read."""
    reference = {"role": "user", "content": "attachment://" + "a" * 32}
    long_event = {
        "event": "model",
        "working_time": 0.5,
        "model": "other",
        "input": ["x" * 3000],
        "working_start": float("nan"),
    }
    return sample(
        number,
        uuid=f"u{number}",
        messages=[reference, {"role": "tool", "content": "t", "error": {"type": "timeout", "message": "late"}}],
        events=[long_event, {"event": "score", "intermediate": True, "scorer": "s", "score": {"value": float("-inf")}}],
        attachments={"a" * 32: "long\0 " * 40, "b" * 32: "unused"},
        limit={"type": "token", "limit": 5},
        store={"s": ["]", '"', {"k": "\\"}] * 50},
        metadata={"n": float("nan"), "lone": "\ud800"},
    )


@pytest.mark.parametrize("document", [False, True])
def test_w7_reading_in_pieces_says_the_same_as_reading_at_once(tmp_path: Path, monkeypatch, document: bool) -> None:
    samples = [rich(1), rich(2), sample(3, uuid="u3")]
    path = tmp_path / "a"
    if document:
        path.write_bytes(dumps(header(samples=3) | {"samples": samples}))
    else:
        write_log(path, samples)
    at_once = read(path)
    monkeypatch.setattr(logs, "MAX_WHOLE_SAMPLE_BYTES", 10)
    monkeypatch.setattr("longhaul.evallog.large.MAX_EVENT_BYTES", 200)
    monkeypatch.setattr("longhaul.evallog.archive.CHUNK_BYTES", 777)
    monkeypatch.setattr("longhaul.evallog.log.CHUNK_BYTES", 777)
    assert read(path) == at_once
    assert at_once[0]["generation_count"] == 1
    assert at_once[0]["messages"][0].text == "long " * 40
    assert at_once[0]["scores"][-1].value == b'"-Infinity"'


def test_a_value_that_no_column_takes_is_refused_by_name(tmp_path: Path, monkeypatch) -> None:
    path = write_log(tmp_path / "a.eval", [sample(1, input="x" * 5000)])
    monkeypatch.setattr(logs, "MAX_WHOLE_SAMPLE_BYTES", 10)
    monkeypatch.setattr("longhaul.evallog.large.MAX_VALUE_BYTES", 4000)
    with pytest.raises(OversizedValueError, match=r"input of samples/1_epoch_1\.json"):
        read(path)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
def test_a_checksum_that_does_not_fit_is_damage_however_a_sample_is_read(
    tmp_path: Path, monkeypatch, method: int, at_once: bool
) -> None:
    """Also when the content is valid JSON: a checksum is known to fit at the end of the last piece only."""
    members = entries(header(), [sample(1)], method=method)
    members[1].crc = zlib.crc32(members[1].data) ^ 1
    path = write_zip(tmp_path / "a.eval", members)
    if not at_once:
        monkeypatch.setattr(logs, "MAX_WHOLE_SAMPLE_BYTES", 10)
    with pytest.raises(DamagedLogError, match="checksum"):
        read(path)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (
            b'{"id": 1, "epoch": 1, ' + b'"metadata": "%s", ' % (b"m" * 1500) * 3 + b'"input": ""}',
            "metadata of samples/",
        ),
        (
            dumps(sample(1, events=[{"event": "score", "intermediate": True, "score": {"value": "s" * 900}}] * 5)),
            "intermediate scores of samples/",
        ),
    ],
    ids=["one field many times", "intermediate scores"],
)
def test_w7_what_is_kept_of_a_sample_is_bounded_all_together(
    tmp_path: Path, monkeypatch, odd: bytes, reason: str
) -> None:
    members = entries(header(), [sample(1)])
    members[1].data = odd
    path = write_zip(tmp_path / "a.eval", members)
    monkeypatch.setattr(logs, "MAX_WHOLE_SAMPLE_BYTES", 10)
    monkeypatch.setattr("longhaul.evallog.large.MAX_VALUE_BYTES", 4000)
    with pytest.raises(OversizedValueError, match=reason):
        read(path)


def test_w7_an_attachment_that_a_value_names_often_is_not_written_out_without_end(tmp_path: Path, monkeypatch) -> None:
    name = "a" * 32
    odd = sample(1, input=[{"role": "user", "content": f"attachment://{name}"}] * 9, attachments={name: "x" * 1000})
    monkeypatch.setattr("longhaul.evallog.attachments.MAX_ATTACHMENT_BYTES", 5000)
    with pytest.raises(OversizedValueError, match="attachments of one value"):
        read(write_log(tmp_path / "a.eval", [odd]))


def test_w7_an_intermediate_score_does_not_hold_its_whole_event(tmp_path: Path, monkeypatch) -> None:
    """One short score in each of many long events: what is kept is the scores."""
    event = {"event": "score", "intermediate": True, "scorer": "s", "score": {"value": 1}, "rest": "r" * (1 << 20)}
    path = write_log(tmp_path / "a.eval", [sample(1, events=[event] * 100)])
    tracemalloc.start()
    try:
        (one,) = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(one["scores"]) == 101
    assert peak < 30 << 20


def test_a_transcript_that_is_null_is_none(tmp_path: Path, monkeypatch) -> None:
    path = write_log(tmp_path / "a.eval", [sample(1, transcript=None)])
    at_once = read(path)
    monkeypatch.setattr(logs, "MAX_WHOLE_SAMPLE_BYTES", 10)
    assert read(path) == at_once


def test_old_keys(tmp_path: Path) -> None:
    """`score` for `scores`, `transcript` for `events` and attachments, ids that were not written then."""
    old = sample(1, score={"value": "C"}, transcript={"events": [{"event": "tool"}], "content": {"a" * 32: "text"}})
    old["messages"] = [{"role": "user", "content": "tc://" + "a" * 32}]
    for name in ("scores", "events", "attachments", "uuid"):
        del old[name]
    results = {"scorer": {"name": "exact"}, "metrics": {}}
    for limit in (logs.MAX_WHOLE_SAMPLE_BYTES, 10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logs, "MAX_WHOLE_SAMPLE_BYTES", limit)
            path = write_log(tmp_path / "a.eval", [old], head=header(results=results))
            (one,) = read(path)
        assert [score.scorer for score in one["scores"]] == ["exact"]
        assert (one["action_count"], one["messages"][0].text) == (1, "text")
        assert len(one["uuid"]) == 22
        assert read(path)[0]["uuid"] == one["uuid"]


def test_a_log_still_being_written(tmp_path: Path) -> None:
    """Case L14."""
    path = write_zip(tmp_path / "a.eval", entries(None, [sample(1)]))
    with pytest.raises(UnfinishedLogError):
        read(path)
    assert len(read(path, allow_started=True)) == 1
    document = tmp_path / "a.json"
    document.write_bytes(dumps(header(status="started") | {"samples": [sample(1)]}))
    with pytest.raises(UnfinishedLogError):
        read(document)


@pytest.mark.parametrize(
    "name",
    ["samples/1_epoch_1/sample.json", "samples/1_epoch_1/events/0.json", "samples/x.json", "samples/é_epoch_.json"],
)
def test_samples_in_several_parts_are_refused(tmp_path: Path, name: str) -> None:
    path = write_zip(tmp_path / "a.eval", [*entries(header(), [sample(1)]), Entry(name=name, data=b"{}")])
    with pytest.raises(UnsupportedLogError, match="several parts"):
        read(path)


def test_a_part_under_an_ordinary_name_is_refused_too(tmp_path: Path) -> None:
    for limit in (logs.MAX_WHOLE_SAMPLE_BYTES, 10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logs, "MAX_WHOLE_SAMPLE_BYTES", limit)
            with pytest.raises(UnsupportedLogError):
                read(write_log(tmp_path / "a.eval", [sample(1, message_refs=[[0, 1]])]))


def test_a_shard_of_a_merged_log_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.eval", [sample(1)])
    with pytest.raises(UnsupportedLogError, match="shard"):
        open_log(path, "evals/set/2026_quiz.shards/0/a.eval")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"eval": 1}', b'{"samples": []}', b"{}x", b"\x89PNG", b'{"a":' + b"[" * 9000]
)
def test_documents_that_are_no_logs(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(DamagedLogError):
        read(tmp_path / "a.json")


@pytest.mark.parametrize("seed", range(3))
def test_damage_of_any_kind_is_named(tmp_path: Path, seed: int) -> None:
    """Flipped bits, cuts, swapped blocks: a log error with one line, or the very same samples."""
    draw = random.Random(seed)
    path = write_log(tmp_path / "a.eval", [rich(1), sample(2, uuid="x")])
    good, whole = path.read_bytes(), sorted(json.dumps(one, default=repr) for one in read(path))
    named = 0
    for _ in range(300):
        bad = bytearray(good)
        how = draw.randrange(4)
        at = draw.randrange(len(bad))
        if how == 0:
            bad[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            del bad[at:]
        elif how == 2:
            other = draw.randrange(len(bad))
            bad[at : at + 40], bad[other : other + 40] = bad[other : other + 40], bad[at : at + 40]
        else:
            bad[at : at + draw.randrange(1, 9)] = draw.randbytes(draw.randrange(9))
        path.write_bytes(bad)
        try:
            said = sorted(json.dumps(one, default=repr) for one in read(path))
        except LogError:
            named += 1
        else:
            assert said == whole  # the damage hit what nobody reads
    assert named > 150
