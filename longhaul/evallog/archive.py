"""Members of an `.eval` archive, straight from the zip's central directory.

The standard library's reader knows no zstd (method 93) and keeps the first of two members with one name; here the last
one counts. Names are never used as paths. Whatever a directory claims, memory stays bounded: sizes are checked before
anything is allocated, output is cut at the claimed size, and every CRC is verified.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, cast

import zstandard
from isal.isal_zlib import crc32

from longhaul.evallog.errors import DamagedLogError

STORED, DEFLATE, ZSTD = 0, 8, 93
CHUNK_BYTES = 1 << 20
# Memory: an entry takes half a KiB beside its name. Inspect's largest logs hold some ten thousand samples.
MAX_DIRECTORY_BYTES = 32 << 20
MAX_MEMBERS = 200_000
MAX_WINDOW_BYTES = 128 << 20
# zstd packs at best 128 KiB into 4 bytes, deflate 258 bytes into 2 bits: a greater claim is a lie.
MAX_RATIO = {STORED: 1, DEFLATE: 1040, ZSTD: 33_000}

_END = struct.Struct("<4s4H2IH")
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_MAX16, _MAX32 = 0xFFFF, 0xFFFFFFFF
_SIZE_UNKNOWN = -1  # python-zstandard's word for a frame that does not say it


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of the central directory."""

    name: str
    raw_name: bytes
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    offset: int


class Archive:
    """An open archive; `members` maps each name to its last entry, in the order of the directory."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        try:
            self.size_bytes = os.fstat(self._file.fileno()).st_size
            self.members = _read_directory(self._file, self.size_bytes)
            # A name that damage has changed would hide its member, and a sample with it: look at every one.
            self._offsets = {name: self._data_offset(member) for name, member in self.members.items()}
        except BaseException:
            self._file.close()
            raise
        self._zstd = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, member: Member, limit_bytes: int) -> bytes:
        """The whole content of `member`, which must be at most `limit_bytes` long."""
        if member.size_bytes > limit_bytes:
            raise DamagedLogError(f"{member.name} is {member.size_bytes} bytes long, more than {limit_bytes}")
        if member.packed_bytes > limit_bytes:
            return b"".join(self.chunks(member))
        start = self._offsets[member.name]
        packed = os.pread(self._file.fileno(), member.packed_bytes, start)
        data = self._unpacked(member, packed)
        if data is None:
            return b"".join(self.chunks(member))
        _verify(member, len(data), crc32(data))
        return data

    def _unpacked(self, member: Member, packed: bytes) -> bytes | None:
        """The content if it can be had in one go, twice as fast as in pieces; None leaves it, or why not, to those."""
        if member.method == STORED:
            return packed
        if member.method != ZSTD or not _fits(packed, member.size_bytes):
            return None
        try:
            data = self._zstd.decompress(packed, max_output_size=member.size_bytes)
        except zstandard.ZstdError:
            return None  # damage, or a lie
        return data if len(data) == member.size_bytes else None  # the first of several frames

    def chunks(self, member: Member) -> Iterator[bytes]:
        """The content of `member` in pieces of at most 1 MiB; size and CRC are verified at the end."""
        source = _Slice(self._file.fileno(), self._offsets[member.name], member.packed_bytes)
        pieces = {STORED: _stored, DEFLATE: _inflated, ZSTD: self._unzstd}[member.method](source)
        size = crc = 0
        try:
            for piece in pieces:
                size += len(piece)
                if size > member.size_bytes:
                    raise DamagedLogError(f"{member.name} is longer than the archive's directory says")
                crc = crc32(piece, crc)
                yield piece
        except (zstandard.ZstdError, zlib.error) as error:
            raise DamagedLogError(f"{member.name} cannot be decompressed: {error}") from error
        _verify(member, size, crc)

    def _unzstd(self, source: _Slice) -> Iterator[bytes]:
        with self._zstd.stream_reader(
            cast(IO[bytes], source), read_size=CHUNK_BYTES, read_across_frames=True, closefd=False
        ) as reader:
            while piece := reader.read(CHUNK_BYTES):
                yield piece

    def _data_offset(self, member: Member) -> int:
        """Where the data of `member` begin, after its local header, which must bear the same name."""
        if member.offset + member.packed_bytes > self.size_bytes:
            raise DamagedLogError(f"{member.name} lies outside the file")
        header = os.pread(self._file.fileno(), _LOCAL.size + len(member.raw_name), member.offset)
        if len(header) < _LOCAL.size + len(member.raw_name):
            raise DamagedLogError(f"{member.name} lies outside the file")
        fields = _LOCAL.unpack_from(header)
        if fields[0] != b"PK\x03\x04" or fields[9] != len(member.raw_name) or header[_LOCAL.size :] != member.raw_name:
            raise DamagedLogError(f"{member.name} is not where the archive's directory says")
        start = member.offset + _LOCAL.size + int(fields[9]) + int(fields[10])
        if start + member.packed_bytes > self.size_bytes:
            raise DamagedLogError(f"{member.name} lies outside the file")
        return start


def is_archive(path: Path) -> bool:
    """Whether the file begins like a zip (an empty one included)."""
    with open(path, "rb") as file:
        return file.read(2) == b"PK"


def _verify(member: Member, size: int, crc: int) -> None:
    if size != member.size_bytes:
        raise DamagedLogError(f"{member.name} has {size} bytes instead of {member.size_bytes}")
    if crc != member.crc:
        raise DamagedLogError(f"{member.name} does not match its checksum")


def _fits(packed: bytes, size: int) -> bool:
    """Whether the first zstd frame claims `size` bytes or, like Inspect's, none; no other claim is to be trusted."""
    try:
        return size > 0 and zstandard.frame_content_size(packed) in (size, _SIZE_UNKNOWN)
    except zstandard.ZstdError:
        return False


