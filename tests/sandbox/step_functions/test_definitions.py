"""What may be created, by API and by CloudFormation, and the definition that is deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.step_functions.machines import definition_text

from .conftest import ACCOUNT, BUCKET, MACHINE, Jobs, Machine, client, definition, keys

DEPLOYED = Path(__file__).parents[3] / "state_machines" / "reimport.asl.json"
READER: dict[str, Any] = definition()["States"]["Reimport"]["ItemReader"]
VALUES = {
    "Bucket": BUCKET,
    "LogsBucket": "logs",
    "JobName": "sandbox-hawk-eval-log-reimport",
    "JobQueueArn": "queue",
    "JobDefinitionName": "definition",
    "SmallMaxBytes": "1000",
    "SmallVcpu": "0.5",
    "SmallMemoryMib": "1024",
    "FullVcpu": "2",
    "FullMemoryMib": "4096",
}


def broken(**change: Any) -> dict[str, Any]:
    tree = definition()
    tree["States"]["Reimport"].update(change)
    return tree


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({}, "JSONata"),
        ({**definition(), "QueryLanguage": "JSONPath"}, "JSONata"),
        ({**definition(), "StartAt": "None"}, "no state named"),
        ({**definition(), "States": {}}, "at least one state"),
        (broken(Next="Nowhere", End=False), "no state named"),
        (broken(ItemsPath="$"), "ItemsPath"),
        (broken(Type="Parallel"), "does not run"),
        (broken(MaxConcurrency="{% 1 + %}"), "not JSONata"),
        (broken(Label="a b"), "Label"),
        (broken(ItemReader={**READER, "ReaderConfig": {"InputType": "JSON", "MaxItems": 3}}), "ReaderConfig"),
        (broken(ItemReader={**READER, "Arguments": {"Bucket": "b", "Key": "k", "VersionId": "v"}}), "Arguments"),
        (broken(ItemReader={**READER, "Resource": "arn:aws:states:::s3:listObjectsV2"}), "s3:getObject"),
        (broken(ResultWriter={"Resource": "arn:aws:states:::s3:putObject", "WriterConfig": {}}), "ResultWriter"),
        (broken(ItemProcessor={"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": "A", "States": {}}), "DISTRIBUTED"),
        ({**definition(), "States": {"Defaults": {"Type": "Pass"}}}, "Next or End"),
        (
            definition({"StartAt": "L", "States": {"L": {"Type": "Task", "Resource": "arn:x", "End": True}}}),
            "batch:submitJob",
        ),
    ],
)
def test_definitions_that_are_refused_when_created(machine: Machine, tree: dict[str, Any], says: str) -> None:
    """moto takes them and fails, or does something else, when they run."""
    for call in (
        lambda text: machine.sfn.create_state_machine(
            name="x", definition=text, roleArn="arn:aws:iam::123456789012:role/r"
        ),
        lambda text: machine.sfn.update_state_machine(stateMachineArn=machine.arn, definition=text),
    ):
        with pytest.raises(machine.sfn.exceptions.InvalidDefinition, match=says):
            call(json.dumps(tree))


def test_cloudformation_fills_the_backend_that_executes(jobs: Jobs) -> None:
    """moto fills one that does not. Substitutions are escaped; an update reaches new executions only."""
    machine, cfn = Machine(), client("cloudformation")

    def template(error: str) -> str:
        text = {
            "QueryLanguage": "JSONata",
            "StartAt": "F",
            "States": {"F": {"Type": "Fail", "Error": "${E}", "Cause": "${K}"}},
        }
        properties = {
            "StateMachineName": MACHINE,
            "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/machine",
            "DefinitionString": json.dumps(text),
            "DefinitionSubstitutions": {"E": error, "K": 'quo"te\\'},
        }
        outputs = {"Arn": {"Value": {"Ref": "M"}}, "Got": {"Value": {"Fn::GetAtt": ["M", "Arn"]}}}
        resources = {"M": {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}}
        return json.dumps({"Resources": resources, "Outputs": outputs})

    def ended() -> dict[str, Any]:
        arn = machine.sfn.start_execution(stateMachineArn=machine.arn, input="{}")["executionArn"]
        return machine.ended(arn)

    cfn.create_stack(StackName="s", TemplateBody=template("First"))
    outputs = {o["OutputKey"]: o["OutputValue"] for o in cfn.describe_stacks()["Stacks"][0]["Outputs"]}
    assert outputs == {"Arn": machine.arn, "Got": machine.arn}
    assert (ended()["error"], ended()["cause"]) == ("First", 'quo"te\\')
    cfn.update_stack(StackName="s", TemplateBody=template("Second"))
    assert ended()["error"] == "Second"


def test_a_definition_from_s3() -> None:
    machine = Machine()
    machine.s3.put_object(Bucket=BUCKET, Key="d.json", Body=b'{"a": "${X}", "b": "${AWS::Region}"}')
    location = {"DefinitionS3Location": {"Bucket": BUCKET, "Key": "d.json"}, "DefinitionSubstitutions": {"X": 5}}
    assert definition_text(location, ACCOUNT, "us-east-1") == '{"a": "5", "b": "${AWS::Region}"}'


@pytest.fixture
def deployed(jobs: Jobs) -> Machine:
    properties = {"DefinitionString": DEPLOYED.read_text(), "DefinitionSubstitutions": VALUES}
    return Machine().create(json.loads(definition_text(properties, ACCOUNT, "us-east-1")))


def test_the_deployed_machine_runs(deployed: Machine, jobs: Jobs) -> None:
    arn = deployed.start([*keys(2), {"key": "evals/large.eval", "size": 1001}, {"key": "evals/unknown.eval"}])
    ended = deployed.ended(arn)
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    sizes = {
        job.key: [one["value"] for one in job.given["container_overrides"]["resourceRequirements"]] for job in jobs.all
    }
    small, full = ["0.5", "1024"], ["2", "4096"]
    assert sizes == {
        "evals/set/000.eval": small,
        "evals/set/001.eval": small,
        "evals/large.eval": full,
        "evals/unknown.eval": full,
    }


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"list_key": 5}, "list_key"),
        ({"list_key": "other/x.json"}, "other/x.json"),
        ({"max_concurrency": 33}, "33"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_concurrency": "8"}, "max_concurrency"),
        ({"max_concurrency": 1.5}, "1.5"),
        ({"max_concurrency": None}, "max_concurrency"),
        ({"tolerated_failure_percentage": 101}, "101"),
        ({"maxConcurrency": 8}, "maxConcurrency"),
    ],
)
def test_the_deployed_machine_refuses_input(deployed: Machine, jobs: Jobs, fields: dict[str, Any], says: str) -> None:
    """R10: before any job, naming field and value; held here so that the interpreter agrees with the definition."""
    text = json.dumps({"list_key": deployed.put_list(keys(1)), **fields})
    ended = deployed.ended(deployed.sfn.start_execution(stateMachineArn=deployed.arn, input=text)["executionArn"])
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidInput")
    assert says in ended["cause"]
    assert not jobs.all
    assert not deployed.map_run(ended["executionArn"])


def test_a_machine_without_definition_is_refused(machine: Machine) -> None:
    with pytest.raises(ClientError, match="INVALID_JSON"):
        machine.sfn.create_state_machine(name="x", definition="{", roleArn=f"arn:aws:iam::{ACCOUNT}:role/r")
