"""`longhaul sandbox …`: the local AWS, run as a process of its own; nothing of it is imported here."""

from __future__ import annotations

import os
import sys

import click

from longhaul.cli.environment import clone
from longhaul.cli.errors import EnvironmentProblemError

EPILOG = """\b
Exit codes:
  0  done
  1  it failed
  2  a wrong argument
  3  no sandbox is running
  4  up: one is running already
"""


@click.group(epilog=EPILOG)
def sandbox() -> None:
    """Run all of it on this machine, without an AWS account and without Docker.

    Everything it writes is below $LONGHAUL_SANDBOX_DIR, else .sandbox in the clone.
    """


@sandbox.command()
@click.option("--detach", is_flag=True, help="Return when it is ready and leave it running.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the AWS endpoint; a free one if not given."
)
@click.option(
    "--postgres-port", type=click.IntRange(0, 65535), default=0, help="Port of the warehouse; a free one if not given."
)
@click.pass_context
def up(context: click.Context, detach: bool, port: int, postgres_port: int) -> None:
    """Start it and deploy the stacks into it; Ctrl-C stops it."""
    detached = ["--detach"] if detach else []
    _become(context, "up", *detached, "--port", str(port), "--postgres-port", str(postgres_port))


@sandbox.command()
@click.pass_context
def down(context: click.Context) -> None:
    """Stop it and remove all that it wrote."""
    _become(context, "down")


@sandbox.command()
@click.option("--json", "as_json", is_flag=True, help="All of it, as JSON.")
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Say whether it runs."""
    _become(context, "status", *(["--json"] if as_json else []))


@sandbox.command()
@click.pass_context
def env(context: click.Context) -> None:
    """Print export lines: eval "$(longhaul sandbox env)"."""
    _become(context, "env")


@sandbox.command()
@click.pass_context
def reset(context: click.Context) -> None:
    """Empty it and deploy the stacks again."""
    _become(context, "reset")


def _become(context: click.Context, *arguments: str) -> None:
    """Replace this process, so that signals and the exit code are the sandbox's own."""
    root = clone()
    if not (root / "sandbox" / "__main__.py").exists():
        raise EnvironmentProblemError(
            "the sandbox is part of a clone, not of an installed package: run `make install` there"
        )
    debug = ["--debug"] if context.find_root().params.get("debug") else []
    sys.stdout.flush()
    # -P and the path: the sandbox of this very clone, whatever else of that name the working directory holds
    places = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", "sandbox", *debug, *arguments]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": places})  # noqa: S606  # no shell is wanted
