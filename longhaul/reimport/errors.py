"""What can go wrong with a re-import, as types; the CLI gives each type its exit code."""

from __future__ import annotations


class ReimportError(Exception):
    """The re-import could not go on."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class InvalidArgumentError(ReimportError):
    """An argument, a keys file or a selector is wrong; nothing was done."""


class NameTakenError(ReimportError):
    """A list or an execution of that name exists already; it is never overwritten (R20)."""


class RunNotFoundError(ReimportError):
    """No execution has that name, ARN or prefix, or several do (R22)."""


class RefusedError(ReimportError):
    """The run is in a state in which this cannot be done; the message says what to do instead."""


class SizeUnreadableError(ReimportError):
    """The size of a log could not be read for another reason than that the log is missing (R19)."""
