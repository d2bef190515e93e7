"""CloudFormation: what it cannot carry out is refused by name, what the stacks say is really there (R2, R4–R6)."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox import cloudformation_coverage
from tests.sandbox.conftest import Bare, Sandbox, until
from tests.sandbox.test_functions import HANDLER, archive


def template(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def test_unknown_types_and_properties_are_named() -> None:
    found = cloudformation_coverage.faults(
        template(
            Table={"Type": "AWS::DynamoDB::Table", "Properties": {}},
            Bucket={"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "b", "ReplicationConfiguration": {}}},
            Fine={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "q", "SqsManagedSseEnabled": True}},
        )
    )
    assert len(found) == 2
    assert "AWS::DynamoDB::Table" in found[0]
    assert "ReplicationConfiguration" in found[1]


class Formation:
    def __init__(self, bare: Bare) -> None:
        self.bare, self.formation = bare, bare.client("cloudformation")
        self.name = f"s-{uuid.uuid4().hex[:8]}"

    def create(self, document: dict[str, Any]) -> dict[str, str]:
        self.formation.create_stack(StackName=self.name, TemplateBody=json.dumps(document))
        return self.resources()

    def update(self, document: dict[str, Any]) -> dict[str, str]:
        self.formation.update_stack(StackName=self.name, TemplateBody=json.dumps(document))
        return self.resources()

    def resources(self) -> dict[str, str]:
        pages = self.formation.get_paginator("list_stack_resources").paginate(StackName=self.name)
        return {
            one["LogicalResourceId"]: one["PhysicalResourceId"]
            for page in pages
            for one in page["StackResourceSummaries"]
        }


@pytest.fixture
def stack(bare: Bare) -> Formation:
    return Formation(bare)


def test_a_stack_that_would_lose_something_is_refused_whole(stack: Formation) -> None:
    document = template(
        Queue={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": stack.name}},
        Topic={"Type": "AWS::SNS::Topic", "Properties": {}},
    )
    with pytest.raises(ClientError, match="Topic: the sandbox does not know the resource type AWS::SNS::Topic"):
        stack.create(document)
    with pytest.raises(ClientError):
        stack.bare.client("sqs").get_queue_url(QueueName=stack.name)


def test_a_bucket_keeps_all_that_its_template_says(stack: Formation) -> None:
    """moto keeps encryption and tags only."""
    rules = [
        {
            "Id": "old",
            "Status": "Enabled",
            "ExpirationInDays": 90,
            "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
        },
        {"Status": "Enabled", "ExpiredObjectDeleteMarker": True},
        {"Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}, "Prefix": "lists/"},
    ]
    properties = {
        "LifecycleConfiguration": {"Rules": rules},
        "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
        "VersioningConfiguration": {"Status": "Enabled"},
        "PublicAccessBlockConfiguration": dict.fromkeys(
            ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True
        ),
        "Tags": [{"Key": "a", "Value": "b"}],
    }
    document = template(Bucket={"Type": "AWS::S3::Bucket", "Properties": properties})
    name = stack.create(document)["Bucket"]
    s3 = stack.bare.client("s3")
    found = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
    assert found[0]["Expiration"] == {"Days": 90}
    assert found[0]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
    assert found[1]["Expiration"] == {"ExpiredObjectDeleteMarker": True}
    assert found[2]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert found[2]["Filter"] == {"Prefix": "lists/"}
    assert s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    assert "EventBridgeConfiguration" in s3.get_bucket_notification_configuration(Bucket=name)
    assert s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]["BlockPublicAcls"]
    rules[0]["ExpirationInDays"] = 30
    assert stack.update(document)["Bucket"] == name  # moto: a KeyError for a bucket with tags and no name
    assert s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"][0]["Expiration"] == {"Days": 30}


@pytest.mark.parametrize("configuration", [{"QueueConfigurations": []}, {"LambdaConfigurations": []}])
def test_other_notifications_are_refused(stack: Formation, configuration: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match="EventBridge only"):
        stack.create(
            template(Bucket={"Type": "AWS::S3::Bucket", "Properties": {"NotificationConfiguration": configuration}})
        )


def test_a_job_definition_loses_nothing_and_an_update_is_a_new_revision(stack: Formation) -> None:
    """moto loses Timeout and PlatformCapabilities, makes [] of "", and ignores updates (batch/models.py)."""
    container = {
        "Image": "importer:1",
        "Command": ["python", "-m", "longhaul.importer"],
        "Environment": [{"Name": "A", "Value": "b"}],
        "ResourceRequirements": [{"Type": "VCPU", "Value": "2"}, {"Type": "MEMORY", "Value": "4096"}],
        "Secrets": [{"Name": "PGHOST", "ValueFrom": "arn:s:host::"}],
        "LogConfiguration": {
            "LogDriver": "awslogs",
            "Options": {"awslogs-group": "G", "awslogs-stream-prefix": "importer"},
        },
        "EphemeralStorage": {"SizeInGiB": 50},
        "User": "",
    }
    properties = {
        "JobDefinitionName": stack.name,
        "Type": "container",
        "ContainerProperties": container,
        "PlatformCapabilities": ["FARGATE"],
        "RetryStrategy": {"Attempts": 3, "EvaluateOnExit": [{"Action": "EXIT", "OnExitCode": "1*"}]},
        "Timeout": {"AttemptDurationSeconds": 3600},
    }
    document = template(Definition={"Type": "AWS::Batch::JobDefinition", "Properties": properties})
    document["Outputs"] = {"Arn": {"Value": {"Ref": "Definition"}}}
    first = stack.create(document)["Definition"]
    batch = stack.bare.client("batch")
    [found] = batch.describe_job_definitions(jobDefinitions=[first])["jobDefinitions"]
    assert found["timeout"] == {"attemptDurationSeconds": 3600}
    assert found["platformCapabilities"] == ["FARGATE"]
    assert found["retryStrategy"]["evaluateOnExit"] == [{"action": "EXIT", "onExitCode": "1*"}]
    made = found["containerProperties"]
    assert made["logConfiguration"]["options"] == {"awslogs-group": "G", "awslogs-stream-prefix": "importer"}
    assert made["secrets"] == [{"name": "PGHOST", "valueFrom": "arn:s:host::"}]
    assert (made["ephemeralStorage"], made["user"]) == ({"sizeInGiB": 50}, "")
    container["Image"] = "importer:2"
    second = stack.update(document)["Definition"]
    assert (first.rsplit(":", 1)[1], second.rsplit(":", 1)[1]) == ("1", "2")
    by_status = {
        d["status"]: d["revision"]
        for d in batch.describe_job_definitions(jobDefinitionName=stack.name)["jobDefinitions"]
    }
    assert by_status == {"INACTIVE": 1, "ACTIVE": 2}


def test_a_function_keeps_layers_log_group_and_dead_letter_queue(stack: Formation) -> None:
    """moto loses all three."""
    bare = stack.bare
    s3 = bare.client("s3")
    s3.create_bucket(Bucket=stack.name)
    s3.put_object(Bucket=stack.name, Key="code", Body=archive(handler=HANDLER))
    s3.put_object(Bucket=stack.name, Key="layer", Body=archive(python__layered="NAME = 'stack'"))
    document = template(
        Dead={"Type": "AWS::SQS::Queue", "Properties": {}},
        Logs={"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 7}},
        Role={"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [
            {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}]}}},
        Layer={"Type": "AWS::Lambda::LayerVersion", "Properties": {
            "Content": {"S3Bucket": stack.name, "S3Key": "layer"}}},
        Function={"Type": "AWS::Lambda::Function", "Properties": {
            "Code": {"S3Bucket": stack.name, "S3Key": "code"}, "Handler": "handler.handler", "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]}, "Layers": [{"Ref": "Layer"}], "Timeout": 5, "MemorySize": 256,
            "Environment": {"Variables": {"VARIABLE": "v"}}, "LoggingConfig": {"LogGroup": {"Ref": "Logs"}},
            "DeadLetterConfig": {"TargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}}}},
        Retries={"Type": "AWS::Lambda::EventInvokeConfig", "Properties": {
            "FunctionName": {"Ref": "Function"}, "Qualifier": "$LATEST", "MaximumRetryAttempts": 0}},
    )  # fmt: skip
    made = stack.create(document)
    functions = bare.client("lambda")
    result = json.load(functions.invoke(FunctionName=made["Function"], Payload=b"{}")["Payload"])
    assert (result["layer"], result["variable"]) == ("stack", "v")
    logs = bare.client("logs")
    assert logs.describe_log_streams(logGroupName=made["Logs"])["logStreams"]
    functions.invoke(FunctionName=made["Function"], Payload=b'{"fail": "once"}', InvocationType="Event")
    sqs = bare.client("sqs")
    [message] = until(
        lambda: sqs.receive_message(QueueUrl=made["Dead"], MessageAttributeNames=["All"], WaitTimeSeconds=1).get(
            "Messages"
        )
    )
    assert json.loads(message["Body"]) == {"fail": "once"}
    assert message["MessageAttributes"]["ErrorMessage"]["StringValue"] == "broken once"
    document["Resources"]["Logs"]["Properties"]["RetentionInDays"] = 30
    document["Resources"]["Layer"]["Properties"]["Description"] = "changed"
    again = stack.update(document)
    assert again["Layer"] != made["Layer"]
    [group] = logs.describe_log_groups(logGroupNamePrefix=made["Logs"])["logGroups"]
    assert group["retentionInDays"] == 30


def test_policies_of_buckets_and_queues_and_generated_secrets_are_there(stack: Formation) -> None:
    """moto knows none of these types."""
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}],
    }
    document = template(
        Bucket={"Type": "AWS::S3::Bucket", "Properties": {}},
        BucketPolicy={"Type": "AWS::S3::BucketPolicy", "Properties": {
            "Bucket": {"Ref": "Bucket"}, "PolicyDocument": policy}},
        Queue={"Type": "AWS::SQS::Queue", "Properties": {}},
        QueuePolicy={"Type": "AWS::SQS::QueuePolicy", "Properties": {
            "Queues": [{"Ref": "Queue"}], "PolicyDocument": policy}},
        Secret={"Type": "AWS::SecretsManager::Secret", "Properties": {
            "GenerateSecretString": {"SecretStringTemplate": '{"username": "u"}', "GenerateStringKey": "password"}}},
    )  # fmt: skip
    made, bare = stack.create(document), stack.bare
    assert json.loads(bare.client("s3").get_bucket_policy(Bucket=made["Bucket"])["Policy"]) == policy
    attributes = bare.client("sqs").get_queue_attributes(QueueUrl=made["Queue"], AttributeNames=["Policy"])[
        "Attributes"
    ]
    assert json.loads(attributes["Policy"]) == policy
    value = json.loads(bare.client("secretsmanager").get_secret_value(SecretId=made["Secret"])["SecretString"])
    assert value["username"] == "u"
    assert len(value["password"]) == 32


# ---- the very stacks -------------------------------------------------------------------------------------------------
def test_everything_of_the_real_templates_is_deployed(sandbox: Sandbox) -> None:
    """The CDK once reported success on a stack that was half made: `up` looks, and so does this."""
    assembly = sandbox.folder / "cdk.out"
    formation = sandbox.client("cloudformation")
    for path in sorted(assembly.glob("*.template.json")):
        document = json.loads(path.read_text())
        name = path.name.removesuffix(".template.json")
        pages = formation.get_paginator("list_stack_resources").paginate(StackName=name)
        made = {one["LogicalResourceId"]: one for page in pages for one in page["StackResourceSummaries"]}
        assert set(document["Resources"]) == set(made)
        assert cloudformation_coverage.faults(document) == []


def test_r4_the_deployed_job_definition_is_the_stacks(sandbox: Sandbox) -> None:
    batch = sandbox.client("batch")
    name = sandbox.outputs["ImporterJobDefinitionName"]
    [found] = batch.describe_job_definitions(jobDefinitionName=name, status="ACTIVE")["jobDefinitions"]
    assert found["retryStrategy"]["attempts"] == 3
    assert [next(iter(rule)) for rule in found["retryStrategy"]["evaluateOnExit"]] == [
        "onStatusReason",
        "onReason",
        "onExitCode",
        "onExitCode",
    ]
    container = found["containerProperties"]
    assert {s["name"] for s in container["secrets"]} == {"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"}
    assert container["logConfiguration"]["options"]["awslogs-group"] == sandbox.outputs["ImporterLogGroupName"]
    assert found["timeout"]["attemptDurationSeconds"] > 0
    queues = {q["jobQueueArn"]: q for q in batch.describe_job_queues()["jobQueues"]}
    for output, kind in (("ImporterSpotQueueArn", "FARGATE_SPOT"), ("ImporterOnDemandQueueArn", "FARGATE")):
        [order] = queues[sandbox.outputs[output]]["computeEnvironmentOrder"]
        [environment] = batch.describe_compute_environments(computeEnvironments=[order["computeEnvironment"]])[
            "computeEnvironments"
        ]
        assert environment["computeResources"]["type"] == kind


def test_r2_the_deployed_bucket_refuses_an_unconditional_list(sandbox: Sandbox) -> None:
    s3, bucket = sandbox.client("s3"), sandbox.outputs["EvalLogReimportBucketName"]
    key = f"lists/{uuid.uuid4().hex}.json"
    with pytest.raises(ClientError) as caught:
        s3.put_object(Bucket=bucket, Key=key, Body=b"[]")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    s3.put_object(Bucket=bucket, Key=key, Body=b"[]", IfNoneMatch="*")
    s3.put_object(Bucket=bucket, Key=f"results/{uuid.uuid4().hex}", Body=b"{}")


def test_r6a_an_upload_becomes_a_job_on_the_spot_queue_and_a_failure_a_dead_letter(sandbox: Sandbox) -> None:
    """Bucket → EventBridge → Lambda from its asset → Batch → EventBridge → DLQ, all of it deployed by the stacks."""
    s3, batch, sqs = (sandbox.client(name) for name in ("s3", "batch", "sqs"))
    key = f"evals/{uuid.uuid4().hex} +%20é/damaged.eval"
    s3.put_object(Bucket=sandbox.outputs["LogsBucketName"], Key=key, Body=b"this is no log")
    url, seen = sandbox.outputs["ImporterDlqUrl"], []  # type: tuple[str, list[dict[str, Any]]]

    def dead() -> list[dict[str, Any]]:
        received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=5)
        seen.extend(json.loads(message["Body"]) for message in received.get("Messages", []))
        return [one["detail"] for one in seen if key in one["detail"]["container"]["command"]]

    detail = until(dead, 60)[0]
    assert detail["jobQueue"] == sandbox.outputs["ImporterSpotQueueArn"]
    assert detail["status"] == "FAILED"
    assert (
        batch.describe_jobs(jobs=[detail["jobId"]])["jobs"][0]["container"]["command"] == detail["container"]["command"]
    )
