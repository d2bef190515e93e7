"""Deploying the very stacks into the sandbox with the real CDK command line, and checking that all of it is there."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sandbox import processes, surroundings
from sandbox.state import SandboxError

CDK = surroundings.ROOT / "node_modules" / ".bin" / "cdk"
TOOL_SECONDS = 300


def environment(folder: Path) -> dict[str, str]:
    """For the CDK: a home of its own, so that no ~/.aws or ~/.cdk.json leaks in, and no look-ups on the Internet.

    Its temporary files go with the folder, for it leaves them behind when it is interrupted.
    """
    home, temporary = folder / "home", folder / "tmp"
    home.mkdir(exist_ok=True)
    temporary.mkdir(exist_ok=True)
    return {
        **surroundings.child_environment(),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "CDK_VALIDATION": "false",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "DISABLE_VERSION_CHECK": "1",
        "CI": "true",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(surroundings.ROOT / "build" / "jsii"),
    }


def synthesise(folder: Path) -> Path:
    """`cdk synth` of the sandbox's environment; returns the cloud assembly. Needs no server."""
    if not CDK.exists():
        raise SandboxError(f"the CDK command line is missing at {CDK}: run `make install`")
    out = folder / "cdk.out"
    _cdk(folder, "synth", "--quiet", "-c", "env=sandbox", "--output", str(out))
    return out


def bootstrap(folder: Path) -> None:
    """`cdk bootstrap`: the bucket for assets and the version parameter that every stack looks at."""
    account = f"aws://{surroundings.ACCOUNT}/{surroundings.region()}"
    _cdk(folder, "bootstrap", account, "--app", "")


def deploy(folder: Path, assembly: Path) -> dict[str, str]:
    """`cdk deploy --all` of what was synthesised; returns the outputs of all stacks."""
    _cdk(
        folder, "deploy", "--all", "--app", str(assembly), "--require-approval", "never", "--method=direct",
        "--previous-parameters=false", "--progress", "events",
    )  # fmt: skip
    return verify(assembly)


def verify(assembly: Path) -> dict[str, str]:
    """Compare what is deployed with the templates; the CDK once reported success on a stack that was half made."""
    manifest = json.loads((assembly / "manifest.json").read_text())
    stacks = {k: v for k, v in manifest["artifacts"].items() if v["type"] == "aws:cloudformation:stack"}
    with ThreadPoolExecutor(4) as pool:
        both = list(pool.map(lambda one: _verify_stack(assembly, one), stacks.values()))
    return {key: value for outputs in both for key, value in outputs.items()}


def _verify_stack(assembly: Path, artifact: dict[str, Any]) -> dict[str, str]:
    template = json.loads((assembly / artifact["properties"]["templateFile"]).read_text())
    name = artifact["properties"].get("stackName") or artifact["displayName"]
    formation = surroundings.client("cloudformation")
    stack = formation.describe_stacks(StackName=name)["Stacks"][0]
    if stack["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        raise SandboxError(
            f"the stack {name} is {stack['StackStatus']}; see the server's log, then `longhaul sandbox reset`"
        )
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=name)
    made = {one["LogicalResourceId"] for page in pages for one in page["StackResourceSummaries"]}
    outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
    missing = sorted((set(template["Resources"]) - made) | (set(template.get("Outputs", {})) - set(outputs)))
    if missing:
        raise SandboxError(f"the stack {name} is not whole, it lacks {', '.join(missing)}; see the server's log")
    return {key: value for key, value in outputs.items() if not key.startswith("ExportsOutput")}


def _cdk(folder: Path, *arguments: str) -> None:
    command = [str(CDK), *arguments, "--no-notices", "--no-color"]
    code, text = processes.run(
        command, environment=environment(folder), cwd=surroundings.ROOT, timeout_seconds=TOOL_SECONDS
    )
    with open(folder / "server.log", "a") as log:
        log.write(f"$ cdk {' '.join(arguments)}\n{text}\n")
    if code:
        raise SandboxError(
            f"`cdk {arguments[0]}` failed with {code}: {reason(text)[:600]} (all of it in {folder / 'server.log'})"
        )


def reason(text: str) -> str:
    """The line of a tool's output that says most likely why it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for sign in (r"^longhaul: ", r"^\w*(Error|Exception): ", r"❌", r"rror"):
        found = [line for line in lines if re.search(sign, line) and "Subprocess exited" not in line]
        if found:
            return found[-1]
    return lines[-1] if lines else "it said nothing"


def python(folder: Path, *arguments: str, extra: dict[str, str]) -> None:
    """Run a module of the project with the sandbox's interpreter, as a deployment step."""
    command = [sys.executable, "-m", *arguments]
    variables = {**surroundings.child_environment(), **extra}
    code, text = processes.run(command, environment=variables, cwd=surroundings.ROOT, timeout_seconds=TOOL_SECONDS)
    with open(folder / "server.log", "a") as log:
        log.write(f"$ python -m {' '.join(arguments)}\n{text}\n")
    if code:
        last = (text.strip().splitlines() or ["no output"])[-1]
        raise SandboxError(
            f"`python -m {' '.join(arguments)}` failed with {code}: {last} (see {folder / 'server.log'})"
        )
