"""The logs to measure on, made in seconds: real samples of a small log, cloned under fresh ids into large ones.

`python -m perf.importer.logs FOLDER NAME` makes one unless it is there, and prints its bytes of JSON and its path.

Every clone is a member of its own with ids of its own, compressed like Inspect does it (zstd, level 3), so that reading
it costs what reading an evaluation of that size costs.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import string
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from zipfile_zstd import ZIP_ZSTANDARD  # importing it teaches zipfile method 93

MIB = 1 << 20
_ID = re.compile(rb'("(?:uuid|id|span_id|parent_id|message_id)": ?")([A-Za-z0-9]{22})"')
_ALPHABET = (string.ascii_letters + string.digits).encode()


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A log to make; 21 messages a sample."""

    name: str
    samples: int
    characters: int  # of a tool's answer: sets a sample's size
    seed_samples: int = 40


IMPORTED = Shape(name="500-samples", samples=500, characters=620)
DECODED = Shape(name="2000-samples", samples=2000, characters=3010)


def make(shape: Shape, folder: Path) -> Path:
    """The log of that shape below `folder`; made unless it is there."""
    path = folder / f"{shape.name}-{shape.samples}.eval"
    if not path.exists():
        _clone(_seed(shape, folder), path, shape.samples)
    return path


def make_long(folder: Path, megabytes: int) -> Path:
    """A log with one sample of that many megabytes of JSON: a long transcript, about half of it events."""
    path = folder / f"long-{megabytes}.eval"
    if not path.exists():
        sample = _first_sample(_seed(IMPORTED, folder))
        half = megabytes * MIB // 2
        _write_single(
            path, sample, itertools.chain(_repeated(sample, "messages", half), _repeated(sample, "events", half))
        )
    return path


def make_long_event(folder: Path, megabytes: int) -> Path:
    """A log with one sample that has one event of that many megabytes."""
    path = folder / f"long-event-{megabytes}.eval"
    if not path.exists():
        sample = _first_sample(_seed(IMPORTED, folder))
        whole = next(event for event in sample["events"] if event["event"] == "model")
        text = json.dumps(json.dumps(whole["call"])).encode()[1:-1]
        data = (b'"%s"' % (text * (megabytes * MIB // len(text)))).join(
            json.dumps({**whole, "output": "?"}).encode().split(b'"?"')
        )
        front = b',"messages":' + json.dumps(sample["messages"]).encode() + b',"events":['
        _write_single(path, sample, iter([front, data, b"]"]))
    return path


def json_bytes(path: Path) -> int:
    """Length of all samples of a log, uncompressed."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist() if member.filename.startswith("samples/"))


def _seed(shape: Shape, folder: Path) -> Path:
    target = folder / f"{shape.name}-seed"
    found = list(target.glob("*.eval"))
    if not found:
        turns = 9
        command = [sys.executable, "-m", "perf.importer.seed", target, shape.seed_samples, turns, shape.characters]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        found = list(target.glob("*.eval"))
    return found[0]


def _clone(seed: Path, path: Path, count: int) -> None:
    draw = random.Random(path.name)
    with zipfile.ZipFile(seed) as source, _Writing(path) as target:
        header = json.loads(source.read("header.json"))
        summaries = {summary["id"]: summary for summary in json.loads(source.read("summaries.json"))}
        samples = [
            (summary["id"], source.read(f"samples/{summary['id']}_epoch_1.json")) for summary in summaries.values()
        ]
        target.writestr("_journal/start.json", source.read("_journal/start.json"))
        written = []
        for number in range(count):
            old, data = samples[number % len(samples)]
            new = f"c{number:06d}"
            data, fresh = _renamed(data, old, new, draw)
            target.writestr(f"samples/{new}_epoch_1.json", data)
            uuid = summaries[old]["uuid"]
            written.append({**summaries[old], "id": new, "uuid": fresh[uuid.encode()].decode()})
        header["eval"]["eval_id"] = _fresh_id(draw).decode()
        header["eval"]["dataset"].update(samples=count, sample_ids=[summary["id"] for summary in written])
        header["results"].update(total_samples=count, completed_samples=count)
        target.writestr("summaries.json", json.dumps(written))
        target.writestr("header.json", json.dumps(header))


def _renamed(data: bytes, old: str, new: str, draw: random.Random) -> tuple[bytes, dict[bytes, bytes]]:
    fresh: dict[bytes, bytes] = {}

    def rename(match: re.Match[bytes]) -> bytes:
        return match[1] + fresh.setdefault(match[2], _fresh_id(draw)) + b'"'

    data = _ID.sub(rename, data)
    return data.replace(b'"%s"' % old.encode(), b'"%s"' % new.encode()), fresh


def _fresh_id(draw: random.Random) -> bytes:
    return bytes(draw.choices(_ALPHABET, k=22))


def _first_sample(seed: Path) -> dict[str, Any]:
    with zipfile.ZipFile(seed) as source:
        sample: dict[str, Any] = json.loads(source.read("samples/s00000_epoch_1.json"))
    return sample


def _repeated(sample: dict[str, Any], name: str, length: int) -> Iterator[bytes]:
    """`,"name":[…]` with the elements again and again under fresh ids, until it is `length` long."""
    draw = random.Random(name)
    block = b",".join(json.dumps(element).encode() for element in sample[name])
    yield b',"%s":[' % name.encode()
    written = 0
    while written < length:
        data = _ID.sub(lambda match: match[1] + _fresh_id(draw) + b'"', block)
        yield b"," + data if written else data
        written += len(data)
    yield b"]"


def _write_single(path: Path, sample: dict[str, Any], rest: Iterator[bytes]) -> None:
    short = {name: value for name, value in sample.items() if name not in ("messages", "events")}
    with zipfile.ZipFile(_seed(IMPORTED, path.parent)) as source, _Writing(path) as target:
        header = json.loads(source.read("header.json"))
        header["eval"]["eval_id"] = f"perf-{path.stem}"
        header["results"].update(total_samples=1, completed_samples=1)
        with _member(target, f"samples/{sample['id']}_epoch_1.json") as member:
            member.write(json.dumps(short).encode()[:-1])
            for piece in rest:
                member.write(piece)
            member.write(b"}")
        target.writestr("header.json", json.dumps(header))


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    info = zipfile.ZipInfo(name)
    info.compress_type = ZIP_ZSTANDARD
    return archive.open(info, "w", force_zip64=True)


class _Writing(zipfile.ZipFile):
    """An archive that appears under its name only when it is whole."""

    def __init__(self, path: Path) -> None:
        self._final = path
        super().__init__(path.with_suffix(".part"), "w", compression=ZIP_ZSTANDARD, compresslevel=3)

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super().close()
        part = self._final.with_suffix(".part")
        if part.exists():
            part.rename(self._final)


MADE: dict[str, Callable[[Path], Path]] = {
    "imported": lambda folder: make(IMPORTED, folder),
    "decoded": lambda folder: make(DECODED, folder),
    "long": lambda folder: make_long(folder, 1000),
    "long-event": lambda folder: make_long_event(folder, 300),
}

if __name__ == "__main__":
    made = MADE[sys.argv[2]](Path(sys.argv[1]))
    print(json_bytes(made), made)
