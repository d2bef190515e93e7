"""Ways to damage a log. Each takes the log's bytes and a source of chance and gives other bytes.

A kind is *physical* when the log's content is still the one that its checksums vouch for: an import must fail, or leave
exactly the rows of the undamaged log. A *forged* log has checksums that fit: it may be a log of other content.
"""

from __future__ import annotations

import dataclasses
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import zstandard

STORED, DEFLATE, ZSTD = 0, 8, 93
Damage = Callable[[bytes, random.Random], bytes]
PHYSICAL: dict[str, Damage] = {}
FORGED: dict[str, Damage] = {}
BOMB_BYTES = 200 << 20  # what a bomb unpacks to; more only takes longer


def _physical(damage: Damage) -> Damage:
    PHYSICAL[damage.__name__.strip("_").replace("_", " ")] = damage
    return damage


def _forged(damage: Damage) -> Damage:
    FORGED[damage.__name__.strip("_").replace("_", " ")] = damage
    return damage


@dataclasses.dataclass(kw_only=True)
class Part:
    """One member as it stands in an archive; `local` and `central` replace fields of one header only."""

    name: bytes
    method: int
    crc: int
    size: int
    packed: bytes
    local: dict[str, Any] = dataclasses.field(default_factory=dict)
    central: dict[str, Any] = dataclasses.field(default_factory=dict)
    extra: bytes = b""

    def holding(self, data: bytes, *, level: int = 3) -> Part:
        """The same member with other content, honestly described."""
        packed = _zstd(data, level)
        return dataclasses.replace(self, method=ZSTD, crc=zlib.crc32(data), size=len(data), packed=packed)


def _zstd(data: bytes, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(data)


def parts_of(log: bytes) -> list[Part]:
    """The members of an undamaged archive."""
    found = []
    with zipfile.ZipFile(io.BytesIO(log)) as archive:
        for info in archive.infolist():
            at = info.header_offset
            name_length, extra_length = struct.unpack_from("<2H", log, at + 26)
            start = at + 30 + name_length + extra_length
            packed = log[start : start + info.compress_size]
            name = log[at + 30 : at + 30 + name_length]
            found.append(Part(name=name, method=info.compress_type, crc=info.CRC, size=info.file_size, packed=packed))
    return found


def content(part: Part) -> bytes:
    """What a member holds."""
    if part.method == ZSTD:
        return b"".join(zstandard.ZstdDecompressor().read_to_iter(io.BytesIO(part.packed), write_size=1 << 20))
    return zlib.decompress(part.packed, -15) if part.method == DEFLATE else part.packed


def archive_of(parts: list[Part], **end: int) -> bytes:
    """An archive of these members; `end` replaces fields of the end record."""
    body, directory = bytearray(), bytearray()
    for part in parts:
        facts = {"flags": 0x800, "method": part.method, "crc": part.crc, "packed": len(part.packed), "size": part.size}
        local = {**facts, "name": part.name} | part.local
        central = {**facts, "name": part.name, "offset": len(body)} | part.central
        body += struct.pack("<4s5H3I2H", b"PK\3\4", 63, *_head(local), len(local["name"]), 0) + local["name"]
        body += part.packed
        head = (b"PK\1\2", 63, 63, *_head(central), len(central["name"]), len(part.extra))
        directory += struct.pack("<4s6H3I5H2I", *head, 0, 0, 0, 0, central["offset"] & 0xFFFFFFFF)
        directory += central["name"] + part.extra
    facts = {"count": min(len(parts), 0xFFFF), "size": len(directory), "offset": len(body)} | end
    tail = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, facts["count"], facts["count"], facts["size"], facts["offset"], 0)
    return bytes(body + directory) + tail


def _head(facts: dict[str, Any]) -> tuple[int, ...]:
    crc, packed, size = (facts[name] & 0xFFFFFFFF for name in ("crc", "packed", "size"))
    return (facts["flags"], facts["method"], 0, 0, crc, packed, size)


