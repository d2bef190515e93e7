"""What goes wrong: inside an execution, and between the API and its caller.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html and the errors of each API
action.
Gap of moto 5.2.5: errors that its interpreter raises reach the client without a code, or as a 500.
"""

from __future__ import annotations

from moto.core.exceptions import AWSError

LONGEST_CAUSE = 32_768
"""Characters of a Cause; Step Functions cuts what is longer (R17)."""


class StateFailed(Exception):  # noqa: N818
    """A state ended with an error name and, perhaps, a cause. Retriers and catchers see it."""

    def __init__(self, error: str | None, cause: str | None = None) -> None:
        super().__init__(error, cause)
        self.error = error
        self.cause = cause if cause is None else cause[:LONGEST_CAUSE]


class Halted(Exception):  # noqa: N818
    """The attempt was stopped, or timed out; whoever works for it lets go."""


class InvalidDefinition(AWSError):  # noqa: N818
    TYPE = "InvalidDefinition"


class ExecutionNotRedrivable(AWSError):  # noqa: N818
    TYPE = "ExecutionNotRedrivable"


class ResourceNotFound(AWSError):  # noqa: N818
    TYPE = "ResourceNotFound"


def matches(names: list[str], error: str | None) -> bool:
    """Whether a retrier's or catcher's `ErrorEquals` covers an error name.

    `States.ALL` covers neither `States.DataLimitExceeded` nor `States.Runtime`; `States.TaskFailed` covers every
    error of a task but `States.Timeout`.
    """
    if error in names:
        return True
    if error in ("States.DataLimitExceeded", "States.Runtime"):
        return False
    if (
        "States.TaskFailed" in names
        and error is not None
        and error not in ("States.Timeout", "States.HeartbeatTimeout")
    ):
        return True
    return "States.ALL" in names
