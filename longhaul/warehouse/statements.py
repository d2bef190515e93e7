"""The SQL of an import: temporary tables, and one ordered upsert per table that touches only rows that differ (W2, W3).

Names come from the tables' descriptions, never from a log; what a log says travels as parameters or by COPY.
"""
# ruff: noqa: S608 - see above

from __future__ import annotations

from collections.abc import Iterable

from longhaul.warehouse.tables import EVAL, MODEL_ROLE, ORDERED_AT, PARTS, SAMPLE, Kind, Table

OWNED = ("eval_id", "location")


def incoming(table: Table) -> str:
    """Name of the temporary table with the log's rows."""
    return f"incoming_{table.name}"


def make_incoming() -> str:
    """Make the temporary tables, in one round trip; `seq` is the sample's number in the log."""
    return ";".join(
        f"DROP TABLE IF EXISTS pg_temp.{incoming(table)}; {_create_incoming(table)}" for table in (SAMPLE, *PARTS)
    )


def _create_incoming(table: Table) -> str:
    columns = ", ".join(f"{name} {kind.value}" for name, kind in table.columns)
    more = ", won boolean NOT NULL DEFAULT true" if table is SAMPLE else ""
    return f"CREATE TEMP TABLE {incoming(table)} (seq integer NOT NULL, {columns}{more})"


# The planner needs the tables' sizes; looking at 30,000 rows of each costs as much as a COPY.
PREPARE_INCOMING = f"""
CREATE INDEX ON incoming_sample (uuid);
SET default_statistics_target = 10;
ANALYZE {", ".join(f"{incoming(table)} (seq)" for table in (SAMPLE, *PARTS))}
"""


def copy_incoming(table: Table) -> str:
    """Fill the temporary table."""
    return f"COPY {incoming(table)} (seq, {', '.join(table.names)}) FROM STDIN (FORMAT BINARY)"


def forget_superseded() -> list[str]:
    """Drop samples that a later one of the same log replaces; parameter: their numbers."""
    return [f"DELETE FROM {incoming(table)} WHERE seq = ANY(%s)" for table in (SAMPLE, *PARTS)]


def upsert_eval() -> str:
    """Write the eval's row; named parameters are its columns."""
    values = ", ".join(
        f"%({name})s::text::jsonb" if kind is Kind.JSON else f"%({name})s" for name, kind in EVAL.columns
    )
    touched = [name for name in EVAL.names if name != "id"]
    return (
        f"INSERT INTO eval AS old ({', '.join(EVAL.names)}) VALUES ({values})"
        f" ON CONFLICT (id) DO UPDATE SET {_assign(touched)}, last_imported_at = now() WHERE {_differs(touched)}"
    )


def upsert_role() -> str:
    """Write one model role; named parameters are its columns and eval_id."""
    values = ", ".join(
        f"%({name})s::text::jsonb" if kind is Kind.JSON else f"%({name})s" for name, kind in MODEL_ROLE.columns
    )
    touched = [name for name in MODEL_ROLE.names if name not in MODEL_ROLE.key]
    return (
        f"INSERT INTO model_role AS old ({', '.join(MODEL_ROLE.names)}, eval_id) VALUES ({values}, %(eval_id)s)"
        f" ON CONFLICT ({', '.join(MODEL_ROLE.key)}) DO UPDATE SET {_assign(touched)} WHERE {_differs(touched)}"
    )


UPSERT_LOG = """
INSERT INTO log AS old (location, eval_id, etag, file_size_bytes, created_at, updated_at, with_messages)
VALUES (%(location)s, %(eval_id)s, %(etag)s, %(file_size_bytes)s, %(created_at)s, %(updated_at)s, %(with_messages)s)
ON CONFLICT (location) DO UPDATE
SET {assign}
WHERE {differs}
"""

DELETE_GONE_CLAIMS = """
DELETE FROM log_sample c WHERE c.location = %(location)s
  AND NOT EXISTS (SELECT FROM incoming_sample i WHERE i.uuid = c.sample_uuid)
"""

DELETE_GONE_SAMPLES = """
DELETE FROM sample s WHERE s.location = %(location)s
  AND NOT EXISTS (SELECT FROM incoming_sample i WHERE i.uuid = s.uuid AND i.won)
"""


def upsert_log() -> str:
    """Write the log's row."""
    touched = ["eval_id", "etag", "file_size_bytes", "created_at", "updated_at", "with_messages"]
    return UPSERT_LOG.format(assign=_assign(touched), differs=_differs(touched))


