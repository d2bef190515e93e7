"""Keys files: one log a line, as an operator writes them (R20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from longhaul.reimport.errors import InvalidArgumentError

LOGS_PREFIX = "evals/"
KEY_MAX_BYTES = 1024  # S3's limit on the UTF-8 form of a key
_SHOWN = 20  # problems spelled out; the rest is counted


def parse_line(line: str, logs_bucket: str) -> str | None:
    """Return the key that a line names, None for a blank or a comment; ValueError says what is wrong with it.

    A key is taken literally: `%2B`, `+`, `..` and backslashes mean themselves.
    """
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    if text.startswith("s3://"):
        bucket, slash, text = text.removeprefix("s3://").partition("/")
        if bucket != logs_bucket:
            raise ValueError(f"bucket {bucket} is not the logs bucket {logs_bucket}")
        if not slash or not text:
            raise ValueError("the URI names no key")
    return check_key(text)


def check_key(key: str) -> str:
    """Return `key` if it can be that of an eval log; ValueError says why it cannot."""
    if not key.startswith(LOGS_PREFIX):
        raise ValueError(f"key is not below {LOGS_PREFIX}: {_shown(key)}")
    length = len(key.encode("utf-8", "surrogatepass"))
    if length > KEY_MAX_BYTES:
        raise ValueError(f"key has {length:,} bytes, S3 allows {KEY_MAX_BYTES:,}: {_shown(key)}")
    return key


def read_keys(lines: BinaryIO | Iterable[bytes], logs_bucket: str, source: str) -> Iterator[str]:
    """Yield the keys of a keys file, or raise one InvalidArgumentError that names every bad line.

    Takes what editors write: a byte order mark, CRLF, space around a line, blank lines, `#` comments. Problems are
    raised at the end, so the caller must not act before the last key; memory stays bounded by the problems shown.
    """
    problems: list[str] = []
    count = 0
    for number, raw in enumerate(lines, start=1):
        try:
            key = parse_line(raw.decode("utf-8-sig" if number == 1 else "utf-8"), logs_bucket)
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 at byte {error.start + 1}"
        except ValueError as error:
            problem = str(error)
        else:
            if key is not None and not count:
                yield key
            continue
        count += 1
        if count <= _SHOWN:
            problems.append(f"  line {number}: {problem}")
    if count:
        if count > _SHOWN:
            problems.append(f"  and {count - _SHOWN:,} more")
        raise InvalidArgumentError("\n".join([f"{source} has {count:,} bad line{'s'[: count > 1]}:", *problems]))


def writable(key: str, logs_bucket: str) -> bool:
    """Say whether a line of a keys file can name `key` (one with a line break or a space at its end cannot)."""
    if "\n" in key or "\r" in key:
        return False
    try:
        return parse_line(key, logs_bucket) == key
    except ValueError:
        return False


def _shown(key: str) -> str:
    return key if len(key) <= 80 else f"{key[:60]}…{key[-15:]}"
