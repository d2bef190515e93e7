"""Lambda functions as processes, seen through the API: invocations, time-outs, logs, retries, destinations (R18)."""

from __future__ import annotations

import base64
import io
import json
import time
import uuid
import zipfile
from typing import Any

import pytest

from tests.sandbox.conftest import Bare, until

HANDLER = """
import json, os, sys, time
import boto3, layered
calls = []

def handler(event, context):
    calls.append(1)
    print("called", json.dumps(event))
    sys.stderr.write("on stderr\\n")
    if event.get("fail"):
        raise ValueError("broken " + str(event["fail"]))
    if event.get("exit"):
        os._exit(3)
    time.sleep(event.get("sleep", 0))
    return {"calls": len(calls), "pid": os.getpid(), "layer": layered.NAME, "variable": os.environ["VARIABLE"],
            "name": context.function_name, "remaining": context.get_remaining_time_in_millis(),
            "id": context.aws_request_id,
            "endpoint": boto3.client("s3").meta.endpoint_url}
"""
GREEDY = """
def handler(event, context):
    found = []
    for name in ("click", "psycopg", "longhaul", "moto", "sandbox", "surroundings"):
        try:
            __import__(name)
            found.append(name)
        except ImportError:
            pass
    return found
"""


def archive(**files: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name.replace("__", "/") + ".py", text)
    return content.getvalue()


