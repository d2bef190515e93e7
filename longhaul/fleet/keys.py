"""Names of the fleet's objects, below the location of its stack."""

from __future__ import annotations

import re
from dataclasses import dataclass

from longhaul.fleet.errors import FleetError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ATTEMPT = re.compile(r"g(\d+)/attempt-(\d+)/")


class IllegalNameError(FleetError):
    """A queue or job has a name that could not stand in a key: letters, digits and ._- only (I9)."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of a job, in one generation."""

    generation: int
    number: int


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one attempt of a job leaves what it measures: below a prefix in S3, and in a folder of the host."""

    job: str
    attempt: Attempt


@dataclass(frozen=True)
class QueueKeys:
    """Keys of one queue."""

    queue: str

    def __post_init__(self) -> None:
        """Refuse a name that would leave the queue's prefix."""
        _checked(self.queue)

    @property
    def claims(self) -> str:
        """Prefix of all claims."""
        return f"fleet/{self.queue}/claims/"

    @property
    def done(self) -> str:
        """Prefix of the index of finished jobs."""
        return f"fleet/{self.queue}/done/"

    @property
    def hosts(self) -> str:
        """Prefix of the records of hosts."""
        return f"fleet/{self.queue}/hosts/"

    def document(self, name: str) -> str:
        """A document of the queue itself, such as `queue.json`."""
        return f"fleet/{self.queue}/{_checked(name)}"

    def host(self, instance: str) -> str:
        """The record of a host, by the id of its instance."""
        return f"{self.hosts}{_checked(instance)}.json"

    def claim(self, job: str) -> str:
        """The lease of a job, and its completion."""
        return self.claims + _checked(job)

    def index(self, job: str) -> str:
        """What is shown of a finished job; it decides nothing (F7)."""
        return self.done + _checked(job)

    def results(self, job: str) -> str:
        """Prefix of all that a job left."""
        return f"fleet/{self.queue}/results/{_checked(job)}/"

    def attempt(self, job: str, attempt: Attempt) -> str:
        """Prefix of what one attempt left."""
        return f"{self.results(job)}g{attempt.generation}/attempt-{attempt.number}/"

    def attempt_of(self, job: str, key: str) -> Attempt | None:
        """Which attempt of the job left an object."""
        prefix = self.results(job)
        found = _ATTEMPT.match(key[len(prefix) :]) if key.startswith(prefix) else None
        return Attempt(generation=int(found[1]), number=int(found[2])) if found else None


SLOTS = "fleet/slots/"


def slot(number: int) -> str:
    """The lease of one API slot, shared by all queues of the stack."""
    return f"{SLOTS}{number}"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise IllegalNameError(
            f"{name!r} cannot be part of a key: 1 to 128 letters, digits and ._- only, no . or _ or - first"
        )
    return name
