"""The events of one execution, as GetExecutionHistory returns them.

AWS: https://docs.aws.amazon.com/step-functions/latest/apireference/API_GetExecutionHistory.html and
API_HistoryEvent.html
Gap of moto 5.2.5: children of a Distributed Map have no history; the parent's knows no redrive. A finished child's
events are kept packed: ten thousand children must fit in a laptop's memory.
"""

from __future__ import annotations

import json
import threading
import zlib
from datetime import UTC, datetime
from typing import Any

from sandbox.step_functions import clock

LONGEST = 25_000
"""Events of one execution; AWS fails an execution that has more."""


class History:
    """Grows while its execution works; `pack` it when that ends, appending unpacks it."""

    def __init__(self) -> None:
        self.count = 0
        self._events: list[dict[str, Any]] = []
        self._packed: bytes | None = None
        self._lock = threading.Lock()

    def add(self, kind: str, details: dict[str, Any] | None = None, *, of: str | None = None) -> None:
        """Append an event. `of` names its details when they are not named after the event (stateEntered…)."""
        event: dict[str, Any] = {"timestamp": clock.now(), "type": kind}
        if details is not None:
            name = of or kind[0].lower() + kind[1:]
            event[f"{name}EventDetails"] = {key: value for key, value in details.items() if value is not None}
        with self._lock:
            self._unpack()
            event["previousEventId"] = self.count
            self.count += 1
            event["id"] = self.count
            self._events.append(event)

    def events(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._events) if self._packed is None else _read(self._packed)

    def pack(self) -> None:
        with self._lock:
            if self._packed is None:
                text = json.dumps(self._events, default=datetime.timestamp)
                self._packed, self._events = zlib.compress(text.encode(), 1), []

    def _unpack(self) -> None:
        if self._packed is not None:
            self._events, self._packed = _read(self._packed), None


def _read(packed: bytes) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(zlib.decompress(packed))
    for event in events:
        event["timestamp"] = datetime.fromtimestamp(event["timestamp"], tz=UTC)
    return events