class Functions:
    def __init__(self, bare: Bare) -> None:
        self.bare, self.functions, self.logs = bare, bare.client("lambda"), bare.client("logs")
        document = {
            "Statement": [
                {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
            ]
        }
        self.role = bare.client("iam").create_role(
            RoleName=uuid.uuid4().hex, AssumeRolePolicyDocument=json.dumps(document)
        )["Role"]["Arn"]
        self.layer = self.functions.publish_layer_version(
            LayerName="layer", Content={"ZipFile": archive(python__layered="NAME = 'from the layer'")}
        )["LayerVersionArn"]

    def create(self, source: str = HANDLER, **more: Any) -> str:
        name = f"f-{uuid.uuid4().hex[:8]}"
        given = {
            "Runtime": "python3.13",
            "Role": self.role,
            "Handler": "handler.handler",
            "Code": {"ZipFile": archive(handler=source)},
            "Timeout": 5,
            "MemorySize": 256,
            "Environment": {"Variables": {"VARIABLE": "value"}},
            "Layers": [self.layer],
            **more,
        }
        self.functions.create_function(FunctionName=name, **given)
        return name

    def call(self, name: str, event: Any = None, **more: Any) -> tuple[dict[str, Any], Any]:
        answer = self.functions.invoke(FunctionName=name, Payload=json.dumps(event or {}), **more)
        payload = answer["Payload"].read()
        return answer, json.loads(payload) if payload else None

    def lines(self, name: str) -> list[str]:
        group = f"/aws/lambda/{name}"
        streams = self.logs.describe_log_streams(logGroupName=group)["logStreams"]
        return [
            event["message"]
            for stream in streams
            for event in self.logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
        ]

    def queue(self) -> tuple[str, str]:
        sqs = self.bare.client("sqs")
        url = sqs.create_queue(QueueName=uuid.uuid4().hex)["QueueUrl"]
        return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    def messages(self, url: str) -> list[dict[str, Any]]:
        received = self.bare.client("sqs").receive_message(
            QueueUrl=url, WaitTimeSeconds=1, MessageAttributeNames=["All"]
        )
        return list(received.get("Messages", []))


@pytest.fixture(scope="module")
def functions(bare: Bare) -> Functions:
    return Functions(bare)


@pytest.fixture(scope="module")
def name(functions: Functions) -> str:
    return functions.create()


def test_a_handler_runs_with_its_layer_variables_and_context(functions: Functions, name: str) -> None:
    answer, result = functions.call(name, {"a": "é"})
    assert answer["StatusCode"] == 200
    assert "FunctionError" not in answer
    assert (result["layer"], result["variable"], result["name"]) == ("from the layer", "value", name)
    assert result["endpoint"] == functions.bare.env["AWS_ENDPOINT_URL"]
    assert 0 < result["remaining"] <= 5000


def test_an_environment_is_used_again(functions: Functions, name: str) -> None:
    _, first = functions.call(name)
    _, second = functions.call(name)
    assert second["pid"] == first["pid"]
    assert second["calls"] == first["calls"] + 1


def test_only_asset_layers_and_the_sdk_can_be_imported(functions: Functions) -> None:
    """A library that is missing from the layer must be missing here, as on AWS."""
    _, found = functions.call(functions.create(GREEDY))
    assert found == []


def test_an_exception_is_an_unhandled_error_with_its_type(functions: Functions, name: str) -> None:
    """moto says Handled."""
    answer, error = functions.call(name, {"fail": "thing"})
    assert answer["FunctionError"] == "Unhandled"
    assert (error["errorType"], error["errorMessage"]) == ("ValueError", "broken thing")
    assert any("handler" in line for line in error["stackTrace"])


def test_a_time_out_ends_the_environment_and_the_next_call_gets_a_new_one(functions: Functions) -> None:
    name = functions.create(Timeout=1)
    _, before = functions.call(name)
    answer, error = functions.call(name, {"sleep": 30})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Sandbox.Timedout"
    assert error["errorMessage"].endswith("Task timed out after 1.00 seconds")
    _, after = functions.call(name)
    assert after["pid"] != before["pid"]
    assert any("Task timed out" in line for line in functions.lines(name))


def test_loading_the_module_is_not_the_invocations_time(functions: Functions) -> None:
    """The Init phase of Lambda has ten seconds of its own."""
    name = functions.create("import time; time.sleep(1.5)\ndef handler(event, context): return 5", Timeout=1)
    assert functions.call(name)[1] == 5


def test_a_process_that_ends_is_an_error(functions: Functions, name: str) -> None:
    answer, error = functions.call(name, {"exit": 1})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Runtime.ExitError"


def test_a_module_that_cannot_be_imported_is_an_error_of_the_call(functions: Functions) -> None:
    answer, error = functions.call(functions.create("import no_such_module"))
    assert answer["FunctionError"] == "Unhandled"
    assert "no_such_module" in error["errorMessage"]


def test_output_goes_to_the_log_group_and_its_tail_to_the_caller(functions: Functions, name: str) -> None:
    answer, result = functions.call(name, {"mark": 77}, LogType="Tail")
    tail = base64.b64decode(answer["LogResult"]).decode()
    lines = functions.lines(name)
    for text in (
        'called {"mark": 77}',
        "on stderr",
        f"START RequestId: {result['id']}",
        f"END RequestId: {result['id']}",
    ):
        assert text in tail
        assert any(line.startswith(text) for line in lines)
    assert any(line.startswith(f"REPORT RequestId: {result['id']}") for line in lines)


def test_new_code_runs_at_once(functions: Functions) -> None:
    name = functions.create("def handler(event, context): return 1")
    assert functions.call(name)[1] == 1
    functions.functions.update_function_code(
        FunctionName=name, ZipFile=archive(handler="def handler(event, context): return 2")
    )
    assert functions.call(name)[1] == 2


def test_an_asynchronous_call_is_accepted_at_once_and_tried_three_times(functions: Functions) -> None:
    """moto runs it once, in the request of the caller, who then gets its error."""
    name = functions.create()
    url, arn = functions.queue()
    functions.functions.put_function_event_invoke_config(
        FunctionName=name, DestinationConfig={"OnFailure": {"Destination": arn}}
    )
    answer, payload = functions.call(name, {"fail": "always"}, InvocationType="Event")
    assert (answer["StatusCode"], payload) == (202, None)
    [message] = until(lambda: functions.messages(url))
    record = json.loads(message["Body"])
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["requestContext"]["approximateInvokeCount"] == 3
    assert record["requestPayload"] == {"fail": "always"}
    assert record["responsePayload"]["errorMessage"] == "broken always"
    assert record["responseContext"]["functionError"] == "Unhandled"
    assert sum(line.startswith("called") for line in functions.lines(name)) == 3
    began = time.monotonic()
    functions.call(name, {"sleep": 10}, InvocationType="Event")
    assert time.monotonic() - began < 10, "it waited for the function"


def test_retries_of_an_asynchronous_call_can_be_switched_off_and_success_has_a_destination(
    functions: Functions,
) -> None:
    name = functions.create()
    url, arn = functions.queue()
    functions.functions.put_function_event_invoke_config(
        FunctionName=name,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": arn}, "OnSuccess": {"Destination": arn}},
    )
    functions.call(name, {"fail": 1}, InvocationType="Event")
    [message] = until(lambda: functions.messages(url))
    assert json.loads(message["Body"])["requestContext"]["approximateInvokeCount"] == 1
    functions.call(name, {}, InvocationType="Event")
    found = until(lambda: [m for m in functions.messages(url) if '"Success"' in m["Body"]])
    assert json.loads(found[0]["Body"])["responsePayload"]["layer"] == "from the layer"


def test_an_event_rule_calls_a_function(functions: Functions, name: str) -> None:
    events = functions.bare.client("events")
    arn = functions.functions.get_function(FunctionName=name)["Configuration"]["FunctionArn"]
    rule = f"r-{uuid.uuid4().hex[:8]}"
    events.put_rule(Name=rule, EventPattern=json.dumps({"source": [rule]}))
    events.put_targets(Rule=rule, Targets=[{"Id": "1", "Arn": arn}])
    events.put_events(Entries=[{"Source": rule, "DetailType": "T", "Detail": json.dumps({"key": "x"})}])
    until(lambda: any(line.startswith("called") and rule in line for line in functions.lines(name)))
