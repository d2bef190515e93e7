"""Logs made by hand: any layout and any damage, byte for byte as Inspect writes them where it matters."""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

STORED, DEFLATE, ZSTD = 0, 8, 93
_uuids = itertools.count(1)


@dataclass(kw_only=True)
class Entry:
    """One member of an archive; the claims default to the truth."""

    name: str
    data: bytes
    method: int = ZSTD
    packed: bytes | None = None
    size: int | None = None
    crc: int | None = None
    local_name: str | None = None
    flags: int = 0x800

    def pack(self) -> bytes:
        """The compressed bytes."""
        if self.packed is not None:
            return self.packed
        if self.method == ZSTD:
            return zstandard.ZstdCompressor(level=3).compress(self.data)
        if self.method == DEFLATE:
            squeeze = zlib.compressobj(wbits=-15)
            return squeeze.compress(self.data) + squeeze.flush()
        return self.data


def write_zip(path: Path, entries: Iterable[Entry], *, zip64: bool = False) -> Path:
    """Write the archive; `zip64` uses 64-bit records throughout, as archives above 4 GiB do."""
    body, directory, count = bytearray(), bytearray(), 0
    for entry in entries:
        packed, count = entry.pack(), count + 1
        size = len(entry.data) if entry.size is None else entry.size
        crc = zlib.crc32(entry.data) if entry.crc is None else entry.crc
        name, local = entry.name.encode(), (entry.local_name or entry.name).encode()
        offset = len(body)
        body += struct.pack(
            "<4s5H3I2H", b"PK\3\4", 63, entry.flags, entry.method, 0, 0, crc, len(packed), size, len(local), 0
        )
        body += local + packed
        extra, small = b"", (len(packed), size, offset)
        if zip64:
            extra = struct.pack("<2H3Q", 1, 24, size, len(packed), offset)
            small = (0xFFFFFFFF,) * 3
        head = (b"PK\1\2", 63, 63, entry.flags, entry.method, 0, 0, crc, small[0], small[1], len(name), len(extra))
        directory += struct.pack("<4s6H3I5H2I", *head, 0, 0, 0, 0, small[2]) + name + extra
    start = len(body)
    end = b""
    if zip64:
        end = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 63, 63, 0, 0, count, count, len(directory), start)
        end += struct.pack("<4sIQI", b"PK\6\7", 0, start + len(directory), 1)
        end += struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    else:
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    path.write_bytes(bytes(body) + bytes(directory) + end)
    return path


def dumps(value: Any) -> bytes:
    """JSON as Inspect writes it: bare NaN and infinities, UTF-8."""
    return json.dumps(value, ensure_ascii=False, allow_nan=True).encode("utf-8", "surrogatepass")


def sample(id: int | str = 1, epoch: int = 1, **fields: Any) -> dict[str, Any]:  # noqa: A002 - the format's name
    """A sample as current logs have it; `fields` replace or add."""
    return {
        "id": id,
        "epoch": epoch,
        "input": "What is it?",
        "target": "this",
        "messages": [
            {"id": "m1", "role": "user", "content": "What is it?", "source": "input"},
            {"id": "m2", "role": "assistant", "content": "this", "source": "generate", "model": "mockllm/model"},
        ],
        "output": {
            "model": "mockllm/model",
            "choices": [{"message": {"role": "assistant", "content": "this"}, "stop_reason": "stop"}],
            "completion": "this",
        },
        "scores": {"match": {"value": "C", "answer": "this", "explanation": "it is"}},
        "metadata": {"difficulty": 3},
        "store": {"unused": "x" * 20},
        "events": [
            {
                "event": "model",
                "timestamp": "2026-01-01T00:00:01+00:00",
                "working_time": 0.25,
                "model": "mockllm/model",
            },
            {"event": "tool", "timestamp": "2026-01-01T00:00:02+00:00", "function": "shell"},
        ],
        "model_usage": {"mockllm/model": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}},
        "started_at": "2026-01-01T00:00:00+00:00",
        "completed_at": "2026-01-01T00:00:03+00:00",
        "total_time": 3.0,
        "working_time": 2.5,
        "uuid": f"uuid-{next(_uuids):06}",
        "error_retries": [],
        "attachments": {},
        **fields,
    }


def header(eval_id: str = "eval-1", *, status: str = "success", samples: int = 1, **fields: Any) -> dict[str, Any]:
    """A header; `eval` is merged, everything else replaces."""
    spec = {
        "eval_id": eval_id,
        "run_id": "run-1",
        "created": "2026-01-01T00:00:00+00:00",
        "task": "quiz",
        "task_id": "task-1",
        "task_version": 0,
        "task_args": {},
        "dataset": {"name": "quiz", "samples": samples, "sample_ids": [1]},
        "model": "mockllm/model",
        "model_args": {},
        "config": {"epochs": 1},
        "packages": {"inspect_ai": "0.3.285"},
        "metadata": {"eval_set_id": "set-1"},
    } | fields.pop("eval", {})
    return {
        "version": 2,
        "status": status,
        "eval": spec,
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {"total_samples": samples, "completed_samples": samples, "scores": []},
        "stats": {
            "started_at": "2026-01-01T00:00:00+00:00",
            "completed_at": "2026-01-01T00:01:00+00:00",
            "model_usage": {"mockllm/model": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}},
        },
        **fields,
    }


def entries(
    head: Mapping[str, Any] | None,
    samples: Iterable[Mapping[str, Any]],
    *,
    method: int = ZSTD,
    start: Mapping | None = None,
) -> list[Entry]:
    """The members of a log; without `head` it is one that is still being written."""
    samples = list(samples)
    first = start or {"version": 2, "eval": (head or header())["eval"], "plan": (head or header()).get("plan")}
    found = [Entry(name="_journal/start.json", data=dumps(first), method=method)]
    found += [
        Entry(name=f"samples/{one['id']}_epoch_{one['epoch']}.json", data=dumps(one), method=method) for one in samples
    ]
    summaries = [{"id": one["id"], "epoch": one["epoch"]} for one in samples]
    found.append(Entry(name="_journal/summaries/1.json", data=dumps(summaries), method=method))
    if head is not None:
        found.append(Entry(name="summaries.json", data=dumps(summaries), method=method))
        found.append(Entry(name="header.json", data=dumps(head), method=method))
    return found


def write_log(
    path: Path, samples: Iterable[Mapping[str, Any]] = (), *, head: Mapping[str, Any] | None = None, method: int = ZSTD
) -> Path:
    """Write a finished log."""
    samples = list(samples)
    return write_zip(path, entries(head or header(samples=len(samples)), samples, method=method))
