"""Import one log: fetch, read, stage, apply; and leave a row that says how it went."""

from __future__ import annotations

import errno
import gc
import logging
import os
import resource
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhaul.evallog.errors import (
    DamagedLogError,
    OversizedValueError,
    UnfinishedLogError,
    UnsupportedLogError,
)
from longhaul.importer import source, termination
from longhaul.importer.outcome import Outcome, Result
from longhaul.importer.termination import REASON, TerminatedError
from longhaul.importer.warehouse_session import Patience, patience_seconds, require_configuration, session
from longhaul.warehouse.errors import (
    OvertakenError,
    WarehouseDeniedError,
    WarehouseError,
    WarehouseRefusedError,
    WarehouseUnavailableError,
)

if TYPE_CHECKING:
    import psycopg

    from longhaul.evallog.log import Log
    from longhaul.importer.source import Fetched
    from longhaul.warehouse.writer import Applied, Writer

# What the rows look like. Raise it with every change of what an import writes; operators then re-import (R20).
IMPORTER_VERSION = "1"

logger = logging.getLogger(__name__)

_OUTCOMES: list[tuple[type[BaseException], Outcome]] = [
    (DamagedLogError, Outcome.DAMAGED_LOG),
    (UnsupportedLogError, Outcome.DAMAGED_LOG),
    (source.LogNotFoundError, Outcome.LOG_NOT_FOUND),
    (source.LogTooLargeError, Outcome.REFUSED),
    (OversizedValueError, Outcome.REFUSED),
    (WarehouseRefusedError, Outcome.REFUSED),
    (WarehouseUnavailableError, Outcome.WAREHOUSE_UNAVAILABLE),
    (source.LogChangedError, Outcome.LOG_CHANGED),
    (source.LogUnreadableError, Outcome.LOG_CHANGED),
    (UnfinishedLogError, Outcome.LOG_CHANGED),
    (OvertakenError, Outcome.LOG_CHANGED),
    (TerminatedError, Outcome.TERMINATED),
]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to import, and how."""

    conninfo: str
    bucket: str | None = None
    key: str | None = None
    file: Path | None = None
    force: bool = False
    with_messages: bool = True
    allow_started: bool = False

    @property
    def location(self) -> str:
        """The log's name in the warehouse."""
        return self.file.absolute().as_uri() if self.file else f"s3://{self.bucket}/{self.key}"

    @property
    def name(self) -> str:
        """What may tell the eval set: the key, or the path."""
        return str(self.file.absolute()) if self.file else str(self.key)


@dataclass(kw_only=True)
class _Progress:
    """What is known of an attempt so far."""

    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.monotonic)
    eval_id: str | None = None
    etag: str | None = None
    etag_before: str | None = None
    file_size_bytes: int | None = None
    samples: int | None = None
    errored_samples: int = 0
    superseded: int | None = None
    scores: int | None = None
    messages: int | None = None
    rows_changed: int | None = None
    stale_logs: tuple[str, ...] = ()

    def result(self, job: Job, outcome: Outcome, reason: str | None = None) -> Result:
        return Result(
            outcome=outcome,
            location=job.location,
            reason=reason,
            eval_id=self.eval_id,
            etag=self.etag,
            file_size_bytes=self.file_size_bytes,
            samples=self.samples,
            superseded_samples=self.superseded or None,
            scores=self.scores,
            messages=self.messages,
            rows_changed=self.rows_changed,
            stale_logs=self.stale_logs,
            seconds=round(time.monotonic() - self.started, 3),
            peak_memory_bytes=_peak_memory_bytes(),
        )


def run(job: Job) -> Result:
    """Import the log of `job`; every failure becomes a result with its exit code, and a row if that can be written."""
    progress = _Progress()
    try:
        return _run(job, progress)
    except tuple(kind for kind, _ in _OUTCOMES) as error:
        outcome = next(outcome for kind, outcome in _OUTCOMES if isinstance(error, kind))
        reason = REASON if outcome is Outcome.TERMINATED else one_line(error)
        level = logging.WARNING if outcome.exit_code >= 20 else logging.ERROR
        logger.log(level, reason, extra={"outcome": outcome.label, "exit_code": outcome.exit_code})
    except Exception as error:  # the outermost edge: the row has to say how it ended
        outcome, reason = _unforeseen(error)
        logger.error(reason, exc_info=outcome is Outcome.UNKNOWN, extra={"outcome": outcome.label})
    progress.rows_changed, progress.stale_logs = None, ()  # of a transaction that was rolled back
    result = progress.result(job, outcome, reason)
    _record_failure(job, progress, result)
    return result


