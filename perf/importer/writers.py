"""The rows of one log, held in memory, into an empty warehouse: `python -m perf.importer.writers NAME LOG URL`.

Prints the number of rows, and the seconds and CPU seconds (of this process and of Postgres) until they are committed;
reading the log is left out.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

CHUNK_ROWS = 300
Staged = list[tuple[Any, int, tuple[object, ...]]]


class Clock:
    """Time, and CPU seconds of this process and of the server's sessions, which count once they have ended."""

    def __init__(self, url: str) -> None:
        import psycopg

        with psycopg.connect(url) as connection:
            (folder,) = connection.execute("SHOW data_directory").fetchone() or ()
        self._server = int((Path(folder) / "postmaster.pid").read_text().split()[0])
        self.wall_seconds = self.cpu_seconds = 0.0

    def start(self) -> None:
        """Begin."""
        time.sleep(0.2)  # until earlier sessions have ended
        self.wall_seconds, self.cpu_seconds = time.perf_counter(), self._cpu_seconds()

    def stop(self) -> None:
        """End; every session is closed."""
        self.wall_seconds = time.perf_counter() - self.wall_seconds
        time.sleep(0.2)
        self.cpu_seconds = self._cpu_seconds() - self.cpu_seconds

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._server}/stat").read_text().rpartition(")")[2].split()
        return time.process_time() + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def longhaul(path: str, url: str, clock: Clock) -> int:
    """Longhaul's whole import but for the reading: connection, rows, COPY, the transaction with all its guards."""
    import longhaul.evallog.log as reading
    import longhaul.importer.warm  # noqa: F401 - loading libraries is measured elsewhere
    from longhaul.importer.job import Job, run

    opened = reading.open_log(Path(path), path)
    held = _Held(opened)
    reading.open_log = lambda *_, **__: held  # type: ignore[assignment]
    clock.start()
    result = run(Job(conninfo=url, file=Path(path), force=True))
    clock.stop()
    assert result.rows_changed, result
    assert result.samples == held.sample_count, result
    return result.rows_changed


class _Held:
    """A log whose samples have all been read, messages included."""

    def __init__(self, log: Any) -> None:
        from msgspec.structs import replace

        self.header, self.sample_count = log.header, log.sample_count
        self._samples = [replace(sample, messages=partial(iter, list(sample.messages()))) for sample in log.samples()]
        log.close()

    def samples(self) -> Iterator[Any]:
        return iter(self._samples)

    def close(self) -> None:
        pass


def sqlalchemy_bulk(path: str, url: str, clock: Clock) -> int:
    """SQLAlchemy: bulk inserts, the fastest of its ways."""
    return _sqlalchemy(path, url, clock, upsert=False)


def sqlalchemy_upsert(path: str, url: str, clock: Clock) -> int:
    """SQLAlchemy: `values().on_conflict_do_update()` with 300 rows a statement, as importers do it."""
    return _sqlalchemy(path, url, clock, upsert=True)


def _sqlalchemy(path: str, url: str, clock: Clock, *, upsert: bool) -> int:
    import json

    import sqlalchemy
    from sqlalchemy.dialects.postgresql import insert

    header, samples, staged = _read(path)
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    tables = sqlalchemy.MetaData()
    tables.reflect(engine, only=["eval", "sample", "score", "message", "sample_model"])
    found: dict[str, list[dict[str, object]]] = {"sample": [], "score": [], "message": [], "sample_model": []}
    for table, at, values in staged:
        row = {
            name: json.loads(value) if isinstance(value, bytes) else value
            for name, value in zip(table.names, values, strict=True)
        }
        if table.name == "sample":
            del row["ordered_at"]
            found["sample"].append({**row, "eval_id": header.eval_id, "location": path})
        else:
            found[table.name].append({**row, "sample_uuid": samples[at][0]})
    eval_row = {"id": header.eval_id, "location": path, "task_name": "-", "status": "-", "invalidated": False}
    eval_row |= {"model": "-", "sample_count": 0, "errored_sample_count": 0, "file_size_bytes": 0}
    with engine.begin() as connection:
        connection.execute(insert(tables.tables["eval"]).values(**eval_row, etag="", importer_version=""))
    engine.dispose()
    clock.start()
    with engine.begin() as connection:
        for name, rows in found.items():
            table = tables.tables[name]
            if not upsert:
                connection.execute(insert(table), rows)
                continue
            keys = [column.name for column in table.primary_key]
            for at in range(0, len(rows), CHUNK_ROWS):
                statement = insert(table).values(rows[at : at + CHUNK_ROWS])
                changed = {key: statement.excluded[key] for key in rows[at] if key not in keys}
                connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))
    engine.dispose()
    clock.stop()
    return len(staged)


def _read(path: str) -> tuple[Any, list[tuple[str, str, int]], Staged]:
    from longhaul.evallog.log import open_log
    from longhaul.importer import rows
    from longhaul.warehouse.tables import MESSAGE, SAMPLE, SAMPLE_MODEL, SCORE

    log = open_log(Path(path), path)
    samples, staged = [], []
    for at, sample in enumerate(log.samples()):
        samples.append((sample.uuid, sample.id, sample.epoch))
        staged.append((SAMPLE, at, rows.sample_row(sample)))
        staged.extend((SCORE, at, rows.score_row(score)) for score in sample.scores)
        staged.extend((SAMPLE_MODEL, at, rows.model_row(model, usage)) for model, usage in sample.models.items())
        staged.extend((MESSAGE, at, rows.message_row(message)) for message in sample.messages())
    return log.header, samples, staged


WRITERS = {writer.__name__: writer for writer in (longhaul, sqlalchemy_bulk, sqlalchemy_upsert)}

if __name__ == "__main__":
    timer = Clock(sys.argv[3])
    print(WRITERS[sys.argv[1]](sys.argv[2], sys.argv[3], timer), timer.wall_seconds, timer.cpu_seconds)
