"""Which environment a verb works on: its AWS session and the outputs of its stack (R2, R20)."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import click
from botocore.config import Config
from botocore.exceptions import ClientError, NoRegionError

import longhaul
from longhaul.cli.errors import EnvironmentProblemError
from longhaul.reimport.errors import InvalidArgumentError
from longhaul.reimport.listing import READERS
from longhaul.reimport.runs import console_url
from longhaul.reimport.sizing import Tiers

SANDBOX = "sandbox"
ENVIRONMENTS = ("dev", "stg", "prd", SANDBOX)  # those of stacks/settings.py, which is not installed with the CLI
DEFAULT_PROJECT = "hawk"
_NO_SET_UP = {  # of the user: no profile, no files
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}
_CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 5},
    connect_timeout=5,
    read_timeout=60,
    max_pool_connections=READERS,
)


class Environment:
    """An environment by name; nothing is asked of AWS before the first client or output is used.

    `explicit`: named by --env, not by a variable or for want of one. InvalidArgumentError for an unknown name.
    """

    def __init__(self, name: str, project: str, *, explicit: bool = False) -> None:
        if name not in ENVIRONMENTS:
            known = f"{', '.join(ENVIRONMENTS[:-1])} or {ENVIRONMENTS[-1]}"
            raise InvalidArgumentError(f"no environment {name}: choose {known}")
        self.name = name
        self.project = project
        self.explicit = explicit
        self._clients: dict[str, Any] = {}

    @property
    def stack(self) -> str:
        """The name of the stack whose outputs name everything else."""
        return f"{self.name}-{self.project}-reimport"

    @cached_property
    def _settings(self) -> dict[str, str]:
        """The sandbox's AWS_* variables, or nothing: the ordinary credentials chain."""
        return sandbox_environment() if self.name == SANDBOX else {}

    @cached_property
    def session(self) -> boto3.Session:
        """The AWS session of this environment; the sandbox's has nothing of the user's AWS set-up, AWS_PROFILE say."""
        env = self._settings
        return boto3.Session(
            botocore_session=botocore.session.Session(session_vars=_NO_SET_UP) if self.name == SANDBOX else None,
            aws_access_key_id=env.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=env.get("AWS_SECRET_ACCESS_KEY"),
            region_name=env.get("AWS_REGION") or os.environ.get("AWS_REGION"),  # boto3 reads AWS_DEFAULT_REGION only
        )

    def client(self, service: str) -> Any:
        """Return the client of an AWS service; botocore retries throttling and lost connections."""
        if service not in self._clients:
            if not self.session.region_name:
                raise NoRegionError
            self._clients[service] = self.session.client(  # type: ignore[call-overload]
                service, endpoint_url=self._settings.get("AWS_ENDPOINT_URL"), config=_CONFIG
            )
        return self._clients[service]

    @cached_property
    def outputs(self) -> dict[str, str]:
        """The outputs of the re-import stack; names and ARNs are read, never rebuilt (R2)."""
        try:
            stacks = self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":  # CloudFormation's word for "no such stack"
                raise
            raise EnvironmentProblemError(
                f"the stack {self.stack} is not deployed in {self.session.region_name}; {self._remedy}"
            ) from error
        return {output["OutputKey"]: output["OutputValue"] for output in stacks[0].get("Outputs", ())}

    def output(self, name: str) -> str:
        """Return one output of the stack."""
        try:
            return self.outputs[name]
        except KeyError as error:
            raise EnvironmentProblemError(
                f"the stack {self.stack} has no output {name}, it is of another version; {self._deploy}"
            ) from error

    @property
    def _remedy(self) -> str:
        if self.project != DEFAULT_PROJECT and self.name == SANDBOX:
            return f"the sandbox holds the project {DEFAULT_PROJECT} only: check --project and LONGHAUL_PROJECT"
        if self.name == SANDBOX:
            return self._deploy
        return f"check --project, AWS_REGION and AWS_PROFILE, or {self._deploy}"

    @property
    def _deploy(self) -> str:
        project = "" if self.project == DEFAULT_PROJECT else f" -c project={self.project}"
        deploy = f"npx cdk deploy --all -c env={self.name}{project}"
        return f"deploy it with `{'longhaul sandbox reset' if self.name == SANDBOX else deploy}`"

    def console_url(self, arn: str) -> str | None:
        """Return the address of an execution in the AWS console; the sandbox has none."""
        return None if self.name == SANDBOX else console_url(arn)

    @property
    def tiers(self) -> Tiers:
        """The deployed job sizes."""
        names = ("SmallMaxBytes", "SmallVcpu", "SmallMemoryMib", "FullVcpu", "FullMemoryMib")
        return Tiers.from_outputs({name: self.output(name) for name in names})


def sandbox_folder() -> Path:
    """Return where the sandbox keeps its state: $LONGHAUL_SANDBOX_DIR, else `.sandbox` in the clone."""
    return Path(os.environ.get("LONGHAUL_SANDBOX_DIR") or clone() / ".sandbox")


def clone() -> Path:
    """Return the folder that this package was imported from; the sandbox is a part of it."""
    return Path(longhaul.__file__).resolve().parents[1]


def sandbox_environment() -> dict[str, str]:
    """Return the AWS_* variables of the running sandbox; EnvironmentProblemError says why there are none."""
    state_file = sandbox_folder() / "state.json"
    try:
        state = json.loads(state_file.read_text())
        status, pid, env = state["status"], int(state["pid"]), dict(state.get("env") or {})
    except FileNotFoundError as error:
        raise EnvironmentProblemError(
            "the sandbox is not running; start it with `longhaul sandbox up --detach`, or name an --env"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentProblemError(f"{state_file} cannot be read; run `longhaul sandbox reset`") from error
    if not _alive(pid):
        raise EnvironmentProblemError("the sandbox has died; start it again with `longhaul sandbox up --detach`")
    if status != "ready":
        raise EnvironmentProblemError(f"the sandbox is {status}; `longhaul sandbox status` says more")
    return env


def environment_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add --env and --project to a verb and hand it an `environment`."""

    @click.option(
        "--env", metavar="NAME", help="Environment: dev, stg, prd or sandbox ($LONGHAUL_ENV).  [default: sandbox]"
    )
    @click.option("--project", metavar="NAME", help="Project in the stack's name ($LONGHAUL_PROJECT).  [default: hawk]")
    @click.pass_context
    @functools.wraps(verb)
    def wrapped(ctx: click.Context, /, *args: Any, env: str | None, project: str | None, **kwargs: Any) -> Any:
        above = ctx.find_root().params
        name = env or above.get("env") or os.environ.get("LONGHAUL_ENV") or SANDBOX
        project = project or above.get("project") or os.environ.get("LONGHAUL_PROJECT") or DEFAULT_PROJECT
        environment = Environment(name, project, explicit=bool(env or above.get("env")))
        return ctx.invoke(verb, *args, environment=environment, **kwargs)

    return wrapped


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
