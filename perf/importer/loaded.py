"""An import timed inside its process, its libraries loaded: `python -m perf.importer.loaded NAME LOG URL [messages]`.

NAME is longhaul or peer. Half of what a short import of ours takes is Python loading libraries; of the peer's, little.
Prints wall and CPU seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path


def longhaul(path: str, url: str, *, with_messages: bool) -> None:
    """Longhaul's import from the first connection to the commit."""
    import longhaul.importer.rows
    import longhaul.importer.warm  # noqa: F401
    from longhaul.importer.job import Job, run

    job = Job(conninfo=url, file=Path(path), force=True, with_messages=with_messages)
    _timed(lambda: run(job).samples)


def peer(path: str, url: str, *, with_messages: bool) -> None:
    """The peer's, likewise."""
    import inspect_ai.log  # noqa: F401
    import psycopg  # noqa: F401
    import sqlalchemy.dialects.postgresql  # noqa: F401

    from perf.importer.peer import run

    _timed(lambda: run(path, url, with_messages=with_messages))


def _timed(work: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    if not work():
        raise SystemExit("nothing was imported")
    print(time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    {"longhaul": longhaul, "peer": peer}[sys.argv[1]](*sys.argv[2:4], with_messages="messages" in sys.argv[4:])
