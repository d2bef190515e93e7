"""Whole attempts to and from S3, with a client of their own: transfers must not starve leases of connections (F8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from longhaul.fleet.errors import FleetError
from longhaul.fleet.keys import Place
from longhaul.fleet.lease import Record


class TransferError(FleetError):
    """Something could not be transferred."""


class AlienAttemptError(FleetError):
    """An attempt was made by another version of the worker, or for another manifest: it cannot be resumed (F10)."""


class Results(Protocol):
    """The results of a queue. Every method may take long, and raises `TransferError`."""

    def attempts(self, job: str, generations: range) -> Sequence[Place]:
        """Every attempt that left something, in order."""

    def download(self, place: Place) -> None:
        """Into the folder of the attempt. Names that would leave it are refused (S47), aliens too (F10)."""

    def upload(self, place: Place, names: Sequence[str] | None = None) -> Sequence[Record]:
        """What stands in the attempt's folder, or just these names; what S3 is known to have is not sent (S18)."""

    def measured(self, place: Place) -> bool:
        """Whether the attempt recorded a repetition that no earlier one of its generation had recorded (F17).

        Each attempt records its own warm-ups, and what failed before: were they progress, a job that kills its hosts
        after them would never end (S68).
        """
