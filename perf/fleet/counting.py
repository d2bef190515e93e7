"""An instance of the simulation that counts what it asks of S3, as S3 bills it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from longhaul.fleet.objects import Listing
from tests.simulation.host import TRIES
from tests.simulation.workers.instance import Instance

PAGE = 1000  # keys of one LIST
DOLLARS = {"PUT": 5e-6, "LIST": 5e-6, "GET": 0.4e-6}  # list prices of S3 Standard in us-east-1
_AREA = re.compile(r"fleet/(?:q/)?(slots|claims|done|results|hosts)?")

Counts = Counter[tuple[str, str]]  # by verb and what it was about


class CountedInstance(Instance):
    """Without faults: each request is one try, and a listing as many as it has pages."""

    counts: Counts
    unmet: Counts | None = None  # of these, reads of what is not there and writes that are refused
    seconds: Counter[int] | None = None  # requests in each second
    told: Callable[[str, str], None] | None = None

    def request(self, verb: str, key: str, carry_out: Callable[[int], Any], tries: int = TRIES) -> Any:
        """See `Host.request`."""
        answer = super().request(verb, key, carry_out, tries)
        if key.startswith("fleet/"):
            pages = -(-len(answer.objects) // PAGE) if isinstance(answer, Listing) else 1
            self.counts[verb, area(key)] += max(1, pages)
            if self.unmet is not None and answer is None:
                self.unmet[verb, area(key)] += 1
            if self.seconds is not None:
                self.seconds[int(self.world.now)] += max(1, pages)
            if self.told is not None:
                self.told(verb, key)
        return answer


def area(key: str) -> str:
    """What a key is about."""
    found = _AREA.match(key)
    return (found and found[1]) or "documents"


def dollars(counts: Counts) -> float:
    """What they cost."""
    return sum(DOLLARS[verb] * count for (verb, _), count in counts.items())


def of(counts: Counts, verb: str) -> int:
    """How many of one verb."""
    return sum(count for (one, _), count in counts.items() if one == verb)
