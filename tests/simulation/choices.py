"""Every random decision of a schedule is a numbered choice; 0 is the dull one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping


class Choices:
    """Draws from a seed, or repeats a script; a choice that the script does not name is 0.

    Only choices other than 0 are recorded, so a schedule shrinks by leaving recorded choices out.
    """

    def __init__(self, seed: int = 0, script: Mapping[int, int] | None = None) -> None:
        self._random = random.Random(seed).random
        self._script = script
        self._number = -1
        self.made: dict[int, int] = {}

    def pick(self, options: int, likelihood: float) -> int:
        """One of 0 .. options - 1; something other than 0 with that likelihood, every such option alike."""
        self._number += 1
        if self._script is not None:
            choice = min(self._script.get(self._number, 0), options - 1)
        else:
            drawn = self._random()
            if drawn >= likelihood:
                return 0
            choice = 1 + int(drawn / likelihood * (options - 1))
        if choice:
            self.made[self._number] = choice
        return choice


def line(script: Mapping[int, int]) -> str:
    """A script as one line, `17=3,55=1`."""
    return ",".join(f"{number}={choice}" for number, choice in sorted(script.items())) or "-"


def parse(text: str) -> dict[int, int]:
    """The script of a line."""
    pairs = (pair.split("=") for pair in text.split(",") if pair != "-")
    return {int(number): int(choice) for number, choice in pairs}


def shrink(script: Mapping[int, int], fails: Callable[[Mapping[int, int]], dict[int, int] | None]) -> dict[int, int]:
    """The smallest script found that still fails.

    `fails` runs a script and returns the choices that were really made, or None if all went well.
    """
    smallest = dict(script)
    size = max(1, len(smallest) // 2)
    while size:
        start = 0
        while start < len(smallest):
            numbers = list(smallest)
            left_out = set(numbers[start : start + size])
            made = fails({n: c for n, c in smallest.items() if n not in left_out})
            if made is not None and len(made) < len(smallest):
                smallest = made
            else:
                start += size
        size //= 2
    for number in list(smallest):
        for lower in range(1, smallest.get(number, 0)):
            made = fails({**smallest, number: lower})
            if made is not None and len(made) <= len(smallest):
                smallest = made
                break
    return smallest