def _samples(parts: list[Part]) -> list[int]:
    return [at for at, part in enumerate(parts) if part.name.startswith(b"samples/")]


# Damage to the bytes, wherever they are.


@_physical
def bit_flips(log: bytes, draw: random.Random) -> bytes:
    changed = bytearray(log)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        changed[draw.randrange(len(log))] ^= 1 << draw.randrange(8)
    return bytes(changed)


@_physical
def bit_flips_in_the_directory(log: bytes, draw: random.Random) -> bytes:
    changed = bytearray(log)
    start = max(log.find(b"PK\1\2"), 0)
    for _ in range(draw.randint(1, 3)):
        changed[draw.randrange(start, len(log))] ^= 1 << draw.randrange(8)
    return bytes(changed)


@_physical
def truncation(log: bytes, draw: random.Random) -> bytes:
    return log[: draw.choice([draw.randrange(len(log)), len(log) - draw.randint(1, min(400, len(log)))])]


@_physical
def overwritten_bytes(log: bytes, draw: random.Random) -> bytes:
    length = draw.choice([1, 4, 512, 4096])
    at = draw.randrange(len(log))
    junk = draw.choice([bytes(length), b"\xff" * length, draw.randbytes(length)])
    return log[:at] + junk[: len(log) - at] + log[at + length :]


@_physical
def lost_or_doubled_bytes(log: bytes, draw: random.Random) -> bytes:
    at, length = draw.randrange(len(log)), draw.choice([1, 7, 512, 4096])
    return log[:at] + log[at + length :] if draw.random() < 0.5 else log[: at + length] + log[at:]


@_physical
def junk_around(log: bytes, draw: random.Random) -> bytes:
    junk = draw.choice([b"PK\5\6", b"\0" * 100, draw.randbytes(70_000), b"PK\5\6" + draw.randbytes(18), log[-22:]])
    return log + junk if draw.random() < 0.5 else junk + log


