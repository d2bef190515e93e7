"""Import damaged variants one after the other and look what each left behind.

Each variant comes under the key of an undamaged log that is in the warehouse already: a failure must leave that log's
rows and a success must leave the same rows or, if checksums fit a forged content, rows of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
import re
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from longhaul.evallog import large, log
from longhaul.importer.job import Job, run
from longhaul.importer.outcome import Outcome
from tests.damage.kinds import KINDS, PHYSICAL

MEMORY_BYTES = 256 << 20
EXPECTED = {Outcome.IMPORTED, Outcome.DAMAGED_LOG, Outcome.REFUSED, Outcome.LOG_CHANGED}
# What may differ between a log and an equal one with other bytes.
_DIGEST = """
SELECT md5(concat(
  (SELECT string_agg((to_jsonb(e) - ARRAY['etag', 'file_size_bytes', 'file_last_modified', 'first_imported_at',
     'last_imported_at'])::text, '' ORDER BY id) FROM eval e),
  (SELECT string_agg(s::text, '' ORDER BY uuid) FROM sample s),
  (SELECT string_agg(s::text, '' ORDER BY sample_uuid, scorer, ordinal) FROM score s),
  (SELECT string_agg(m::text, '' ORDER BY sample_uuid, ordinal) FROM message m),
  (SELECT string_agg(m::text, '' ORDER BY sample_uuid, model) FROM sample_model m),
  (SELECT string_agg(r::text, '' ORDER BY eval_id, role, ordinal) FROM model_role r),
  (SELECT string_agg(c::text, '' ORDER BY location, sample_uuid) FROM log_sample c)))
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of one variant; `faults` is empty if all is as it should be."""

    index: int
    log: str
    kind: str
    outcome: Outcome
    reason: str | None
    seconds: float
    peak_bytes: int
    faults: tuple[str, ...]


def variants(
    url: str, base: Path, folder: Path, *, seed: int, indices: Sequence[int], kinds: Sequence[str] = ()
) -> Iterator[Finding]:
    """Import one variant of the log `base` for each index; `url` is an empty warehouse of its own."""
    intact, path = base.read_bytes(), folder / base.name
    path.write_bytes(intact)
    job = Job(conninfo=url, file=path, force=True)
    with psycopg.connect(url, autocommit=True) as connection:

        def digest() -> str:
            row = connection.execute(_DIGEST).fetchone()
            assert row is not None
            return str(row[0])

        assert run(job).outcome is Outcome.IMPORTED
        whole = digest()
        for index in indices:
            draw = random.Random(f"{seed}/{index}")
            kind = draw.choice(sorted(kinds or (KINDS if intact[:2] == b"PK" else _DOCUMENT_KINDS)))
            with _reading_in_pieces(draw.random() < 0.5):
                path.write_bytes(KINDS[kind](intact, draw))
                _forget_peak()
                began = time.monotonic()
                result = run(job)
                seconds, peak = time.monotonic() - began, _peak_bytes()
            faults = []
            if result.outcome not in EXPECTED:
                faults.append(f"{result.outcome.label} is no outcome of a damaged log")
            if result.outcome is not Outcome.IMPORTED and not _one_line(result.reason):
                faults.append("the reason is not one line")
            if peak > MEMORY_BYTES:
                faults.append(f"{peak >> 20} MiB of memory")
            now = digest()
            if now != whole:
                if result.outcome is not Outcome.IMPORTED:
                    faults.append("rows changed although the import failed")
                elif kind in PHYSICAL and intact[:2] == b"PK":
                    faults.append("other rows than the log's were imported")
                path.write_bytes(intact)
                assert run(job).outcome is Outcome.IMPORTED
                if digest() != whole:
                    faults.append("the intact log does not restore its rows")
            yield Finding(
                index=index,
                log=base.name,
                kind=kind,
                outcome=result.outcome,
                reason=result.reason,
                seconds=seconds,
                peak_bytes=peak,
                faults=tuple(faults),
            )


def batch(url: str, base: Path, folder: Path, seed: int, indices: list[int]) -> list[Finding]:
    """The findings of `variants`, in a process that has nothing else to do."""
    logging.getLogger("longhaul").setLevel(logging.CRITICAL)
    return list(variants(url, base, folder, seed=seed, indices=indices))


_DOCUMENT_KINDS = {"bit flips", "truncation", "overwritten bytes", "lost or doubled bytes", "exchanged blocks"}


def _one_line(reason: str | None) -> bool:
    return bool(reason) and re.fullmatch(r"[^\n\r\0]{1,1000}", str(reason)) is not None


@contextlib.contextmanager
def _reading_in_pieces(wanted: bool) -> Iterator[None]:
    """Small samples and events take the way of large ones."""
    before = log.MAX_WHOLE_SAMPLE_BYTES, large.MAX_EVENT_BYTES
    if wanted:
        log.MAX_WHOLE_SAMPLE_BYTES, large.MAX_EVENT_BYTES = 0, 100
    try:
        yield
    finally:
        log.MAX_WHOLE_SAMPLE_BYTES, large.MAX_EVENT_BYTES = before


def _forget_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak_bytes() -> int:
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
