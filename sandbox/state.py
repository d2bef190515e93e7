"""The sandbox's folder: one place for all that it writes, a lock that says whether it runs, state.json for others."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sandbox import surroundings

MARKER = ".longhaul-sandbox"  # only folders that hold it are ever emptied
LOG = "server.log"


class SandboxError(Exception):
    """Something that the user can mend; the message is one line that says what, where and what to do next."""


@dataclass(kw_only=True)
class Folder:
    """A sandbox's folder, running or not."""

    path: Path
    _lock: IO[bytes] | None = field(default=None, repr=False)

    @classmethod
    def ours(cls) -> Folder:
        """$LONGHAUL_SANDBOX_DIR, else .sandbox in the clone."""
        return cls(path=Path(os.environ.get("LONGHAUL_SANDBOX_DIR") or surroundings.ROOT / ".sandbox").absolute())

    @property
    def log(self) -> Path:
        """What the server and its tools said."""
        return self.path / LOG

    def acquire(self, handed_over: int | None = None) -> int:
        """Become the one sandbox of this folder and empty it. Raises RunningError when there is one already.

        Returns the descriptor of the lock; a process that is started with it takes it over by `handed_over`.
        """
        if self.path.exists() and not (self.path / MARKER).exists() and any(self.path.iterdir()):
            raise SandboxError(
                f"{self.path} is not empty and no sandbox's folder; empty it or point LONGHAUL_SANDBOX_DIR elsewhere"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / MARKER).touch()
            # held as long as the sandbox runs
            lock = open(self.path / MARKER if handed_over is None else handed_over, "rb")  # noqa: SIM115
            os.set_inheritable(lock.fileno(), False)
        except OSError as error:
            raise SandboxError(f"{self.path} cannot be written: {error.strerror}; set LONGHAUL_SANDBOX_DIR") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise RunningError(self) from None
        self._lock = lock
        self.empty(but=(LOG,))
        return lock.fileno()

    def running(self) -> bool:
        """Whether a sandbox holds this folder; a killed one does not, whatever state.json says."""
        try:
            with open(self.path / MARKER, "rb") as lock:  # never made here: it is what allows to empty the folder
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def read(self) -> dict[str, Any]:
        """state.json, or nothing."""
        try:
            return dict(json.loads((self.path / "state.json").read_text()))
        except (OSError, ValueError):
            return {}

    def write(self, **values: Any) -> None:
        """Change state.json in one step, readable for this user only: it holds the warehouse's password."""
        merged = {**self.read(), **values}
        handle, name = tempfile.mkstemp(dir=self.path, prefix=".state-")
        with os.fdopen(handle, "w") as file:
            json.dump(merged, file, indent=2)
        os.replace(name, self.path / "state.json")

    def empty(self, but: tuple[str, ...] = ()) -> bool:
        """Remove what a sandbox left, but for its marker and the names given; False for a folder that is not ours."""
        if not (self.path / MARKER).exists():
            return False
        for one in self.path.iterdir():
            if one.name not in (MARKER, *but):
                if one.is_dir() and not one.is_symlink():
                    shutil.rmtree(one, ignore_errors=True)
                else:
                    one.unlink(missing_ok=True)
        return True

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        if self.empty():
            (self.path / MARKER).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def release(self) -> None:
        """Stop being the sandbox of this folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class RunningError(SandboxError):
    """There is a sandbox already."""

    def __init__(self, folder: Folder) -> None:
        state = folder.read()
        where = state.get("env", {}).get("AWS_ENDPOINT_URL", "an endpoint not known yet")
        super().__init__(
            f"a sandbox runs already: process {state.get('pid', '?')}, {where}, {folder.path}; "
            "`longhaul sandbox reset` empties it, `longhaul sandbox down` stops it"
        )