def _unforeseen(error: Exception) -> tuple[Outcome, str]:
    """What an error means that nothing on the way took for its own."""
    if termination.requested():
        return Outcome.TERMINATED, REASON  # inside a library TerminatedError may surface as anything
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Outcome.REFUSED, "the disk is full: the log, or the attachments of a large sample, do not fit it"
    return Outcome.UNKNOWN, f"{type(error).__name__}: {one_line(error)}"


def _run(job: Job, progress: _Progress) -> Result:
    require_configuration(job.conninfo)
    patience = Patience(patience_seconds())
    fetched: Fetched | None = None
    doubles_only = False
    try:
        while True:
            try:
                with session(job.conninfo) as connection:
                    if fetched is None:
                        fetched = _fetch(job, connection, progress)
                    if fetched is None:
                        return _unchanged(job, connection, progress)
                    return _import(job, connection, fetched, progress, doubles_only=doubles_only)
            except WarehouseRefusedError as error:
                if not error.number_out_of_range or doubles_only:
                    raise
                doubles_only = True  # jsonb's numbers are long but not endless
                logger.info("reading again: a number is too long for the warehouse")
            except OvertakenError as error:
                if not patience.pause():
                    raise
                logger.info("fetching the log again: %s", error)
                assert fetched is not None  # noqa: S101 - it was being applied
                fetched.close()
                fetched, doubles_only = None, False
            except WarehouseDeniedError:
                raise  # the next job gets the secret as it is then
            except WarehouseUnavailableError as error:
                logger.warning(
                    "the warehouse is busy or unreachable: %s",
                    error,
                    extra={"patience_left_seconds": round(patience.left(), 1)},
                )
                if not patience.pause():
                    raise
    finally:
        if fetched is not None:
            fetched.close()


def _fetch(job: Job, connection: psycopg.Connection[Any], progress: _Progress) -> Fetched | None:
    from longhaul.warehouse import runs

    before = runs.known(connection, job.location, with_messages=job.with_messages, force=job.force)
    known = before.etag if before.current else None
    progress.etag_before = before.etag  # looked up before the log is asked for, see OvertakenError
    if job.file is not None:
        fetched = source.open_file(job.file, known)
    else:
        assert job.bucket is not None  # noqa: S101 - a job has a file, or bucket and key
        assert job.key is not None  # noqa: S101
        fetched = source.fetch_object(job.bucket, job.key, known)
    progress.etag = fetched.etag if fetched else known
    progress.file_size_bytes = fetched.size_bytes if fetched else None
    return fetched


def _unchanged(job: Job, connection: psycopg.Connection[Any], progress: _Progress) -> Result:
    result = progress.result(job, Outcome.UNCHANGED)
    _record(connection, job, progress, result)
    logger.info("unchanged since its last import")
    return result


def _import(
    job: Job, connection: psycopg.Connection[Any], fetched: Fetched, progress: _Progress, *, doubles_only: bool
) -> Result:
    from longhaul.evallog.log import open_log
    from longhaul.importer import rows
    from longhaul.warehouse.writer import LogFacts, Writer

    if not gc.isenabled():  # by the command: all is loaded now, and need not be looked through again and again
        gc.freeze()
        gc.enable()
    log = open_log(fetched.path, job.name, allow_started=job.allow_started, doubles_only=doubles_only)
    try:
        header = log.header
        progress.eval_id = header.eval_id
        writer = Writer(connection)
        _stage(log, writer, job, progress)
    finally:
        log.close()
    facts = LogFacts(
        location=job.location,
        eval_id=header.eval_id,
        etag=fetched.etag,
        file_size_bytes=fetched.size_bytes,
        created_at=header.created_at,
        updated_at=header.updated_at,
        with_messages=job.with_messages,
        etag_before=progress.etag_before,
    )
    eval_row = rows.eval_row(
        header,
        location=job.location,
        etag=fetched.etag,
        file_size_bytes=fetched.size_bytes,
        file_last_modified=fetched.last_modified,
        importer_version=IMPORTER_VERSION,
        sample_count=progress.samples or 0,
        errored_sample_count=progress.errored_samples,
    )

    def record(connection: psycopg.Connection[Any], applied: Applied) -> None:
        progress.rows_changed, progress.stale_logs = applied.rows_changed, applied.stale_logs
        _record(connection, job, progress, progress.result(job, Outcome.IMPORTED))

    writer.apply(facts, eval_row, rows.role_rows(header), record)
    result = progress.result(job, Outcome.IMPORTED)
    logger.info("imported", extra={"samples": result.samples, "rows_changed": result.rows_changed})
    if result.stale_logs:
        logger.warning("other logs hold what the warehouse lacks now", extra={"stale_logs": result.stale_logs})
    return result


