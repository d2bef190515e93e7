"""What is measured: a case with frozen parameters, and a case at one scale (B1)."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from longhaul.benchmark.errors import ConfigurationError

_SCALE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
LONGEST_SLUG = 60
HASH_LENGTH = 8


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing to measure. Whatever would change the measurement is part of its id."""

    name: str  # for people; its slug begins the id
    adapter: str = "command"
    parameters: dict[str, Any] = {}  # what the adapter makes of it is the adapter's matter
    scales: tuple[str | int, ...] = ()  # none: those of the run
    timeout_seconds: float | None = None  # of one trial; None: that of the run
    api_weight: int | None = None  # API slots that it needs; None: what the adapter says
    weight: float = 1.0  # how long a trial lasts beside those of other cases
    unsupported: str | None = None  # why this combination cannot be; it is recorded, never measured

    @property
    def id(self) -> str:
        """A slug of its name and a hash of its content: what is measured by what."""
        content = msgspec.json.encode([self.adapter, self.parameters], order="sorted")
        return f"{self.slug}-{hashlib.sha256(content).hexdigest()[:HASH_LENGTH]}"

    @property
    def slug(self) -> str:
        """The name in small letters, digits and hyphens."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:LONGEST_SLUG].rstrip("-") or "case"


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A case at one scale: what repetitions are counted for."""

    case: Case
    scale: str

    @property
    def key(self) -> tuple[str, str]:
        """The case's id and the scale, which records carry."""
        return self.case.id, self.scale


def scale_name(scale: str | int) -> str:
    """Return a scale as ids name it; `ConfigurationError` if it could not stand in a key."""
    if not _SCALE.fullmatch(str(scale)):
        raise ConfigurationError(f"scale {scale!r}: 1 to 32 letters, digits, _ and - only, no _ or - first")
    return str(scale)
