"""The `longhaul` command: a thin front that loads a group of verbs only when it is used."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import Any

import click

EXIT_CODES = """\b
Exit codes:
  0  done
  1  the verb or the run failed
  2  a wrong argument; nothing was done
  3  the environment: no credentials, wrong region, stack not deployed, sandbox not running
"""


class LazyGroup(click.Group):
    """A group whose members are imported when called, so that help is fast and one broken member breaks no other."""

    def __init__(self, *, members: dict[str, tuple[str, str]], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.members = members  # name → ("module:attribute", one line of help)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, without importing anything."""
        return sorted({*self.members, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name` and return its command."""
        if cmd_name not in self.members:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.members[cmd_name][0].partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise click.ClickException(f"`{cmd_name}` cannot be loaded: {error}") from error
        assert isinstance(command, click.Command)  # noqa: S101 - what the table above promises
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, not from the modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.members[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; say what failed in one line, with a traceback only under --debug."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except Exception as error:
            from longhaul.cli.errors import explain  # with botocore and rich, which help and version do not need
            from longhaul.cli.output import say

            problem = explain(error)
            if problem is None:
                raise
            if ctx.find_root().params.get("debug"):
                traceback.print_exc()
            say(f"Error: {problem.message}")
            for note in getattr(error, "__notes__", ()):
                say(f"  {note}")
            sys.exit(problem.exit_code)


@click.group(
    cls=LazyGroup,
    members={
        "benchmark": ("longhaul.cli.benchmark:benchmark", "Measure cases, here or for a fleet, and report."),
        "fleet": ("longhaul.cli.fleet:fleet", "Measure with a fleet: publish, work, look, steer."),
        "import": ("longhaul.cli.import_:import_command", "Import one log by hand."),
        "reimport": ("longhaul.cli.reimport:reimport", "Start, watch, stop, redrive and read re-imports."),
        "sandbox": ("longhaul.cli.sandbox:sandbox", "Run all of it on this machine, without an AWS account."),
        "warehouse": ("longhaul.cli.warehouse:warehouse", "Migrate and check the warehouse."),
    },
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": None},
)
@click.option("--env", help="Environment (dev, stg, prd, sandbox); $LONGHAUL_ENV, else sandbox.")
@click.option("--project", help="Project part of the stack's name; $LONGHAUL_PROJECT, else hawk.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="longhaul")
def main(env: str | None, project: str | None, debug: bool) -> None:
    """Keep long lists of work going on machines that come and go."""
