"""Until when a running command may act, shared by a worker and its orchestrator without a request or a lock (F19)."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
from pathlib import Path

SIZE_BYTES = 8


class DeadlineFile:
    """One aligned double in a shared mapping: seconds of `runtime.CLOCK`, which all processes of a host agree on.

    Both sides map the file once; a write is one store, a read one load, so no reader sees half a number.
    """

    def __init__(self, path: Path) -> None:
        """Map a file that exists. An OSError says that it cannot be read, or is too small to be one of these."""
        self.path = path
        with path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size < SIZE_BYTES:
                raise OSError(f"{path} holds no deadline: it is shorter than {SIZE_BYTES} bytes")
            self._mapping = mmap.mmap(file.fileno(), SIZE_BYTES)
        self._seconds = ctypes.c_double.from_buffer(self._mapping)

    @classmethod
    def create(cls, path: Path) -> DeadlineFile:
        """Make a new file in which the deadline is over.

        A file that is there is ended, then replaced: a command left over from a worker that died keeps the old one,
        whose deadline is over and moved by nobody any more (I5).
        """
        with contextlib.suppress(OSError):
            old = cls(path)
            old.write(-math.inf)
            old.close()
        new = path.with_name(path.name + ".new")
        new.write_bytes(bytes(ctypes.c_double(-math.inf)))
        new.replace(path)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> DeadlineFile:
        """Map a file that a worker made."""
        return cls(path)

    def read(self) -> float:
        """Return the deadline; minus infinity if nothing may be done."""
        return self._seconds.value

    def write(self, seconds: float) -> None:
        """Move the deadline, for everybody who has mapped the file."""
        self._seconds.value = seconds

    def close(self) -> None:
        """Unmap the file; reading and writing end."""
        if hasattr(self, "_seconds"):
            del self._seconds
        self._mapping.close()
