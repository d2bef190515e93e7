"""The directory of a worker on its host: what lies where, and that only one worker uses it (I9)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from longhaul.fleet.errors import FleetError
from longhaul.fleet.keys import Place


class DirectoryInUseError(FleetError):
    """Another worker works in this directory, or on this instance."""


@dataclass(frozen=True)
class Directory:
    """Names below a worker's directory."""

    root: Path

    @property
    def queue(self) -> Path:
        """Folder of the queue's documents: config.toml, manifest.json, jobs.json."""
        return self.root / "queue"

    @property
    def deadline(self) -> Path:
        """Until when the running command may act."""
        return self.root / "deadline"

    @property
    def quarantine(self) -> Path:
        """Queries that may still run (F14)."""
        return self.root / "quarantine.json"

    @property
    def probe(self) -> Path:
        """Written and removed, to see that the disk takes it."""
        return self.root / "probe"

    @property
    def rehearsal(self) -> Path:
        """While this file is there, the host is as good as interrupted (F12)."""
        return self.root / "interruption-notice"

    @property
    def location(self) -> Path:
        """Where results go, if nobody said it (F9)."""
        return self.root / "results-location.txt"

    def attempt(self, place: Place) -> Path:
        """Folder of one attempt, named as in S3."""
        attempt = place.attempt
        return self.root / "results" / place.job / f"g{attempt.generation}" / f"attempt-{attempt.number}"

    def lock(self) -> int:
        """Make the directory this process's own until it ends, however it ends; a file descriptor to keep.

        `DirectoryInUseError` if a worker lives in it: the next one takes over claims of its host at once, because it
        knows that their worker is gone (F14).
        """
        self.root.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise DirectoryInUseError(
                f"another worker works in {self.root}; give this one its own --directory"
            ) from error
        return lock


def lock_instance(instance: str, told_by: str) -> socket.socket | None:
    """Be the only worker of an instance, in whatever directory, until this process ends; to be kept until then.

    `DirectoryInUseError` if there is another: of two, each would take the other's claims over at once, and release
    what it does not run itself (F14). An address is what no user and no private folder for temporary files can hide.
    `told_by` is who says which instance this is. None on systems that have no such addresses.
    """
    if sys.platform != "linux":
        return None
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(b"\0longhaul-fleet-" + hashlib.sha256(f"{told_by} {instance}".encode()).hexdigest().encode())
    except OSError as error:
        lock.close()
        raise DirectoryInUseError(f"another worker works on {instance}, in another directory; one is enough") from error
    return lock