class _Slice(io.RawIOBase):
    """A part of a file as a readable stream; keeps no position in the file itself."""

    def __init__(self, descriptor: int, start: int, length: int) -> None:
        self._descriptor, self._at, self._end = descriptor, start, start + length

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        left = self._end - self._at
        data = os.pread(self._descriptor, left if size < 0 else min(size, left), self._at)
        self._at += len(data)
        return data


def _stored(source: _Slice) -> Iterator[bytes]:
    while piece := source.read(CHUNK_BYTES):
        yield piece


def _inflated(source: _Slice) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    packed = b""
    while not inflater.eof:
        packed = inflater.unconsumed_tail or source.read(CHUNK_BYTES)
        if not packed:
            raise zlib.error("the data end too early")
        piece = inflater.decompress(packed, CHUNK_BYTES)
        if piece:
            yield piece


def _read_directory(file: io.BufferedReader, file_size: int) -> dict[str, Member]:
    offset, size, count = _locate_directory(file, file_size)
    if size > MAX_DIRECTORY_BYTES:
        raise DamagedLogError(f"the archive's directory claims {size} bytes")
    if offset + size > file_size:
        raise DamagedLogError("the archive's directory lies outside the file")
    directory = os.pread(file.fileno(), size, offset)
    members: dict[str, Member] = {}
    at = found = 0
    while at < size:
        try:
            member, at = _read_entry(directory, at)
        except struct.error as error:
            raise DamagedLogError("the archive's directory is cut off") from error
        members.pop(member.name, None)  # the last one counts, at its own place
        members[member.name] = member
        found += 1
        if len(members) > MAX_MEMBERS:
            raise DamagedLogError(f"the archive's directory has more than {MAX_MEMBERS} members")
    if found != count:
        raise DamagedLogError(f"the archive's directory has {found} entries instead of {count}")
    return members


def _locate_directory(file: io.BufferedReader, file_size: int) -> tuple[int, int, int]:
    """Offset, length and number of entries of the central directory."""
    length = min(file_size, _END.size + _MAX16)
    tail = os.pread(file.fileno(), length, file_size - length)
    at = len(tail)
    while (at := tail.rfind(b"PK\x05\x06", 0, at)) >= 0:
        if len(tail) - at >= _END.size and at + _END.size + _END.unpack_from(tail, at)[7] == len(tail):
            break
    if at < 0:
        raise DamagedLogError("corrupt archive: it has no end record (cut off, or not a zip)")
    _, _, _, _, count, size, offset, _ = _END.unpack_from(tail, at)
    if count == _MAX16 or size == _MAX32 or offset == _MAX32:
        end64 = _locate_end64(file, file_size - len(tail) + at)
        if end64 is not None:
            return end64
    return int(offset), int(size), int(count)


def _locate_end64(file: io.BufferedReader, end_offset: int) -> tuple[int, int, int] | None:
    at = end_offset - _END64_LOCATOR.size
    if at < 0:
        return None
    signature, _, offset64, _ = _END64_LOCATOR.unpack(os.pread(file.fileno(), _END64_LOCATOR.size, at))
    if signature != b"PK\x06\x07":
        return None
    record = os.pread(file.fileno(), _END64.size, offset64) if offset64 < end_offset else b""
    if len(record) < _END64.size or record[:4] != b"PK\x06\x06":
        raise DamagedLogError("corrupt archive: its zip64 end record is missing")
    _, _, _, _, _, _, _, count, size, offset = _END64.unpack(record)
    return int(offset), int(size), int(count)


def _read_entry(directory: bytes, at: int) -> tuple[Member, int]:
    fields = _ENTRY.unpack_from(directory, at)
    signature, flags, method, crc, packed, size = fields[0], fields[3], fields[4], fields[7], fields[8], fields[9]
    name_length, extra_length, comment_length, offset = fields[10], fields[11], fields[12], fields[16]
    name_end = at + _ENTRY.size + name_length
    end = name_end + extra_length + comment_length
    if signature != b"PK\x01\x02" or end > len(directory):
        raise DamagedLogError("the archive's directory is damaged")
    raw_name = directory[at + _ENTRY.size : name_end]
    if _MAX32 in (packed, size, offset):
        size, packed, offset = _zip64(directory[name_end : name_end + extra_length], size, packed, offset)
    try:
        name = raw_name.decode()
    except UnicodeDecodeError:
        name = raw_name.decode("cp437")  # as zip has it; like UTF-8 it makes two names of two
    if flags & 0x1:
        raise DamagedLogError(f"{name} is encrypted")
    if method not in MAX_RATIO:
        raise DamagedLogError(f"{name} is compressed by the unknown method {method}")
    if size > (packed + 64) * MAX_RATIO[method]:
        raise DamagedLogError(f"{name} claims {size} bytes, which its {packed} compressed bytes cannot hold")
    member = Member(
        name=name,
        raw_name=raw_name,
        method=method,
        crc=crc,
        packed_bytes=packed,
        size_bytes=size,
        offset=offset,
    )
    return member, end


def _zip64(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """The 64-bit values of an entry whose 32-bit ones are all ones."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        at += 4
        if kind == 1:
            wanted = sum(value == _MAX32 for value in (size, packed, offset))
            values = list(struct.unpack_from(f"<{wanted}Q", extra, at))
            size = values.pop(0) if size == _MAX32 else size
            packed = values.pop(0) if packed == _MAX32 else packed
            offset = values.pop(0) if offset == _MAX32 else offset
            break
        at += length
    return size, packed, offset
