"""What can go wrong in the fleet, as types."""

from __future__ import annotations


class FleetError(Exception):
    """The fleet could not go on."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class UnansweredError(FleetError):
    """Nobody knows whether a request was carried out: no answer, a server's error, refused credentials (F3)."""
