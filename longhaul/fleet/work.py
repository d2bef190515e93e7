"""The benchmark as the fleet knows it: three commands, each a process group of its own (F11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from longhaul.fleet.keys import Place
from longhaul.fleet.lease import Record


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What a report was made of, and what it says."""

    records: tuple[Record, ...]  # keys below the stack's location, and exactly those that the summary was merged from
    files: tuple[str, ...]  # names of the summary's files in the attempt's folder; the first is the summary proper
    failed: int  # repetitions without a success


@dataclass(frozen=True, kw_only=True)
class Unconfirmed:
    """Queries that may still run (F14)."""

    queries: tuple[str, ...]  # ids, as far as they are known
    prefixes: tuple[str, ...]  # of outputs that a query may write to


class Process(Protocol):
    """A command that runs, with everything that it started."""

    @property
    def exit_code(self) -> int | None:
        """None while the command runs; that of a command ended by a signal is negative."""

    def interrupt(self) -> None:
        """SIGINT to the command alone: it stops its trial, cancels its queries and ends."""

    def kill(self, until: float) -> bool:
        """SIGKILL to everything in the group, also after the command ended by itself (S12).

        Returned is whether nothing of it was alive any more at `until`, by the host's clock.
        """


class Work(Protocol):
    """The commands. `on_exit` is called once, from any thread, when it has ended; an OSError passes."""

    def run(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Process:
        """`longhaul benchmark run`: measure what no earlier attempt has (F18). Exit code 0: nothing failed."""

    def quiesce(self, places: Sequence[Place], *, on_exit: Callable[[], None]) -> Process:
        """`longhaul benchmark quiesce`: stop what attempts of one job left. Exit code 0: confirmed (F10, F14)."""

    def report(self, place: Place, earlier: Sequence[Place], *, on_exit: Callable[[], None]) -> Process:
        """`longhaul benchmark report`: merge the records in S3 into a summary in the folder of `place` (F20).

        Exit code 0: it is there, whatever it says. It reads S3, so what is to count was uploaded before.
        """

    def merged(self, place: Place) -> Merged:
        """What the report of an attempt said; an error passes (OSError, ValueError)."""

    def unconfirmed(self, places: Sequence[Place]) -> Unconfirmed:
        """What the last quiescing of these could not confirm; everything of theirs if it left no word."""

    def tell_deadline(self, deadline: float) -> None:
        """Let the running command know until when it may act, by this host's clock (F19). Cheap, and never fails."""
