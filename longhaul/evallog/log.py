"""A log as its header and a stream of samples, whichever of Inspect's layouts it has.

Layouts: an `.eval` archive, finished or still being written, and an old `.json` document. Samples in several parts and
the shards of a merged log are recognised and refused: they are never imported by half.
"""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from longhaul.evallog import header as headers
from longhaul.evallog.archive import CHUNK_BYTES, Archive, is_archive
from longhaul.evallog.errors import DamagedLogError, UnfinishedLogError, UnsupportedLogError
from longhaul.evallog.header import Header
from longhaul.evallog.large import Fields, large
from longhaul.evallog.records import HeaderFields
from longhaul.evallog.sample import Sample, whole
from longhaul.evallog.scan import Cursor, TooLargeError

MAX_HEADER_BYTES = 32 << 20
MAX_WHOLE_SAMPLE_BYTES = 16 << 20  # longer samples are read in pieces
_HEADER, _START = "header.json", "_journal/start.json"
_SAMPLE = re.compile(r"samples/.+_epoch_[0-9]+\.json", re.DOTALL)
_SHARD = re.compile(r"\.shards/")


class Log(Protocol):
    """An open log."""

    header: Header
    sample_count: int

    def samples(self) -> Iterator[Sample]:
        """Every sample once."""

    def close(self) -> None:
        """Close the file."""


def open_log(path: Path, key: str, *, allow_started: bool = False, doubles_only: bool = False) -> Log:
    """Open the log in the file `path`, whose name in the store is `key`.

    Raises DamagedLogError, UnsupportedLogError, or UnfinishedLogError unless `allow_started`.
    """
    if _SHARD.search(key):
        raise UnsupportedLogError("the log is one shard of a merged log: import the merged one")
    log: Log
    log = _ArchiveLog(path, key, doubles_only) if is_archive(path) else _DocumentLog(path, key, doubles_only)
    if log.header.status == "started" and not allow_started:
        log.close()
        raise UnfinishedLogError("the log is still being written (--allow-started imports what it has)")
    if log.sample_count == 0 and (log.header.completed_samples or 0) > 0:
        log.close()
        raise DamagedLogError(f"the log has no samples, although its header counts {log.header.completed_samples}")
    return log


class _ArchiveLog:
    def __init__(self, path: Path, key: str, doubles_only: bool) -> None:
        self._doubles_only = doubles_only
        self._archive = Archive(path)
        try:
            members = self._archive.members
            found = [name for name in members if name.startswith("samples/") and not name.endswith("/")]
            odd = next((name for name in found if not _SAMPLE.fullmatch(name)), None)
            if odd is not None:
                raise UnsupportedLogError(f"{odd}: samples in several parts cannot be imported")
            self._names = found
            self.sample_count = len(found)
            self.header = self._read_header(key)
        except BaseException:
            self._archive.close()
            raise

    def _read_header(self, key: str) -> Header:
        members = self._archive.members
        if _HEADER in members:
            data = self._archive.read(members[_HEADER], MAX_HEADER_BYTES)
            return headers.finished(data, key, doubles_only=self._doubles_only)
        if _START in members:
            data = self._archive.read(members[_START], MAX_HEADER_BYTES)
            return headers.unfinished(data, key, doubles_only=self._doubles_only)
        raise DamagedLogError("the archive has neither header.json nor _journal/start.json: it is not a log")

    def samples(self) -> Iterator[Sample]:
        for name in self._names:
            member = self._archive.members[name]
            if member.size_bytes <= MAX_WHOLE_SAMPLE_BYTES:
                data = self._archive.read(member, MAX_WHOLE_SAMPLE_BYTES)
                yield whole(data, name, self.header, doubles_only=self._doubles_only)
            else:
                chunks = self._archive.chunks
                source = functools.partial(chunks, member)
                with large(source, name, self.header, doubles_only=self._doubles_only) as sample:
                    yield sample

    def close(self) -> None:
        self._archive.close()


class _DocumentLog:
    """An old log: one JSON document, read once for its header and once for its samples."""

    def __init__(self, path: Path, key: str, doubles_only: bool) -> None:
        self._path, self._doubles_only = path, doubles_only
        self.sample_count = 0
        fields = Fields("the header", MAX_HEADER_BYTES)
        with open(path, "rb") as file:
            cursor = _document(file)
            for name in cursor.keys():  # noqa: SIM118 - not a mapping
                if name == "samples" and cursor.peek() == b"[":
                    for _ in cursor.items():
                        cursor.skip()
                        self.sample_count += 1
                elif name in HeaderFields.__struct_encode_fields__:
                    fields.add(name, cursor)
                else:
                    cursor.skip()
            cursor.end()
        self.header = headers.finished(fields.document(), key, doubles_only=doubles_only)

    def samples(self) -> Iterator[Sample]:
        with open(self._path, "rb") as file:
            cursor = _document(file)
            for name in cursor.keys():  # noqa: SIM118
                if name != "samples" or cursor.peek() != b"[":
                    cursor.skip()
                    continue
                for number, _ in enumerate(cursor.items()):
                    yield from self._sample(cursor, f"sample {number}")

    def _sample(self, cursor: Cursor, name: str) -> Iterator[Sample]:
        try:
            data = cursor.read(MAX_WHOLE_SAMPLE_BYTES)
        except TooLargeError:
            with tempfile.TemporaryFile() as spool:
                for piece in cursor.pieces():
                    spool.write(piece)
                source = functools.partial(_chunks, spool)
                with large(source, name, self.header, doubles_only=self._doubles_only) as sample:
                    yield sample
            return
        yield whole(data, name, self.header, doubles_only=self._doubles_only)

    def close(self) -> None:
        pass


def _document(file: IO[bytes]) -> Cursor:
    cursor = Cursor(_chunks(file))
    if cursor.peek() != b"{":
        raise DamagedLogError("the file is neither an archive nor a JSON document")
    return cursor


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
