"""The host that a worker runs on, and its group, as the worker knows them (F9, F12, F16)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from longhaul.fleet.errors import FleetError


class MachineError(FleetError):
    """EC2 or the Auto Scaling group did not do what was asked, or did not answer."""


class Lifecycle(StrEnum):
    """How an instance is paid for."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    NONE = "none"  # no EC2 instance


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a host is; it never changes."""

    instance: str  # its id; a name for what is no instance
    lifecycle: Lifecycle = Lifecycle.NONE
    instance_type: str = ""
    zone: str = ""


class NoticeKind(StrEnum):
    """What is about to happen to a host."""

    TERMINATE = "terminate"
    STOP = "stop"
    HIBERNATE = "hibernate"
    SCALE_IN = "scale-in"  # the group terminates it, and its hook waits for us
    REHEARSAL = "rehearsal"
    SIGTERM = "sigterm"


@dataclass(frozen=True, kw_only=True)
class Notice:
    """The host is about to go."""

    kind: NoticeKind
    text: str = ""  # as it was given, for the log


class Notices(Protocol):
    """Where notices come from."""

    def check(self) -> Notice | None:
        """Look once, within 5 s. Any error may pass: whoever asks survives it (S14)."""


class Machine(Protocol):
    """A host of a group, or a process on its own. Every method may take seconds and raises `MachineError`."""

    @property
    def identity(self) -> Identity:
        """Known since the start."""

    def keep(self) -> bool:
        """Whether the instance is tagged `KeepHost=true`, now."""

    def suspend_rebalancing(self) -> None:
        """Suspend the group's `AZRebalance` (S4)."""

    def protect(self, busy: bool) -> None:
        """Set or clear protection from scale-in."""

    def retire(self) -> bool:
        """Terminate this instance with decrement. False: refused, the group is as small as it may be (F16)."""

    def release_hook(self) -> None:
        """Complete the terminating lifecycle action, if one waits (F12)."""