def _stage(log: Log, writer: Writer, job: Job, progress: _Progress) -> None:
    from longhaul.importer import rows
    from longhaul.warehouse.copy import ValueRangeError
    from longhaul.warehouse.tables import MESSAGE, SAMPLE, SAMPLE_MODEL, SCORE

    counts: list[tuple[int, int, bool]] = []  # scores, messages, whether it has an error; by sample
    try:
        for sample in log.samples():
            number = writer.begin_sample(sample.uuid, sample.id, sample.epoch)
            writer.add(SAMPLE, number, rows.sample_row(sample))
            for score in sample.scores:
                writer.add(SCORE, number, rows.score_row(score))
            for model, usage in sample.models.items():
                writer.add(SAMPLE_MODEL, number, rows.model_row(model, usage))
            if job.with_messages:
                for message in sample.messages():
                    writer.add(MESSAGE, number, rows.message_row(message))
            written = sample.message_count if job.with_messages else 0
            counts.append((len(sample.scores), written, sample.error_message is not None))
    except ValueRangeError as error:
        raise WarehouseRefusedError(str(error)) from error
    superseded = writer.superseded
    kept = [count for number, count in enumerate(counts) if number not in superseded]
    progress.superseded, progress.samples = len(superseded), len(kept)
    progress.scores, progress.messages = sum(count[0] for count in kept), sum(count[1] for count in kept)
    progress.errored_samples = sum(count[2] for count in kept)


def _record(connection: psycopg.Connection[Any], job: Job, progress: _Progress, result: Result) -> None:
    from longhaul.warehouse.runs import ImportRun, record

    attempt = os.environ.get("AWS_BATCH_JOB_ATTEMPT", "")
    record(
        connection,
        ImportRun(
            location=job.location.replace("\0", ""),
            eval_id=result.eval_id,
            etag=result.etag,
            file_size_bytes=result.file_size_bytes,
            importer_version=IMPORTER_VERSION,
            forced=job.force,
            with_messages=job.with_messages,
            outcome=result.outcome.label,
            exit_code=result.outcome.exit_code,
            reason=result.reason.replace("\0", "") if result.reason else None,
            samples=result.samples,
            scores=result.scores,
            messages=result.messages,
            rows_changed=result.rows_changed,
            stale_logs=result.stale_logs,
            batch_job_id=os.environ.get("AWS_BATCH_JOB_ID"),
            batch_attempt=int(attempt) if attempt.isdigit() else None,
            started_at=progress.started_at,
            seconds=result.seconds,
            peak_memory_bytes=result.peak_memory_bytes,
        ),
    )


def _record_failure(job: Job, progress: _Progress, result: Result) -> None:
    """Keep a row of the failed attempt, in a transaction of its own; without a warehouse the log line has to do."""
    if result.outcome is Outcome.WAREHOUSE_UNAVAILABLE and progress.etag is None:
        return  # it could not even be reached
    try:
        with session(job.conninfo, connect_seconds=3) as connection:
            _record(connection, job, progress, result)
    except WarehouseError as error:
        logger.warning("no row was left of this attempt: %s", error)


def one_line(error: BaseException) -> str:
    """What an error says as one printable line, however long it is and whatever a damaged log put into it."""
    line = " ".join(str(error).split())[:1000]
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)


def _peak_memory_bytes() -> int:
    """Of this program alone: getrusage also counts what the process was before it became this program."""
    try:
        with open("/proc/self/status", "rb") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith(b"VmHWM:"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10