def upsert_claims() -> str:
    """Write which samples the log holds."""
    touched = ["eval_id", "id", "epoch", "completed_at"]
    return (
        f"INSERT INTO log_sample AS old (location, sample_uuid, {', '.join(touched)})"
        f" SELECT %(location)s, uuid, %(eval_id)s, id, epoch, {ORDERED_AT} FROM incoming_sample ORDER BY uuid"
        f" ON CONFLICT (location, sample_uuid) DO UPDATE SET {_assign(touched)} WHERE {_differs(touched)}"
    )


def upsert_samples() -> str:
    """Write the samples that the log owns."""
    read = [name for name in SAMPLE.names if name != ORDERED_AT]
    touched = [*(name for name in read if name != "uuid"), *OWNED]
    return (
        f"INSERT INTO sample AS old ({', '.join([*read, *OWNED])})"
        f" SELECT {', '.join(read)}, %(eval_id)s, %(location)s FROM incoming_sample WHERE won ORDER BY uuid"
        f" ON CONFLICT (uuid) DO UPDATE SET {_assign(touched)} WHERE {_differs(touched)}"
    )


def delete_gone_parts(table: Table) -> str:
    """Delete the parts that owned samples no longer have."""
    same = " AND ".join(f"n.{name} = old.{name}" for name in table.key if name != "sample_uuid")
    return (
        f"DELETE FROM {table.name} old USING incoming_sample i WHERE i.won AND old.sample_uuid = i.uuid"
        f" AND NOT EXISTS (SELECT FROM {incoming(table)} n WHERE n.seq = i.seq AND {same})"
    )


def upsert_parts(table: Table) -> str:
    """Write the parts of owned samples, in the log's order.

    Sorting them, several times as wide as the samples, would not fit `work_mem`, and is not needed against deadlocks:
    whoever writes parts holds the locks of their samples' rows, which `upsert_samples` takes in order, rows that it
    leaves alone included (W4).
    """
    touched = [name for name in table.names if name not in table.key]
    return (
        f"INSERT INTO {table.name} AS old (sample_uuid, {', '.join(table.names)})"
        f" SELECT i.uuid, {', '.join(f'n.{name}' for name in table.names)}"
        f" FROM {incoming(table)} n JOIN incoming_sample i USING (seq) WHERE i.won"
        f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {_assign(touched)} WHERE {_differs(touched)}"
    )


# Claims of other logs that rival with what this log holds now or held before. Those that rival for a place that it held
# are of the eval that it was of, whose lock is taken and whose logs are looked at in any case.
RELATED = """
SELECT o.location, o.eval_id FROM log_sample o JOIN incoming_sample i ON o.sample_uuid = i.uuid
 WHERE o.location <> %(location)s
UNION
SELECT o.location, o.eval_id FROM log_sample o JOIN incoming_sample i ON o.id = i.id AND o.epoch = i.epoch
 WHERE o.eval_id = %(eval_id)s AND o.location <> %(location)s
UNION
SELECT o.location, o.eval_id FROM log_sample m JOIN log_sample o ON o.sample_uuid = m.sample_uuid
 WHERE m.location = %(location)s AND o.location <> %(location)s
"""

RIVALS = """
SELECT c.location, c.sample_uuid, c.eval_id, c.id, c.epoch, c.completed_at, l.updated_at, l.created_at,
       EXISTS (SELECT FROM sample s WHERE s.uuid = c.sample_uuid AND s.location = c.location) AS held
FROM (SELECT * FROM log_sample WHERE sample_uuid = ANY(%(uuids)s)
      UNION
      SELECT o.* FROM log_sample o
      JOIN unnest(%(evals)s::text[], %(ids)s::text[], %(epochs)s::int[]) AS place (eval_id, id, epoch)
        USING (eval_id, id, epoch)) c
JOIN log l USING (location)
WHERE c.location <> %(location)s
"""

MARK_WON = "UPDATE incoming_sample SET won = uuid <> ALL(%(lost)s) WHERE won <> (uuid <> ALL(%(lost)s))"

LOCK = """
SELECT pg_advisory_xact_lock(key)
FROM (SELECT DISTINCT hashtextextended(name, 0) AS key FROM unnest(%s::text[]) AS name ORDER BY 1) AS keys
"""


def _assign(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = excluded.{name}" for name in names)


def _differs(names: Iterable[str]) -> str:
    names = list(names)
    old, new = (", ".join(f"{prefix}.{name}" for name in names) for prefix in ("old", "excluded"))
    return f"ROW({old}) IS DISTINCT FROM ROW({new})"
