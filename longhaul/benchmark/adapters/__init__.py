"""What measures a case: an adapter, found by name. Others register by entry point group `longhaul.adapters` (B2).

Trial processes import this module: it must stay as light as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from datetime import datetime

GROUP = "longhaul.adapters"
SHIPPED = {"command": "longhaul.benchmark.adapters.command:CommandAdapter"}


class Trial(NamedTuple):
    """What an adapter is to do, once, in a fresh process."""

    id: str
    parameters: Mapping[str, Any]  # the case's
    scale: str
    prefix: str | None  # s3://…/ of this trial alone, where its queries write to (F19); None outside a fleet
    started: Callable[[str], None]  # to be told the id of a query as soon as it is known, so that it can be stopped
    may_query: Callable[[], None]  # to be called before each query; it raises if the deadline is over (F19, S65)


class Consumed(NamedTuple):
    """What came of a trial."""

    rows: int | None = None
    checksum: str | None = None
    values: Mapping[str, Any] = {}  # whatever else is worth keeping; JSON
    times: Mapping[str, float] = {}  # seconds that replace those measured around the three calls


class Query(NamedTuple):
    """A query of a trial, as its service lists it."""

    id: str
    prefix: str
    running: bool


class UnsupportedError(Exception):
    """This case cannot be measured here, ever; the message says why."""


class FailedError(Exception):
    """The trial failed; the message says why, for people."""


class Adapter(Protocol):
    """Made without arguments. An error that passes from any of the first three fails the trial."""

    remote: bool  # whether its queries run elsewhere, so that they can outlive their process

    def setup(self, trial: Trial) -> None:
        """Make ready: connections, statements."""

    def execute(self) -> None:
        """Run it until the result is there."""

    def consume(self) -> Consumed:
        """Fetch the result."""

    def cancel(self, queries: Sequence[str]) -> None:
        """Stop queries whose process is gone. Called outside trial processes, like all that follow."""

    def quiesce(self, prefixes: Sequence[str], since: datetime) -> Sequence[Query]:
        """Look once: every query writing below these that ran at any time since then. Those that run are stopped."""

    def demand(self, parameters: Mapping[str, Any]) -> int:
        """API slots that a trial needs. A `FailedError` says that it would fail: then no queue is made of it."""


def target(name: str) -> str:
    """Where an adapter is: `module:attribute`; a `LookupError` names those that there are."""
    if name in SHIPPED:
        return SHIPPED[name]
    from importlib.metadata import entry_points  # slow, and trial processes are told the target

    found = {point.name: point.value for point in entry_points(group=GROUP)}
    if name not in found:
        raise LookupError(f"there is no adapter {name!r}; there are {', '.join(sorted({*SHIPPED, *found}))}")
    return found[name]


def load(where: str) -> Adapter:
    """Import and make the adapter at `module:attribute`."""
    from importlib import import_module

    module, _, attribute = where.partition(":")
    adapter: Adapter = getattr(import_module(module), attribute)()
    return adapter
