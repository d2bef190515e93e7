"""W7, case L18: memory stays below 256 MiB whatever the size of a sample, seen from outside on the process itself."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from tests.contract.warehouse.support import rows
from tests.logs import ZSTD, Entry, dumps, entries, header, sample, write_zip

ROOT = Path(__file__).parents[3]
CAP_BYTES = 1 << 30  # of address space, as the container's memory would be


def large(front: bytes, piece: bytes, times: int, back: bytes) -> Entry:
    """A member made of a front, so many pieces, and a back; never held whole."""

    def parts() -> Iterator[bytes]:
        yield front
        for _ in range(times):
            yield piece
        yield back

    squeeze, crc, size, packed = zstandard.ZstdCompressor(level=1).compressobj(), 0, 0, []
    for part in parts():
        crc, size = zlib.crc32(part, crc), size + len(part)
        packed.append(squeeze.compress(part))
    packed.append(squeeze.flush())
    return Entry(name="samples/1_epoch_1.json", data=b"", packed=b"".join(packed), size=size, crc=crc, method=ZSTD)


def words(length: int) -> bytes:
    """Text that does not shrink to nothing."""
    draw = random.Random(1)
    return b" ".join(b"%x" % draw.getrandbits(40) for _ in range(length // 11))


# What a column needs may be held, all else may not: front, piece, how often, back, and the peak in MiB.
SHAPES = {
    "a store of 300 MB": (b'"store": {"text": "', words(1 << 20), 300, b'"}', 96),
    "many events": (b'"events": [{}', b', {"event": "tool", "text": "%s"}' % words(1 << 19), 240, b"]", 96),
    "one event of 120 MB": (b'"events": [{"event": "tool", "text": "', words(1 << 20), 120, b'"}]', 96),
    "many messages": (
        b'"messages": [{"role": "a"}',
        b', {"role": "b", "content": "%s"}' % words(1 << 18),
        160,
        b"]",
        96,
    ),
    "one message of 30 MB": (
        b'"messages": [{"role": "user", "content": "',
        "é\u2014w".encode() * 150_000,
        33,
        b'"}]',
        256,
    ),
    "metadata of 30 MB": (b'"metadata": {"text": "', words(1 << 20), 30, b'"}', 256),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_w7_case_l18_giant_fields(database_url: str, tmp_path: Path, shape: str) -> None:
    """It imports, within the bound."""
    front, piece, times, back, limit = SHAPES[shape]
    field = front.split(b'"')[1].decode()
    rest = {name: value for name, value in sample(1, uuid="giant").items() if name != field}
    members = entries(header(), [])
    members.insert(1, large(dumps(rest)[:-1] + b", " + front, piece, times, back + b"}"))
    path = write_zip(tmp_path / "a.eval", members)
    done = subprocess.run(
        [sys.executable, "-m", "longhaul.importer", "--file", str(path)],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (CAP_BYTES, CAP_BYTES)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["peak_memory_bytes"] < limit << 20, f"{result['peak_memory_bytes'] >> 20} MiB"
    messages = {"many messages": 161, "one message of 30 MB": 1}.get(shape, 2)
    assert (result["samples"], result["messages"]) == (1, messages)
    assert rows(database_url, "SELECT uuid, message_count FROM sample") == [
        {"uuid": "giant", "message_count": messages}
    ]
