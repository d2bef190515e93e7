"""The front of the CLI: fast, whole when a part is broken, one line for an error."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError, ProfileNotFound
from click.testing import CliRunner

from longhaul.cli import LazyGroup, main
from longhaul.cli.errors import EnvironmentProblemError, explain
from longhaul.reimport.errors import InvalidArgumentError, NameTakenError, RefusedError
from tests.unit.reimport.fake_step_functions import client_error


def test_help_imports_no_group() -> None:
    script = (
        "import sys; from longhaul.cli import main; main(['--help'], standalone_mode=False);"
        " assert not {'boto3', 'rich', 'psycopg', 'longhaul.cli.reimport'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    for word in ("import ", "reimport ", "sandbox ", "warehouse ", "Exit codes", "3  the environment"):
        assert word in done.stdout


def test_a_broken_group_breaks_no_other() -> None:
    group = LazyGroup(
        name="g",
        members={"bad": ("longhaul.no_such_module:x", "Broken."), "good": ("longhaul.cli.reimport:reimport", "Fine.")},
    )
    runner = CliRunner()
    assert runner.invoke(group, ["good", "--help"]).exit_code == 0
    broken = runner.invoke(group, ["bad"])
    assert broken.exit_code == 1
    assert "`bad` cannot be loaded" in broken.stderr
    assert runner.invoke(group, ["nothing"]).exit_code == 2


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InvalidArgumentError("bad"), 2, "bad"),
        (NameTakenError("taken"), 1, "taken"),
        (RefusedError(), 1, "state"),
        (EnvironmentProblemError("no sandbox"), 3, "no sandbox"),
        (NoCredentialsError(), 3, "aws sso login"),
        (NoCredentialsError(), 3, "longhaul sandbox env"),
        (NoRegionError(), 3, "AWS_REGION"),
        (ProfileNotFound(profile="x"), 3, "AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="https://x"), 3, "check the network"),
        (client_error("ExpiredToken", "ListExecutions"), 3, "ListExecutions: ExpiredToken; sign in"),
        (client_error("AccessDeniedException", "StopExecution"), 3, "your role may not"),
        (client_error("ThrottlingException", "DescribeMapRun"), 1, "DescribeMapRun: ThrottlingException"),
        (ClientError({}, "X"), 1, "AWS refused X"),
        (OSError(28, "No space left on device", "/x/y"), 1, "/x/y: No space left on device"),
    ],
)
def test_errors_are_one_line_with_a_remedy(error: Exception, code: int, words: str) -> None:
    """R22, "Bad input": documented exit codes."""
    problem = explain(error)
    assert problem is not None
    assert problem.exit_code == code
    assert words in problem.message
    assert "\n" not in problem.message


def failing_group(error: Exception) -> click.Group:
    group = LazyGroup(name="g", members={}, params=[click.Option(["--debug"], is_flag=True)])

    @group.command()
    def fail() -> None:
        raise error

    group.members["fail"] = ("", "")
    return group


def test_no_traceback_unless_debug() -> None:
    error = NameTakenError("taken \x1b[31m")
    error.add_note("do this next")
    group = failing_group(error)
    del group.members["fail"]  # type: ignore[attr-defined]
    done = CliRunner().invoke(group, ["fail"])
    assert (done.exit_code, done.stderr) == (1, "Error: taken \\x1b[31m\n  do this next\n")
    debugged = CliRunner().invoke(group, ["--debug", "fail"])
    assert (debugged.exit_code, "Traceback" in debugged.stderr) == (1, True)
    assert debugged.stderr.endswith(done.stderr)


def test_debug_keeps_the_exit_code() -> None:
    group = failing_group(EnvironmentProblemError("no sandbox"))
    del group.members["fail"]  # type: ignore[attr-defined]
    for arguments in (["fail"], ["--debug", "fail"]):
        assert CliRunner().invoke(group, arguments).exit_code == 3


def test_a_bug_keeps_its_traceback() -> None:
    group = failing_group(ZeroDivisionError())
    del group.members["fail"]  # type: ignore[attr-defined]
    assert isinstance(CliRunner().invoke(group, ["fail"]).exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("watch", "130  you left"),
        ("start", "Jobs at once, 1 to 32"),
        ("retry", "Jobs at once, 1 to 32"),
        ("start", ".eval"),
    ],
)
def test_help_says_it(verb: str, words: str) -> None:
    assert words in CliRunner().invoke(main, ["reimport", verb, "--help"]).stdout


def test_version() -> None:
    assert CliRunner().invoke(main, ["--version"]).exit_code == 0
