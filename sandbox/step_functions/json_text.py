"""JSON as AWS reads it and the size that AWS counts; Python's own module is more lenient in the one and stricter in
the other.
"""

from __future__ import annotations

import json
from typing import Any


def parse(text: str | bytes) -> Any:
    """Parse JSON; ValueError also for NaN and Infinity, which Python would take."""
    return json.loads(text, parse_constant=_refuse)


def size_bytes(text: str) -> int:
    """Length in UTF-8. Half a surrogate pair, which an escape in a list can name, counts too and is no error."""
    return len(text.encode("utf-8", "surrogatepass"))


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
