"""Where a stack's objects are: `s3://<bucket>/<prefix>/`, as people write it and as keys need it (I9)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from longhaul.fleet.errors import FleetError

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PART = re.compile(r"[A-Za-z0-9!_.*'()-]+")


class IllegalLocationError(FleetError):
    """A location of results is none: `s3://bucket/prefix/` is wanted."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """A bucket, and a prefix that is empty or ends with a slash."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read `s3://bucket/prefix/`; the slash at the end may be missing."""
        scheme, _, rest = text.strip().partition("://")
        bucket, _, prefix = rest.partition("/")
        parts = prefix.rstrip("/").split("/") if prefix.rstrip("/") else []
        if scheme != "s3":
            raise IllegalLocationError(f"{text!r} is no location of results: s3://bucket/prefix/ is wanted")
        if not _BUCKET.fullmatch(bucket):
            raise IllegalLocationError(f"{text!r} is no location of results: no bucket can be called {bucket!r}")
        if not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
            raise IllegalLocationError(f"{text!r} is no location of results: {prefix!r} cannot be a prefix of keys")
        return cls(bucket=bucket, prefix="".join(f"{part}/" for part in parts))

    def __str__(self) -> str:
        """With a slash at its end."""
        return f"s3://{self.bucket}/{self.prefix}"
