"""What can go wrong in a benchmark, as types."""

from __future__ import annotations


class BenchmarkError(Exception):
    """The benchmark could not go on."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class ConfigurationError(BenchmarkError):
    """A configuration, a job or an adapter is not what it has to be; nothing was measured."""


class StoreError(BenchmarkError):
    """An object could not be stored or read, and nobody knows whether it will be."""


class ReportError(BenchmarkError):
    """A summary cannot be made of these records."""
