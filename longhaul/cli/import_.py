"""`longhaul import`: one log by hand, a file or an object, with the very importer that the Batch jobs run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from longhaul.cli.environment import SANDBOX, Environment, environment_options, sandbox_environment
from longhaul.cli.warehouse import conninfo_of, database_url_option

EPILOG = """\b
Exit codes:
   0  imported, or unchanged
  10  not an importable log
  11  log not found, or no permission to read it
  12  refused: does not fit the disk, or the warehouse refuses the data
  20  warehouse busy or unreachable
  21  log changed while being read, or still being written
 143  told to end
   2  a wrong argument
   3  the environment: no credentials, stack not deployed, sandbox not running
"""


@click.command(epilog=EPILOG)
@click.argument("log")
@click.option("--force", is_flag=True, help="Import it even if it has not changed.")
@click.option("--messages/--no-messages", default=True, help="Write the messages too.  [default: yes]")
@click.option("--allow-started", is_flag=True, help="Import what a log has that is still being written.")
@database_url_option
@environment_options
def import_command(
    environment: Environment, log: str, force: bool, messages: bool, allow_started: bool, database_url: str | None
) -> None:
    """Import one LOG: a file, s3://BUCKET/KEY, or the key of a log in the environment's bucket.

    Prints one line of JSON.
    """
    conninfo = conninfo_of(environment, database_url)
    bucket, key, file = _place(environment, log)
    if bucket and environment.name == SANDBOX:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):  # of the user; the sandbox knows neither
            os.environ.pop(name, None)
        if "AWS_ENDPOINT_URL" not in os.environ:
            os.environ.update({name: value for name, value in sandbox_environment().items() if name.startswith("AWS_")})

    from longhaul.importer import job, logs, termination

    termination.install()
    logs.set_up(key=log)
    result = job.run(
        job.Job(
            conninfo=conninfo,
            bucket=bucket,
            key=key,
            file=file,
            force=force,
            with_messages=messages,
            allow_started=allow_started,
        )
    )
    click.echo(result.line())
    sys.exit(result.outcome.exit_code)


def _place(environment: Environment, log: str) -> tuple[str | None, str | None, Path | None]:
    """Bucket and key, or a file."""
    if log.startswith("s3://"):
        bucket, _, key = log.removeprefix("s3://").partition("/")
        if not bucket or not key:
            raise click.BadParameter(f"{log} is not s3://BUCKET/KEY", param_hint="LOG")
        return bucket, key, None
    if Path(log).is_file():
        return None, None, Path(log)
    if log.startswith("evals/"):
        return environment.output("LogsBucketName"), log, None
    raise click.BadParameter(f"there is no file {log}, and it is no key below evals/", param_hint="LOG")
