"""State machine definitions: read, checked when they are created, refused when the sandbox could not run them truly.

AWS: https://states-language.net and
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-amazon-states-language.html
Gap of moto 5.2.5: a definition is taken unread and first parsed when an execution starts, so a broken one deploys.
What is not here (JSONPath, inline maps, parallels, other services' tasks) is refused by name at creation, rather
than run in some other way than AWS does.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

from sandbox.step_functions import expressions
from sandbox.step_functions.errors import InvalidDefinition

LONGEST_DEFINITION_BYTES = 1024 * 1024
SUBMIT_JOB = "arn:aws:states:::batch:submitJob"
SUBMIT_JOB_SYNC = SUBMIT_JOB + ".sync"
READ_OBJECT = "arn:aws:states:::s3:getObject"
_NOT_IN_LABELS = '?*<>{}[]:;,\\|^~$#%&`" \t\n'
WRITE_OBJECT = "arn:aws:states:::s3:putObject"

_COMMON = {"Type", "Comment", "QueryLanguage"}
_FLOW = {"Next", "End", "Output", "Assign"}
_FIELDS = {
    "Pass": _COMMON | _FLOW,
    "Succeed": _COMMON | {"Output"},
    "Fail": _COMMON | {"Error", "Cause"},
    "Wait": _COMMON | _FLOW | {"Seconds"},
    "Choice": _COMMON | {"Choices", "Default", "Output", "Assign"},
    "Task": _COMMON | _FLOW | {"Resource", "Arguments", "Retry", "Catch", "TimeoutSeconds"},
    "Map": _COMMON
    | _FLOW
    | {"Label", "MaxConcurrency", "ToleratedFailurePercentage", "ToleratedFailureCount", "ItemReader", "Items"}
    | {"ItemSelector", "ItemProcessor", "ResultWriter", "Retry", "Catch"},
}


@dataclass(frozen=True, kw_only=True)
class Program:
    """States and where they begin: a whole definition, or a map's ItemProcessor."""

    start_at: str
    states: dict[str, dict[str, Any]] = field(repr=False)
    timeout_seconds: int | None = None


@functools.lru_cache(maxsize=256)
def read(text: str) -> Program:
    """The program of a definition; InvalidDefinition says which state and field is wrong."""
    if len(text.encode()) > LONGEST_DEFINITION_BYTES:
        raise InvalidDefinition("Invalid State Machine Definition: 'DEFINITION_TOO_LONG'")
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise _invalid("INVALID_JSON_DESCRIPTION", str(error)) from error
    if not isinstance(tree, dict):
        raise _invalid("INVALID_JSON_DESCRIPTION", "the definition must be an object")
    if tree.get("QueryLanguage") != "JSONata":
        raise _invalid("SCHEMA_VALIDATION_FAILED", "the sandbox runs JSONata only: set QueryLanguage at the top")
    return _program(tree, "")


def _program(tree: dict[str, Any], where: str) -> Program:
    states, start_at = tree.get("States"), str(tree.get("StartAt"))
    if not isinstance(states, dict) or not states:
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/States must name at least one state")
    if start_at not in states:
        raise _invalid("MISSING_TRANSITION_TARGET", f"{where}/StartAt: no state named {start_at!r}")
    for name, state in states.items():
        _check(name, state, states, f"{where}/States/{name}")
    return Program(start_at=start_at, states=states, timeout_seconds=tree.get("TimeoutSeconds"))


def processor(state: dict[str, Any]) -> Program:
    """The program of a map's children."""
    found = state["ItemProcessor"]
    return Program(start_at=found["StartAt"], states=found["States"])


def _check(name: str, state: Any, states: dict[str, Any], where: str) -> None:
    if len(name) > 80:
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}: a state's name has at most 80 characters")
    kind = state.get("Type") if isinstance(state, dict) else None
    if kind not in _FIELDS:
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/Type: the sandbox does not run {kind!r}")
    if unknown := sorted(state.keys() - _FIELDS[kind]):
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}: {kind} has no field {', '.join(unknown)} in JSONata")
    if state.get("QueryLanguage", "JSONata") != "JSONata":
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/QueryLanguage: the sandbox runs JSONata only")
    if "Next" in _FIELDS[kind] and ("Next" in state) == bool(state.get("End")):
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where} must have either Next or End")
    targets = [state[key] for key in ("Next", "Default") if key in state]
    targets += [rule.get("Next") for rule in [*state.get("Choices", []), *state.get("Catch", [])]]
    for target in targets:
        if target not in states:
            raise _invalid("MISSING_TRANSITION_TARGET", f"{where}: no state named {target!r}")
    _CHECKS.get(kind, lambda *_: None)(state, where)
    own = {key: value for key, value in state.items() if key != "ItemProcessor"}
    for text in expressions.expressions(own):
        try:
            expressions.parsed(text)
        except Exception as error:
            raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}: not JSONata: {text} ({error})") from error


def _check_choice(state: dict[str, Any], where: str) -> None:
    if not state.get("Choices"):
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/Choices must not be empty")
    for rule in state["Choices"]:
        if "Condition" not in rule:
            raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/Choices: a JSONata rule has a Condition")


def _check_task(state: dict[str, Any], where: str) -> None:
    if state.get("Resource") not in (SUBMIT_JOB, SUBMIT_JOB_SYNC):
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/Resource: the sandbox runs {SUBMIT_JOB}[.sync] only")


def _check_map(state: dict[str, Any], where: str) -> None:
    child: dict[str, Any] = state.get("ItemProcessor", {})
    config = child.get("ProcessorConfig", {})
    if config.get("Mode") != "DISTRIBUTED" or config.get("ExecutionType") != "STANDARD":
        raise _invalid(
            "SCHEMA_VALIDATION_FAILED", f"{where}: the sandbox runs DISTRIBUTED maps of STANDARD children only"
        )
    reader, writer = state.get("ItemReader"), state.get("ResultWriter")
    if reader and reader.get("Resource") != READ_OBJECT:
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/ItemReader/Resource: the sandbox reads {READ_OBJECT} only")
    if reader and reader.get("ReaderConfig") != {"InputType": "JSON"}:
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/ItemReader/ReaderConfig: the sandbox reads JSON only")
    if reader and reader.get("Arguments", {}).keys() != {"Bucket", "Key"}:
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/ItemReader/Arguments: the sandbox takes Bucket and Key")
    if writer and (writer.get("Resource") != WRITE_OBJECT or "WriterConfig" in writer):
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/ResultWriter: the sandbox writes {WRITE_OBJECT} only")
    label = state.get("Label", "")
    if len(label) > 40 or any(character in label for character in _NOT_IN_LABELS):
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}/Label is not valid")
    children = _program(child, f"{where}/ItemProcessor")
    if any(inner["Type"] == "Map" for inner in children.states.values()):
        raise _invalid("SCHEMA_VALIDATION_FAILED", f"{where}: the sandbox runs no map within a map")


_CHECKS = {"Choice": _check_choice, "Task": _check_task, "Map": _check_map}


def _invalid(code: str, detail: str) -> InvalidDefinition:
    return InvalidDefinition(f"Invalid State Machine Definition: '{code}: {detail}'")
