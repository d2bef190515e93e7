"""The archive's own reader: every way to pack, every way to lie."""

from __future__ import annotations

import resource
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from longhaul.evallog.archive import Archive
from longhaul.evallog.errors import DamagedLogError
from tests.logs import DEFLATE, STORED, ZSTD, Entry, write_zip

LIMIT = 1 << 20


def read(path: Path, name: str = "a") -> bytes:
    with Archive(path) as archive:
        member = archive.members[name]
        whole = archive.read(member, LIMIT)
        assert b"".join(archive.chunks(member)) == whole
        return whole


@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 999])
def test_every_method_reads_the_same_bytes(tmp_path: Path, method: int, zip64: bool, data: bytes) -> None:
    """Case L02, and members of archives above 4 GiB."""
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=data, method=method)], zip64=zip64)
    assert read(path) == data


def test_of_two_members_with_one_name_the_last_counts(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "a.eval", [Entry(name="a", data=b"old"), Entry(name="b", data=b"b"), Entry(name="a", data=b"new")]
    )
    assert read(path) == b"new"
    with Archive(path) as archive:
        assert list(archive.members) == ["b", "a"]


def test_a_member_of_several_zstd_frames(tmp_path: Path) -> None:
    parts = [b"one " * 100_000, b"two", b"three" * 5]
    packed = b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)
    whole = b"".join(parts)
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=whole, packed=packed)])
    assert read(path) == whole


def test_a_zstd_frame_that_does_not_say_its_size(tmp_path: Path) -> None:
    squeeze = zstandard.ZstdCompressor().compressobj()
    data = b"streamed " * 1000
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=data, packed=squeeze.compress(data) + squeeze.flush())])
    assert read(path) == data


def test_a_member_of_several_zstd_frames_that_do_not_say_their_sizes(tmp_path: Path) -> None:
    parts = [b"one " * 1000, b"two", b"three" * 5]
    packed = b""
    for part in parts:
        squeeze = zstandard.ZstdCompressor().compressobj()
        packed += squeeze.compress(part) + squeeze.flush()
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=b"".join(parts), packed=packed)])
    assert read(path) == b"".join(parts)


@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
@pytest.mark.parametrize("whole", [True, False])
def test_both_ways_to_read_look_at_the_checksum(tmp_path: Path, method: int, whole: bool) -> None:
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=b"abc", method=method, crc=7)])
    with Archive(path) as archive, pytest.raises(DamagedLogError, match="checksum"):
        archive.read(archive.members["a"], LIMIT) if whole else list(archive.chunks(archive.members["a"]))


@pytest.mark.parametrize("cut", [1, 22, 200, 10_000])
def test_a_log_that_was_cut_off(tmp_path: Path, cut: int) -> None:
    """Case L01."""
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=bytes(range(256)) * 99, method=STORED)])
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DamagedLogError, match=r"corrupt archive|directory"):
        read(path)


@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
def test_one_flipped_bit_is_found(tmp_path: Path, method: int) -> None:
    data = b"some text that matters " * 50
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=data, method=method)])
    original = path.read_bytes()
    end = original.index(b"PK\1\2")
    for at in range(31, end, max(1, (end - 31) // 60)):
        path.write_bytes(original[:at] + bytes([original[at] ^ 0x10]) + original[at + 1 :])
        try:
            assert read(path) == data  # zstd has bits that mean nothing
        except DamagedLogError:
            continue
        assert method == ZSTD


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Entry(name="a", data=b"abc", crc=7), "checksum"),
        (Entry(name="a", data=b"abc", size=2), "longer|instead"),
        (Entry(name="a", data=b"abc", size=9), "instead"),
        (Entry(name="a", data=b"abc", method=STORED, size=2), "instead|longer"),
        (Entry(name="a", data=b"abc", packed=b"not zstd at all"), "decompressed"),
        (Entry(name="a", data=b"abc", method=DEFLATE, packed=b"\xff\xff\xff"), "decompressed"),
        (Entry(name="a", data=b"a" * 999, method=DEFLATE, packed=b""), "decompressed"),
        (Entry(name="a", data=b"abc", method=12), "unknown method 12"),
        (Entry(name="a", data=b"abc", flags=1), "encrypted"),
        (Entry(name="a", data=b"abc", local_name="b"), "not where"),
        (Entry(name="a", data=b"abc", method=STORED, packed=b"abc", size=1 << 31), "cannot hold"),
        (Entry(name="a", data=b"abc", size=(1 << 31)), "cannot hold"),
    ],
)
def test_lies_of_the_directory(tmp_path: Path, entry: Entry, reason: str) -> None:
    with pytest.raises(DamagedLogError, match=reason):
        read(write_zip(tmp_path / "a.eval", [entry]))