@_physical
def exchanged_blocks(log: bytes, draw: random.Random) -> bytes:
    length = draw.choice([16, 512])
    one, two = sorted(draw.sample(range(max(2, len(log) // length)), 2))
    blocks = [log[at : at + length] for at in range(0, len(log), length)]
    if two < len(blocks):
        blocks[one], blocks[two] = blocks[two], blocks[one]
    return b"".join(blocks)


# Damage to the archive: headers that lie, members in each other's place.


@_physical
def swapped_members(log: bytes, draw: random.Random) -> bytes:
    """Two members change places: with their names, without them, or only in the directory."""
    parts = parts_of(log)
    one, two = draw.sample(range(len(parts)), 2)
    a, b = parts[one], parts[two]
    how = draw.randrange(4)
    if how == 0:
        parts[one], parts[two] = b, a
    elif how == 1:
        a.packed, b.packed = b.packed, a.packed
    elif how == 2:
        a.central["name"], b.central["name"] = b.name, a.name
    else:
        a.packed, b.packed, a.crc, b.crc = b.packed, a.packed, b.crc, a.crc
    return archive_of(parts)


@_physical
def lies_about_sizes(log: bytes, draw: random.Random) -> bytes:
    parts = parts_of(log)
    for part in draw.sample(parts, draw.randint(1, 2)):
        field = draw.choice(["size", "packed", "crc", "method", "flags", "offset"])
        true = {"size": part.size, "packed": len(part.packed)}.get(field, 0)
        lie = draw.choice([0, 1, true + 1, true * 2, (1 << 31) - 1, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF])
        short = {"method": draw.choice([0, 1, 8, 12, 14, 93, 99, 65535]), "flags": draw.choice([1, 8, 0, 0x2000])}
        where = draw.choice([part.central, part.central, part.local])
        if not (where is part.local and field == "offset"):
            where[field] = short.get(field, lie)
    return archive_of(parts)


@_physical
def lies_in_64_bits(log: bytes, draw: random.Random) -> bytes:
    """A zip64 field with sizes and offsets beyond every file, or one that is cut off."""
    parts = parts_of(log)
    part = draw.choice(parts)
    values = [draw.choice([0, 1, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]) for _ in range(3)]
    part.extra = struct.pack("<2H3Q", 1, draw.choice([24, 24, 8, 0, 65535]), *values)[: draw.choice([28, 28, 11, 3])]
    for field in draw.sample(["size", "packed", "offset"], draw.randint(1, 3)):
        part.central[field] = 0xFFFFFFFF
    return archive_of(parts)


@_physical
def lies_in_the_end_record(log: bytes, draw: random.Random) -> bytes:
    parts = parts_of(log)
    field = draw.choice(["count", "size", "offset"])
    top = 0xFFFF if field == "count" else 0xFFFFFFFF
    changed = archive_of(parts, **{field: draw.choice([0, 1, top // 2, top - 1, top])})
    if draw.random() < 0.4:  # a zip64 record that lies in its turn
        numbers = [draw.choice([0, 1, len(log), 1 << 28, 1 << 40, 1 << 63, (1 << 64) - 1]) for _ in range(4)]
        end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 63, 63, 0, 0, *numbers)
        at = draw.choice([len(changed) - 22, 1 << 40, (1 << 64) - 1])
        changed = changed[:-22] + end64 + struct.pack("<4sIQI", b"PK\6\7", 0, at, 1) + changed[-22:]
    return changed


@_physical
def overlapping_members(log: bytes, draw: random.Random) -> bytes:
    """Several entries of the directory name one place."""
    parts = parts_of(log)
    at = draw.choice(_samples(parts) or list(range(len(parts))))  # a log that ended early has none
    ghost = dataclasses.replace(
        parts[at], packed=b"", name=draw.choice([parts[at].name, b"samples/ghost_epoch_1.json"])
    )
    offset = sum(len(part.packed) + len(part.name) + 30 for part in parts[:at])
    ghost.central = {"offset": offset, "packed": len(parts[at].packed)}
    return archive_of([*parts, *([ghost] * draw.choice([1, 50]))])


# Forged logs: the checksums fit.


@_forged
def odd_names(log: bytes, draw: random.Random) -> bytes:
    parts = parts_of(log)
    for part in draw.sample(parts, draw.randint(1, min(3, len(parts)))):
        base = part.name.rpartition(b"/")[2]
        part.name = draw.choice(
            [
                b"samples/../../../../etc/" + base,
                b"../" + part.name,
                b"/etc/passwd",
                b"samples/\xff\xfe_epoch_1.json",
                b"samples/a\0b_epoch_1.json",
                b"samples/line\nbreak_epoch_1.json",
                b"samples/" + b"n" * 60_000 + b"_epoch_1.json",
                b"samples/1/sample.json",
                b"",
                b"header.json",
                part.name.upper(),
            ]
        )
    return archive_of(parts)


@_forged
def bombs(log: bytes, draw: random.Random) -> bytes:
    """A member that unpacks to a million times its size, described honestly or not."""
    parts = parts_of(log)
    at = draw.choice([*_samples(parts), next(n for n, part in enumerate(parts) if part.name == b"header.json")])
    fill = draw.choice([b"\0", b" ", b"[", b'"', b"1", b"a", b'{"a":', b'"metadata":{},'])
    count = BOMB_BYTES // len(fill)
    shape = draw.randrange(5)
    whole = [
        lambda: fill * count,
        lambda: b'{"id": 1, "epoch": 1, "store": "' + b"s" * BOMB_BYTES + b'"}',
        lambda: b'{"id": 1, "epoch": 1, "metadata": "' + b"m" * BOMB_BYTES + b'"}',
        lambda: b'{"id": 1, "epoch": 1, ' + (b'"metadata": {"m": "%s"},' % (b"m" * (20 << 20))) * 10 + b'"a": 1}',
        lambda: b'{"id": 1, "epoch": 1, "%s": 1}' % (b"k" * BOMB_BYTES),
    ][shape]()
    bomb = parts[at].holding(whole, level=1)
    if draw.random() < 0.5:
        bomb.central["size"] = draw.choice([0, 100, 1 << 24, 0xFFFFFFFE])
    parts[at] = bomb
    return archive_of(parts)


@_forged
def huge_directories(log: bytes, draw: random.Random) -> bytes:
    """Many entries, each of them valid; or archives within archives."""
    parts = parts_of(log)
    if draw.random() < 0.3:
        for _ in range(5):
            log = archive_of([*parts, parts[0].holding(log)])
        return log
    count = draw.choice([10_000, 70_000, 400_000])
    # All entries name one member: the file stays small.
    one = struct.pack("<4s5H3I2H", b"PK\3\4", 63, 0x800, STORED, 0, 0, 0, 0, 0, 1, 0) + b"x"
    head = (b"PK\1\2", 63, 63, 0x800, STORED, 0, 0, 0, 0, 0)
    unique = draw.random() < 0.5
    if unique:  # each its own name, and so its own local header
        names = [b"%d" % number for number in range(count)]
        body = b"".join(
            struct.pack("<4s5H3I2H", b"PK\3\4", 63, 0x800, STORED, 0, 0, 0, 0, 0, len(name), 0) + name for name in names
        )
        offsets, at = [], 0
        for name in names:
            offsets.append(at)
            at += 30 + len(name)
    else:
        names, body, offsets = [b"x"] * count, one, [0] * count
    directory = b"".join(
        struct.pack("<4s6H3I5H2I", *head, len(name), 0, 0, 0, 0, 0, offset) + name
        for name, offset in zip(names, offsets, strict=True)
    )
    start = len(body)
    end = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 63, 63, 0, 0, count, count, len(directory), start)
    end += struct.pack("<4sIQI", b"PK\6\7", 0, start + len(directory), 1)
    return body + directory + end + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)


@_forged
def flips_in_the_content(log: bytes, draw: random.Random) -> bytes:
    """Bits of the JSON itself, under a checksum that fits."""
    parts = parts_of(log)
    at = draw.randrange(len(parts))
    data = bytearray(content(parts[at]))
    for _ in range(draw.choice([1, 1, 4])):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    parts[at] = parts[at].holding(bytes(data))
    return archive_of(parts)


ODD_VALUES = [
    *(None, True, -1, 2**63, 2**70, -(2**31) - 1, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "\0", "\ud800", "attachment://" + "0" * 32, "a" * 100_000, "é\u2014\U0001f600" * 10, "NaN", "0.85"),
    *([], {}, [[]], {"": {"": None}}, [1, "x", None, {}], {"type": "text"}, ["C"] * 100),
]


@_forged
def odd_values(log: bytes, draw: random.Random) -> bytes:
    """A value somewhere in header or sample becomes another, or goes."""
    parts = parts_of(log)
    named = [*_samples(parts), *(at for at, part in enumerate(parts) if part.name == b"header.json")]
    at = draw.choice([*named, named[-1]])
    document = json.loads(content(parts[at]))
    for _ in range(draw.choice([1, 1, 3])):
        place = _somewhere(document, draw)
        if place is None:
            continue
        holder, key = place
        if draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = draw.choice(ODD_VALUES)
    data = json.dumps(document, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    if draw.random() < 0.2:
        odd = draw.choice([b"1e400", b"1e200000", b"-", b"[" * 100_000, b"[" * 900 + b"]" * 900, b"9" * 200_000])
        data = data.replace(b"null", odd, 1) if b"null" in data else data.replace(b"1", odd, 1)
    parts[at] = parts[at].holding(data)
    return archive_of(parts)


def _somewhere(document: Any, draw: random.Random) -> tuple[Any, Any] | None:
    place = None
    for _ in range(draw.randint(1, 6)):
        if not isinstance(document, dict | list) or not document:
            break
        key = draw.choice(list(document)) if isinstance(document, dict) else draw.randrange(len(document))
        place, document = (document, key), document[key]
    return place


KINDS = PHYSICAL | FORGED
