"""What can go wrong with the warehouse, sorted by who can mend it: by SQLSTATE, and a refused log-in by its text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

# Connection lost or refused, no resources, operator intervention, lock timeout, deadlock, serialization, a server's own
# trouble; then: a standby, and sessions ended for being idle in a transaction or for a transaction too long.
_BUSY_CLASSES = ("08", "53", "57", "58", "40", "55", "XX")
_BUSY_STATES = ("25006", "25P03", "25P04")
NUMBER_OUT_OF_RANGE = "22003"
_UNDEFINED_TABLE = ("42P01", "42703")
_LOG_IN_REFUSED = "28P01"
# libpq hands over no SQLSTATE of a connection that did not come about. In another language: patience, as with the rest.
_LOG_IN_REFUSED_TEXT = re.compile(r'FATAL:\s+(password authentication failed for user "[^"\n]*")')


class WarehouseError(Exception):
    """The warehouse did not take the rows; the message is one line."""


class WarehouseUnavailableError(WarehouseError):
    """Busy or unreachable: the same import can succeed later."""


class WarehouseDeniedError(WarehouseUnavailableError):
    """The user or the password is wrong: this process has no other, one that is started later may."""


class OvertakenError(WarehouseError):
    """Another version of the log was imported since this one was asked for: ask again which is the current one."""


class WarehouseRefusedError(WarehouseError):
    """The rows themselves were refused, or the schema is not there: trying again cannot help."""

    def __init__(self, message: str, *, number_out_of_range: bool = False) -> None:
        super().__init__(message)
        self.number_out_of_range = number_out_of_range


def classified(error: psycopg.Error) -> WarehouseError:
    """The error to raise for `error`, with its first line as the reason."""
    import psycopg

    state = error.sqlstate or ""
    reason = (error.diag.message_primary or str(error)).strip().partition("\n")[0] or type(error).__name__
    denied = _LOG_IN_REFUSED_TEXT.search(str(error))
    if state == _LOG_IN_REFUSED or (not state and denied):
        return WarehouseDeniedError(f"the warehouse refuses the log-in: {denied[1] if denied else reason}")
    if state in _UNDEFINED_TABLE:
        return WarehouseRefusedError(f"{reason}: run `longhaul warehouse migrate`")
    if state.startswith(_BUSY_CLASSES) or state in _BUSY_STATES:
        return WarehouseUnavailableError(reason)
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return WarehouseUnavailableError(reason)
    return WarehouseRefusedError(reason, number_out_of_range=state == NUMBER_OUT_OF_RANGE)