def test_a_bomb_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    """A frame that claims, and holds, 1 GiB of zeros behind a directory that says 100 bytes."""
    squeeze = zstandard.ZstdCompressor().compressobj(size=1 << 30)
    packed = b"".join(squeeze.compress(bytes(1 << 24)) for _ in range(64)) + squeeze.flush()
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=b"", size=100, packed=packed)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedLogError, match="longer"):
        read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_names_are_never_paths(tmp_path: Path) -> None:
    names = ["../../etc/passwd", "/etc/passwd", "..\\x", "a/../b"]
    path = write_zip(tmp_path / "a.eval", [Entry(name=name, data=name.encode()) for name in names])
    assert [read(path, name).decode() for name in names] == names
    assert [found.name for found in tmp_path.iterdir()] == ["a.eval"]


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    for data in (b"", b"PK", b"PK\5\6", b"hello" * 9999, bytes(70_000), b"PK\5\6" + b"\xff" * 18):
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(DamagedLogError):
            Archive(tmp_path / "a")


def test_a_name_that_damage_changed_hides_no_member(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=b"a"), Entry(name="zzz", local_name="b", data=b"b")])
    with pytest.raises(DamagedLogError, match="not where"):
        read(path)


@pytest.mark.parametrize("offset", [1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_an_offset_beyond_every_file(tmp_path: Path, offset: int) -> None:
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=b"abc")], zip64=True)
    data = path.read_bytes()
    extra = data.index(b"PK\1\2") + 46 + 1
    path.write_bytes(data[: extra + 20] + offset.to_bytes(8, "little") + data[extra + 28 :])
    with pytest.raises(DamagedLogError, match="outside"):
        read(path)


def test_w7_compressed_bytes_are_not_held_whole_when_they_are_more_than_the_content(tmp_path: Path) -> None:
    """A small member that claims a large part of the file for itself."""
    packed = zstandard.ZstdCompressor().compress(b"abc")
    skipped = b"\x50\x2a\x4d\x18" + (64 << 20).to_bytes(4, "little") + bytes(64 << 20)  # a frame that says nothing
    path = write_zip(tmp_path / "a.eval", [Entry(name="a", data=b"abc", packed=packed + skipped)])
    tracemalloc.start()
    try:
        with Archive(path) as archive:
            assert archive.read(archive.members["a"], LIMIT) == b"abc"
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_w7_a_directory_without_end_is_refused(tmp_path: Path, monkeypatch) -> None:
    path = write_zip(tmp_path / "a.eval", [Entry(name=str(n), data=b"") for n in range(12)])
    monkeypatch.setattr("longhaul.evallog.archive.MAX_MEMBERS", 11)
    with pytest.raises(DamagedLogError, match="more than 11 members"):
        Archive(path)
    monkeypatch.setattr("longhaul.evallog.archive.MAX_DIRECTORY_BYTES", 100)
    with pytest.raises(DamagedLogError, match="claims"):
        Archive(path)


def test_two_names_that_are_no_utf8_stay_two(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.eval", [Entry(name="xa", data=b"1"), Entry(name="xb", data=b"2")])
    path.write_bytes(path.read_bytes().replace(b"xa", b"\xffa").replace(b"xb", b"\xfeb").replace(b"\xfeb", b"\xfea"))
    with Archive(path) as archive:
        assert len(archive.members) == 2
