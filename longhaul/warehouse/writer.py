"""Make the warehouse say what one log says: stage the rows, then one short transaction (W1–W5).

Rows are copied, 8 MB at a time, into temporary tables of the session while the log is being read; nobody else sees
them. When all is parsed, one transaction moves them: ordered upserts that touch only rows that differ, and deletion of
what is gone. A process killed before its commit has changed nothing (W2).

Locks: one advisory lock per log and per eval concerned, taken in sorted order at the start of the transaction (W4). A
log that shares samples with other logs needs the locks of their evals too; which ones shows only under lock, so the
transaction starts over with the greater set when it finds more. Two new logs that share samples meet in the unique key
of `sample`: the later one waits there, finds the other's claims before it commits, and starts over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from longhaul.warehouse import copy, ownership, statements
from longhaul.warehouse.errors import OvertakenError, WarehouseUnavailableError
from longhaul.warehouse.ownership import Claim
from longhaul.warehouse.tables import PARTS, SAMPLE, Table

FLUSH_BYTES = 8 << 20
LOCK_TIMEOUT_MS = 60_000
# A job that froze, or whose network is gone, must not hold its locks until the server's own keepalives notice.
IDLE_TIMEOUT_MS = 60_000
MAX_ROUNDS = 50  # each needs another log to have appeared meanwhile


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogFacts:
    """The log whose rows are written."""

    location: str
    eval_id: str
    etag: str
    file_size_bytes: int
    created_at: datetime | None
    updated_at: datetime | None
    with_messages: bool
    etag_before: str | None  # of the version that the warehouse had when this one was asked for

    @property
    def rank(self) -> ownership.Rank:
        """Orders the logs of one eval."""
        return ownership.rank(None, self.updated_at, self.created_at, self.location)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Applied:
    """What the transaction did."""

    rows_changed: int
    stale_logs: tuple[str, ...]  # logs that hold what the warehouse lacks now: import them again


class _MoreLocksError(Exception):
    def __init__(self, evals: set[str]) -> None:
        super().__init__()
        self.evals = evals


class Writer:
    """Stages and applies one log over a connection in autocommit mode, which nobody else uses meanwhile."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._encode = {table.name: copy.encoder(table) for table in (SAMPLE, *PARTS)}
        self._pending: dict[str, list[bytes]] = {table.name: [] for table in (SAMPLE, *PARTS)}
        self._pending_bytes = 0
        self._count = 0
        self._by_uuid: dict[str, int] = {}
        self._by_place: dict[tuple[str, int], int] = {}
        self._superseded: set[int] = set()
        connection.execute(statements.make_incoming())

    def begin_sample(self, uuid: str, id: str, epoch: int) -> int:  # noqa: A002 - the column's name
        """A number for the next sample. Of two samples with one uuid, or one id and epoch, the last counts."""
        number = self._count
        self._count += 1
        for found in (self._by_uuid.get(uuid), self._by_place.get((id, epoch))):
            if found is not None:
                self._superseded.add(found)
        self._by_uuid[uuid] = self._by_place[id, epoch] = number
        return number

    @property
    def superseded(self) -> frozenset[int]:
        """Numbers of the samples that a later one of the same log replaced."""
        return frozenset(self._superseded)

    def add(self, table: Table, number: int, values: Sequence[object]) -> None:
        """Stage one row of the sample with that number."""
        row = self._encode[table.name](number, values)
        self._pending[table.name].append(row)
        self._pending_bytes += len(row)
        if self._pending_bytes >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Copy what is staged into the temporary tables."""
        for table in (SAMPLE, *PARTS):
            rows = self._pending[table.name]
            if rows:
                with self._connection.cursor().copy(statements.copy_incoming(table)) as copying:
                    copying.write(copy.HEADER)
                    copying.write(b"".join(rows))
                    copying.write(copy.TRAILER)
                rows.clear()
        self._pending_bytes = 0

    def apply(
        self,
        log: LogFacts,
        eval_row: Mapping[str, object],
        roles: Sequence[Mapping[str, object]],
        record: Callable[[psycopg.Connection[Any], Applied], None],
    ) -> Applied:
        """Move the staged rows in one transaction; `record` runs in it, last."""
        self.flush()
        if self._superseded:
            for statement in statements.forget_superseded():
                self._connection.execute(statement, [sorted(self._superseded)])
        self._connection.execute(statements.PREPARE_INCOMING)
        evals = {log.eval_id}
        for _ in range(MAX_ROUNDS):
            try:
                with self._connection.transaction():
                    return _Transaction(self._connection, log, evals).run(eval_row, roles, record)
            except _MoreLocksError as more:
                evals |= more.evals
        raise WarehouseUnavailableError("other imports of the same samples do not come to an end")


class _Transaction:
    def __init__(self, connection: psycopg.Connection[Any], log: LogFacts, evals: set[str]) -> None:
        self._connection, self._log, self._evals = connection, log, evals
        self._names: dict[str, object] = {"location": log.location, "eval_id": log.eval_id}
        self._changed = 0

    def run(
        self,
        eval_row: Mapping[str, object],
        roles: Sequence[Mapping[str, object]],
        record: Callable[[psycopg.Connection[Any], Applied], None],
    ) -> Applied:
        execute = self._connection.execute
        execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
        execute(f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}")
        execute(statements.LOCK, [[f"log:{self._log.location}", *(f"eval:{name}" for name in self._evals)]])
        before = self._before()
        self._need({before} if before else set())
        related = self._related()
        self._need({eval_id for _, eval_id in related})
        decision = self._decide(related)
        execute(statements.MARK_WON, {"lost": sorted(decision.lost)})
        if self._owns_eval():
            self._change(statements.upsert_eval(), eval_row)
            kept = [f"{role['role']}/{role['ordinal']}" for role in roles]
            self._change(
                "DELETE FROM model_role WHERE eval_id = %(eval_id)s AND role || '/' || ordinal <> ALL(%(kept)s)",
                {**self._names, "kept": kept},
            )
            for role in roles:
                self._change(statements.upsert_role(), {**role, "eval_id": self._log.eval_id})
        self._change(statements.upsert_log(), dataclasses.asdict(self._log))
        self._change(statements.DELETE_GONE_CLAIMS, self._names)
        self._change(statements.upsert_claims(), self._names)
        self._change(statements.DELETE_GONE_SAMPLES, self._names)
        if decision.displaced:
            self._change(
                "DELETE FROM sample s WHERE s.uuid = ANY(%(uuids)s)"
                " AND NOT EXISTS (SELECT FROM incoming_sample i WHERE i.uuid = s.uuid AND i.won)",
                {"uuids": sorted(decision.displaced)},
            )
        self._change(statements.upsert_samples(), self._names)
        for table in PARTS:
            self._change(statements.delete_gone_parts(table), None)
            self._change(statements.upsert_parts(table), None)
        if before and before != self._log.eval_id:
            self._change(
                "DELETE FROM eval WHERE id = %(before)s AND NOT EXISTS (SELECT FROM log WHERE eval_id = %(before)s)",
                {"before": before},
            )
        self._need({eval_id for _, eval_id in self._related() - related})
        applied = Applied(rows_changed=self._changed, stale_logs=self._stale(related, before))
        record(self._connection, applied)
        return applied

    def _before(self) -> str | None:
        """The eval that the log held so far. Raises OvertakenError: else an old version could replace a newer one."""
        row = self._connection.execute(
            "SELECT eval_id, etag FROM log WHERE location = %(location)s", self._names
        ).fetchone()
        eval_id, etag = row or (None, None)
        if etag not in (None, self._log.etag, self._log.etag_before):
            raise OvertakenError("another version of the log was imported meanwhile")
        return eval_id

    def _need(self, evals: set[str]) -> None:
        if evals - self._evals:
            raise _MoreLocksError(evals)

    def _change(self, statement: str, parameters: Mapping[str, object] | None) -> None:
        self._changed += max(self._connection.execute(statement, parameters).rowcount, 0)

    def _related(self) -> set[tuple[str, str]]:
        return set(self._connection.execute(statements.RELATED, self._names).fetchall())

    def _decide(self, related: set[tuple[str, str]]) -> ownership.Decision:
        if not related:
            return ownership.Decision(lost=frozenset(), displaced=frozenset())
        rows = self._connection.execute("SELECT uuid, id, epoch, ordered_at FROM incoming_sample").fetchall()
        log = self._log
        mine = [
            Claim(
                location=log.location,
                uuid=uuid,
                eval_id=log.eval_id,
                id=sample_id,
                epoch=epoch,
                rank=ownership.rank(ordered_at, log.updated_at, log.created_at, log.location),
            )
            for uuid, sample_id, epoch, ordered_at in rows
        ]
        rivals = self._rivals(mine)
        self._need({claim.eval_id for claim, _ in rivals})
        return ownership.decide(mine, [claim for claim, held in rivals if held])

    def _rivals(self, mine: Sequence[Claim]) -> list[tuple[Claim, bool]]:
        """Claims of other logs that rival with ours."""
        rows = self._connection.execute(
            statements.RIVALS,
            {
                "location": self._log.location,
                "uuids": [claim.uuid for claim in mine],
                "evals": [claim.eval_id for claim in mine],
                "ids": [claim.id for claim in mine],
                "epochs": [claim.epoch for claim in mine],
            },
        ).fetchall()
        return [
            (
                Claim(
                    location=location,
                    uuid=uuid,
                    eval_id=eval_id,
                    id=sample_id,
                    epoch=epoch,
                    rank=ownership.rank(completed_at, updated_at, created_at, location),
                ),
                held,
            )
            for location, uuid, eval_id, sample_id, epoch, completed_at, updated_at, created_at, held in rows
        ]

    def _owns_eval(self) -> bool:
        """Whether the eval's row is this log's to write: nobody's, its own, or an older log's."""
        row = self._connection.execute(
            "SELECT e.location, l.location, l.updated_at, l.created_at FROM eval e"
            " LEFT JOIN log l ON l.location = e.location AND l.eval_id = e.id WHERE e.id = %(eval_id)s",
            self._names,
        ).fetchone()
        if row is None or row[0] == self._log.location or row[1] is None:
            return True
        return self._log.rank > ownership.rank(None, row[2], row[3], row[1])

    def _stale(self, related: set[tuple[str, str]], before: str | None) -> tuple[str, ...]:
        """Other logs concerned that hold what the warehouse shows otherwise now (W1)."""
        evals = [self._log.eval_id, *([before] if before else [])]
        others = self._connection.execute(
            "SELECT location FROM log WHERE eval_id = ANY(%s) AND location <> %s", [evals, self._log.location]
        ).fetchall()
        concerned = sorted({location for location, _ in related} | {location for (location,) in others})
        if not concerned:
            return ()
        rows = self._connection.execute(
            "SELECT DISTINCT location FROM stale_log WHERE location = ANY(%s) ORDER BY location", [concerned]
        ).fetchall()
        return tuple(location for (location,) in rows)
