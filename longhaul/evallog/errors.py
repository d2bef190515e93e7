"""Why a log cannot be read."""

from __future__ import annotations


class LogError(Exception):
    """The log cannot be imported; the message is one line for an operator."""


class DamagedLogError(LogError):
    """The bytes are not a whole, valid log: cut off, altered, or not a log at all."""


class UnsupportedLogError(LogError):
    """A valid layout that would be imported by half if it were read like any other."""


class UnfinishedLogError(LogError):
    """The log is still being written: it has no final header yet."""


class OversizedValueError(LogError):
    """One value is longer than a column of the warehouse takes."""
