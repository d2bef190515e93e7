"""Ids that old logs lack, made the way Inspect's own reader makes them, so that they are the same at every reading."""

from __future__ import annotations

import hashlib
import json

_ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LENGTH = 22


def eval_id(run_id: str, task_id: str, created: str) -> str:
    """Id of an eval whose log has none; equals what inspect_ai says of the log (W8)."""
    return _short_hash(run_id + task_id + created)


def sample_uuid(eval_id: str, sample_id: int | str | float, epoch: int) -> str:
    """Uuid of a sample whose log has none (inspect_ai makes up a new one at each reading, or leaves it out)."""
    return _short_hash(json.dumps([eval_id, sample_id, epoch]))


def _short_hash(content: str) -> str:
    left = int.from_bytes(hashlib.blake2s(content.encode(errors="replace"), digest_size=16).digest(), "big")
    digits = []
    while left:
        left, digit = divmod(left, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))[-_LENGTH:].rjust(_LENGTH, _ALPHABET[0])
