"""The definition, read and evaluated: R8–R17, case-C07."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonata
import pytest

from tests.infra.deployment import Deployment

ROOT = Path(__file__).parents[2]
FILE = ROOT / "state_machines" / "reimport.asl.json"
VALUES = {
    "Bucket": "reimport",
    "LogsBucket": "logs",
    "JobName": "dev-hawk-eval-log-reimport",
    "JobQueueArn": "arn:aws:batch:eu-west-1:111122223333:job-queue/dev-hawk-eval-log-importer-on-demand",
    "JobDefinitionName": "dev-hawk-eval-log-importer",
    "SmallMaxBytes": "1000",
    "SmallVcpu": "0.5",
    "SmallMemoryMib": "1024",
    "FullVcpu": "2",
    "FullMemoryMib": "4096",
}
PARENT = "arn:aws:states:eu-west-1:111122223333:execution:dev-hawk-eval-log-reimport:names-2025-06"
CHILD = "arn:aws:states:eu-west-1:111122223333:execution:dev-hawk-eval-log-reimport/Reimport:0001"


def definition(**values: str) -> dict[str, Any]:
    """The definition with its placeholders filled."""
    text = re.sub(r"\$\{(\w+)\}", lambda found: {**VALUES, **values}[found[1]], FILE.read_text("utf-8"))
    return dict(json.loads(text))


def evaluate(template: Any, states: dict[str, Any], **variables: Any) -> Any:
    """What a value of the definition becomes."""
    if isinstance(template, dict):
        return {key: evaluate(value, states, **variables) for key, value in template.items()}
    if isinstance(template, list):
        return [evaluate(value, states, **variables) for value in template]
    if not isinstance(template, str) or not template.startswith("{%"):
        return template
    expression = jsonata.Jsonata(template.removeprefix("{%").removesuffix("%}").strip())
    for name, value in {"states": states, **variables}.items():
        expression.assign(name, value)
    return expression.evaluate(None)


MACHINE = definition()
STATES = MACHINE["States"]
MAP = STATES["Reimport"]
CHILDREN = MAP["ItemProcessor"]["States"]


def walk(state: dict[str, Any], input_: Any) -> tuple[str, str | None]:
    """Where a Choice goes, and the problem that it assigns on the way."""
    for rule in state["Choices"]:
        met = evaluate(rule["Condition"], {"input": input_})
        assert isinstance(met, bool), rule["Condition"]  # anything else fails the state
        if met:
            return rule["Next"], evaluate(rule.get("Assign", {}).get("problem"), {"input": input_})
    return state["Default"], None


def select(item: Any, small_max_bytes: str = "1000") -> dict[str, Any]:
    """The input of the child of an item."""
    context = {"Map": {"Item": {"Value": item, "Index": 3}}, "Execution": {"Id": PARENT}}
    selector = definition(SmallMaxBytes=small_max_bytes)["States"]["Reimport"]["ItemSelector"]
    return dict(evaluate(selector, {"context": context}))


def test_the_definition_is_valid() -> None:
    for path in (["--json-path", str(FILE)], ["--json-definition", json.dumps(MACHINE)]):
        command = [str(ROOT / "node_modules/.bin/asl-validator"), *path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


def test_every_placeholder_is_filled_and_every_value_used(deployment: Deployment) -> None:
    machine = deployment.the("AWS::StepFunctions::StateMachine").properties
    used = set(re.findall(r"\$\{(\w+)\}", machine["DefinitionString"]))
    assert used == set(machine["DefinitionSubstitutions"]) == set(VALUES)
    assert json.loads(machine["DefinitionString"]) == json.loads(FILE.read_text("utf-8"))


def test_the_values_are_those_of_the_environment(deployment: Deployment, env: str) -> None:
    outputs = deployment.outputs(f"{env}-hawk-reimport")
    assert deployment.the("AWS::StepFunctions::StateMachine").properties["DefinitionSubstitutions"] == {
        "Bucket": outputs["EvalLogReimportBucketName"],
        "LogsBucket": outputs["LogsBucketName"],
        "JobName": f"{env}-hawk-eval-log-reimport",
        "JobQueueArn": outputs["ImporterOnDemandQueueArn"],
        "JobDefinitionName": outputs["ImporterJobDefinitionName"],
        **{
            name: outputs[name]
            for name in ("SmallMaxBytes", "SmallVcpu", "SmallMemoryMib", "FullVcpu", "FullMemoryMib")
        },
    }


@pytest.mark.parametrize(
    "extra",
    [
        {},
        *({"max_concurrency": cap} for cap in (1, 8, 8.0, 32)),
        *({"tolerated_failure_percentage": percentage} for percentage in (0, 0.5, 33.3, 100)),
        *({"adaptive": adaptive} for adaptive in (True, False)),
        *({"Comment": comment} for comment in ("why", None, {"any": ["thing"]})),
    ],
)
def test_r9_inputs_that_start_a_run(extra: dict[str, Any]) -> None:
    assert walk(STATES["Check input"], {"list_key": "lists/names.json", **extra}) == ("Reimport", None)


@pytest.mark.parametrize(
    ("input_", "field", "value"),
    [
        ({}, "list_key is missing", "lists/"),
        ({"max_concurrency": 4}, "list_key is missing", "lists/"),
        ("lists/names.json", "the input must be an object", "lists/names.json"),
        (7, "the input must be an object", "7"),
        ([], "the input must be an object", "[]"),
        ([{"list_key": "lists/names.json"}], "the input must be an object", '[{"list_key"'),
        *(
            ({"list_key": value}, "list_key must be a string that names a list under lists/", json.dumps(value))
            for value in (5, None, True, "evals/a.eval", "", "lists/", "/lists/a.json", "Lists/a.json", "xlists/a.json")
        ),
        *(
            ({"max_concurrency": value}, "max_concurrency must be an integer from 1 to 32", json.dumps(value))
            for value in (0, -1, 33, 10_000, 1.5, "8", None, True)
        ),
        *(
            (
                {"tolerated_failure_percentage": v},
                "tolerated_failure_percentage must be a number from 0 to 100",
                json.dumps(v),
            )
            for v in (-0.1, 100.5, "0.5", None, False)
        ),
        *(({"adaptive": value}, "adaptive must be true or false", json.dumps(value)) for value in ("yes", 1, None)),
        ({"maxConcurrency": 8}, "maxConcurrency is not a field of the input", '{"maxConcurrency":8}'),
        ({"list_key ": 1}, "list_key  is not a field of the input", '{"list_key ":1}'),
        ({"a": 1, "b": "x"}, "a is not a field of the input", '{"a":1}'),
        ({"comment": "lower case"}, "comment is not a field of the input", "lower case"),
    ],
)
def test_r10_other_inputs_are_refused_with_field_value_and_rule(input_: Any, field: str, value: str) -> None:
    if isinstance(input_, dict) and input_ and "list_key" not in input_ and "missing" not in field:
        input_ = {"list_key": "lists/names.json", **input_}
    state, problem = walk(STATES["Check input"], input_)
    assert state == "Refuse input"
    assert problem is not None
    assert problem.startswith(field)
    assert value in problem
    refusal = STATES["Refuse input"]
    assert evaluate(refusal["Cause"], {}, problem=problem) == problem
    assert refusal["Error"] == "InvalidInput"


def test_r10_a_cause_stays_short_whatever_the_input() -> None:
    _, problem = walk(STATES["Check input"], {"list_key": "x" * 100_000})
    assert problem is not None
    assert len(problem) < 500


@pytest.mark.parametrize(("given", "field", "used"), [(3, "max_concurrency", 3), (None, "max_concurrency", 8)])
def test_r9_the_cap_is_the_inputs_or_8(given: int | None, field: str, used: int) -> None:
    input_ = {"list_key": "lists/a.json", **({} if given is None else {field: given})}
    assert evaluate(MAP["MaxConcurrency"], {"input": input_}) == used


@pytest.mark.parametrize(("given", "used"), [(20, 20), (0, 0), (None, 0.5)])
def test_r9_the_tolerance_is_the_inputs_or_half_a_percent(given: int | None, used: float) -> None:
    input_ = {"list_key": "lists/a.json", **({} if given is None else {"tolerated_failure_percentage": given})}
    assert evaluate(MAP["ToleratedFailurePercentage"], {"input": input_}) == used


def test_r11_the_map_is_distributed_with_standard_children_and_starts_once() -> None:
    assert MACHINE["StartAt"] == "Check input"
    assert (MAP["Type"], MAP["Label"]) == ("Map", "Reimport")
    assert MAP["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert "Retry" not in MAP
    assert "Catch" not in MAP
    reader = MAP["ItemReader"]
    assert reader["ReaderConfig"] == {"InputType": "JSON"}
    arguments = evaluate(reader["Arguments"], {"input": {"list_key": "lists/names.json"}})
    assert arguments == {"Bucket": "reimport", "Key": "lists/names.json"}
    assert MAP["ResultWriter"]["Arguments"] == {"Bucket": "reimport", "Prefix": "results"}


def test_r11_children_use_nothing_but_what_is_handed_over() -> None:
    text = json.dumps(CHILDREN)
    assert set(re.findall(r"\$states\.input\.(\w+)", text)) <= set(MAP["ItemSelector"])
    assert "$problem" not in text
    assert "Assign" not in text


@pytest.mark.parametrize(
    ("item", "key", "size", "tier"),
    [
        ({"key": "evals/a.eval", "size": 10}, "evals/a.eval", 10, "small"),
        ({"key": "evals/a.eval", "size": 1000}, "evals/a.eval", 1000, "small"),
        ({"key": "evals/a.eval", "size": 1001}, "evals/a.eval", 1001, "full"),
        ({"key": "evals/a.eval", "size": 0}, "evals/a.eval", 0, "small"),
        ({"key": "evals/a.eval"}, "evals/a.eval", None, "full"),
        ({"key": "evals/a.eval", "size": "10"}, "evals/a.eval", None, "full"),
        ({"key": "evals/a.eval", "size": None}, "evals/a.eval", None, "full"),
        ({"key": "evals/x + %2B é#?\\,\"'..eval"}, "evals/x + %2B é#?\\,\"'..eval", None, "full"),
        ({"size": 10}, None, 10, "small"),
        ({"key": 7}, 7, None, "full"),
        ("evals/a.eval", None, None, "full"),
        (7, None, None, "full"),
        ([{"key": "evals/a.eval"}], None, None, "full"),
        (None, None, None, "full"),
    ],
)
def test_r11_what_the_child_of_an_item_is_handed(item: Any, key: Any, size: Any, tier: str) -> None:
    assert select(item) == {"key": key, "size": size, "tier": tier, "index": 3, "execution": PARENT}


@pytest.mark.parametrize("size", [0, 1, 1000, None])
def test_r5_a_limit_of_0_switches_the_small_size_off(size: int | None) -> None:
    assert select({"key": "evals/a.eval", "size": size}, small_max_bytes="0")["tier"] == "full"


@pytest.mark.parametrize(
    "item",
    [
        {"size": 1},
        {"key": None},
        {"key": 7},
        {"key": ""},
        {"key": ["evals/a.eval"]},
        {"key": {}},
        "evals/a",
        7,
        None,
        [],
    ],
)
def test_r10_a_bad_item_fails_alone_without_a_job(item: Any) -> None:
    input_ = select(item)
    assert walk(CHILDREN["Check item"], input_) == ("Refuse item", None)
    refusal = CHILDREN["Refuse item"]
    assert (refusal["Type"], refusal["Error"]) == ("Fail", "InvalidItem")
    cause = evaluate(refusal["Cause"], {"input": input_})
    assert cause.startswith("an item of the list must be an object whose key is a non-empty string: item 3 has {")


def test_r10_a_good_item_is_imported() -> None:
    assert walk(CHILDREN["Check item"], select({"key": "evals/a.eval"})) == ("Import", None)


@pytest.mark.parametrize(("size", "vcpu", "memory"), [(10, "0.5", "1024"), (10_000, "2", "4096"), (None, "2", "4096")])
def test_r12_the_job_of_an_item(size: int | None, vcpu: str, memory: str) -> None:
    key = "evals/x + %2B é#?\\,\"'..eval"
    states = {"input": select({"key": key, "size": size}), "context": {"Execution": {"Id": CHILD}}}
    assert CHILDREN["Import"]["Resource"] == "arn:aws:states:::batch:submitJob.sync"
    assert evaluate(CHILDREN["Import"]["Arguments"], states) == {
        "JobName": "dev-hawk-eval-log-reimport",
        "JobQueue": VALUES["JobQueueArn"],
        "JobDefinition": "dev-hawk-eval-log-importer",  # no revision: a redrive takes the newest
        "ContainerOverrides": {
            "Command": ["python", "-m", "longhaul.importer", "--bucket", "logs", "--key", key, "--force", "true"],
            "ResourceRequirements": [{"Type": "VCPU", "Value": vcpu}, {"Type": "MEMORY", "Value": memory}],
        },
        "Tags": {"longhaul:execution": PARENT, "longhaul:child": CHILD},
    }


def test_r12_the_output_is_small() -> None:
    result = {"JobId": "4c7599ae", "StoppedAt": 1749723646000, "Container": {"Command": ["x" * 10_000]}}
    output = evaluate(CHILDREN["Import"]["Output"], {"result": result})
    assert output == {"JobId": "4c7599ae", "StoppedAt": 1749723646000}


def test_r14_c07_only_a_refused_submission_is_tried_again_with_full_jitter() -> None:
    (retry,) = CHILDREN["Import"]["Retry"]
    assert set(retry["ErrorEquals"]) == {
        "Batch.AWSBatchException",
        "Batch.ServerException",
        "Batch.TooManyRequestsException",
    }
    assert retry["JitterStrategy"] == "FULL"
    assert retry["BackoffRate"] > 1
    assert retry["MaxAttempts"] >= 3
    assert "Catch" not in CHILDREN["Import"]


def test_the_definition_has_no_dollar_alone_and_no_wildcard_retry() -> None:
    text = json.dumps(MACHINE)
    assert not re.search(r"\$(?![\w.])", text)  # the sandbox's JSONata refuses it
    assert "States.ALL" not in text
    assert "States.TaskFailed" not in text
