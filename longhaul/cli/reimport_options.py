"""Arguments that several verbs of `longhaul reimport` share, checked before AWS is asked anything."""

from __future__ import annotations

import sys
from typing import Any

import click

from longhaul.cli.environment import Environment
from longhaul.reimport.errors import InvalidArgumentError
from longhaul.reimport.listing import check_name
from longhaul.reimport.runs import Runs, check_cap
from longhaul.reimport.selectors import moment


class Cap(click.ParamType[int]):
    """A cap: a whole number from 1 to 32."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse what is no whole number, and 0, which Step Functions takes for 10,000 (case-R21)."""
        try:
            return check_cap(int(value))
        except ValueError:
            self.fail(f"the cap is a whole number from 1 to 32, not {value!r}", param, ctx)
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)


class RunName(click.ParamType[str]):
    """A name for a new list and run."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that is no legal object and execution name (case-R10)."""
        try:
            return check_name(str(value))
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)


class Moment(click.ParamType[Any]):
    """An ISO 8601 date or time, UTC unless it says otherwise."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse it."""
        try:
            return moment(value)
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)


run_argument = click.argument("run_name", metavar="RUN")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def runs_of(environment: Environment) -> Runs:
    """Return the runs of an environment's state machine."""
    return Runs(environment.client("stepfunctions"), environment.output("EvalLogReimportStateMachineArn"))


def confirm(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; without a terminal, --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: give --yes.")
    click.confirm(question, abort=True, err=True)
