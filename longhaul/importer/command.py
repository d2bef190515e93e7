"""The importer's command line: arguments in, one JSON line out, an exit code that Batch reads.

Arguments are wrong → 12, never argparse's own 2, which would mean something else to a retry strategy.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from longhaul.importer import termination
from longhaul.importer.outcome import Outcome, Result


class _ArgumentError(Exception):
    """The arguments make no sense."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _ArgumentError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Import one log; return the exit code."""
    termination.install()
    try:
        result = _main(arguments)
    except termination.TerminatedError:
        result = Result(outcome=Outcome.TERMINATED, reason=termination.REASON)
    if termination.requested() and result.outcome is not Outcome.TERMINATED:
        result = dataclasses.replace(result, outcome=Outcome.TERMINATED, reason=termination.REASON)
    termination.end_at_once()
    print(result.line(), flush=True)
    return result.outcome.exit_code


def _main(arguments: Sequence[str] | None) -> Result:
    try:
        options = _parser().parse_args(arguments)
        if options.file is not None and (options.bucket or options.key):
            raise _ArgumentError("--file stands instead of --bucket and --key")
        if options.file is None and not (options.bucket and options.key):
            raise _ArgumentError("--bucket and --key are needed, or --file")
        if not _is_text(options.bucket) or not _is_text(options.key):
            raise _ArgumentError("--bucket and --key must be UTF-8, as S3's names are")
    except _ArgumentError as error:
        print(f"longhaul.importer: {error}", file=sys.stderr)
        return Result(outcome=Outcome.REFUSED, reason=str(error))

    from longhaul.importer import logs
    from longhaul.importer.job import Job, run

    job = Job(
        conninfo=options.database_url,
        bucket=options.bucket,
        key=options.key,
        file=options.file,
        force=options.force,
        with_messages=options.messages,
        allow_started=options.allow_started,
    )
    logs.set_up(key=job.name)
    return run(job)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="longhaul.importer", description="Import one Inspect log into the warehouse.")
    parser.add_argument("--bucket", help="bucket of the log")
    parser.add_argument("--key", help="key of the log, literally")
    parser.add_argument("--file", type=Path, help="a log on disk instead")
    parser.add_argument(
        "--force", type=_boolean, default=False, metavar="true|false", help="import it even if unchanged"
    )
    parser.add_argument("--messages", type=_boolean, default=True, metavar="true|false", help="write messages too")
    parser.add_argument("--allow-started", action="store_true", help="import a log that is still being written")
    parser.add_argument("--database-url", default=os.environ.get("DATABASE_URL", ""), help=argparse.SUPPRESS)
    return parser


def _is_text(name: str | None) -> bool:
    try:
        return (name or "").isascii() or bool((name or "").encode())
    except UnicodeEncodeError:  # bytes that the system's encoding does not know
        return False


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false") from None
