"""Bucket, machine, functions and outputs of the re-import: R1, R2, R3, R17, case-C03, case-C04."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.infra.conftest import Synthesis
from tests.infra.deployment import Deployment, Resource, arn

LOGS_KEY = arn("kms", "key/0a1b2c3d-0000-4000-8000-000000000002")
REIMPORT_KEY = arn("kms", "key/0a1b2c3d-0000-4000-8000-000000000001")


def bucket_of(deployment: Deployment, env: str = "dev") -> Resource:
    name = deployment.outputs(f"{env}-hawk-reimport")["EvalLogReimportBucketName"]
    (bucket,) = [b for b in deployment.of_type("AWS::S3::Bucket") if b.identity == name]
    return bucket


def statements_on(deployment: Deployment, bucket: Resource) -> list[dict[str, Any]]:
    policies = [p for p in deployment.of_type("AWS::S3::BucketPolicy") if p.properties["Bucket"] == bucket.identity]
    return [statement for policy in policies for statement in policy.properties["PolicyDocument"]["Statement"]]


def test_r1_the_machine_has_the_name_that_operators_know(deployment: Deployment, env: str) -> None:
    machine = deployment.the("AWS::StepFunctions::StateMachine").properties
    assert machine["StateMachineName"] == f"{env}-hawk-eval-log-reimport"
    assert machine.get("StateMachineType", "STANDARD") == "STANDARD"


def test_r2_the_reimport_stack_says_all_that_the_command_line_needs(deployment: Deployment, env: str) -> None:
    importer = f"{env}-hawk-eval-log-importer"
    outputs = deployment.outputs(f"{env}-hawk-reimport")
    plain = {
        "EvalLogReimportStateMachineArn": arn("states", f"stateMachine:{env}-hawk-eval-log-reimport"),
        "ImporterJobDefinitionName": importer,
        "ImporterSpotQueueArn": arn("batch", f"job-queue/{importer}-spot"),
        "ImporterOnDemandQueueArn": arn("batch", f"job-queue/{importer}-on-demand"),
        "SmallMaxBytes": "10485760",
        "SmallVcpu": "0.5",
        "SmallMemoryMib": "1024",
        "FullVcpu": "1",
        "FullMemoryMib": "2048",
    }
    made = {
        *("EvalLogReimportBucketName", "LogsBucketName", "ImporterLogGroupName", "ImporterDlqUrl"),
        *("UndeliveredEventsDlqUrl", "WarehouseSecretArn", "BuildListFunctionName", "ExtractResultsFunctionName"),
    }
    assert {name: outputs[name] for name in plain} == plain
    assert set(outputs) == set(plain) | made
    assert len({outputs[name] for name in made}) == len(made)
    assert outputs["BuildListFunctionName"] == deployment.function("build_list").identity
    assert outputs["ExtractResultsFunctionName"] == deployment.function("extract_results").identity


def test_r2_lists_and_results_are_gone_after_90_days_older_versions_too(deployment: Deployment, env: str) -> None:
    bucket = bucket_of(deployment, env)
    rules = bucket.properties["LifecycleConfiguration"]["Rules"]
    assert all(rule["Status"] == "Enabled" and not rule.get("Prefix") for rule in rules)
    assert [rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule] == [90]
    assert [r["NoncurrentVersionExpiration"] for r in rules if "NoncurrentVersionExpiration" in r] == [
        {"NoncurrentDays": 1}
    ]
    assert any(rule.get("ExpiredObjectDeleteMarker") for rule in rules)
    assert bucket.properties["VersioningConfiguration"] == {"Status": "Enabled"}


def test_r2_the_bucket_refuses_an_unconditional_write_below_lists(deployment: Deployment, env: str) -> None:
    bucket = bucket_of(deployment, env)
    (refusal,) = [s for s in statements_on(deployment, bucket) if s.get("Sid") == "ListsAreNeverOverwritten"]
    assert refusal == {
        "Sid": "ListsAreNeverOverwritten",
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket.identity}/lists/*",
        "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    }


def test_buckets_are_private_encrypted_and_reached_over_tls_only(deployment: Deployment) -> None:
    buckets = deployment.of_type("AWS::S3::Bucket")
    assert len(buckets) == 2
    for bucket in buckets:
        assert set(bucket.properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert "BucketName" not in bucket.properties
        denied = [
            s
            for s in statements_on(deployment, bucket)
            if s.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
        ]
        assert [(s["Effect"], s["Action"]) for s in denied] == [("Deny", "s3:*")]


def test_r2_the_reimport_bucket_tells_nobody_of_uploads(deployment: Deployment, env: str) -> None:
    assert "NotificationConfiguration" not in bucket_of(deployment, env).properties


@pytest.mark.parametrize("stage", [None, "Release"])
def test_c04_the_definition_names_bucket_and_prefix_of_the_results(synthesis: Synthesis, stage: str | None) -> None:
    deployment = synthesis.fresh("sandbox", stage=stage)
    machine = deployment.the("AWS::StepFunctions::StateMachine").properties
    writer = json.loads(machine["DefinitionString"])["States"]["Reimport"]["ResultWriter"]
    assert writer["Arguments"] == {"Bucket": "${Bucket}", "Prefix": "results"}
    (bucket,) = [b for b in deployment.of_type("AWS::S3::Bucket") if "LifecycleConfiguration" in b.properties]
    assert machine["DefinitionSubstitutions"]["Bucket"] == bucket.identity


def test_functions_get_the_environment_that_their_handlers_read(deployment: Deployment, env: str) -> None:
    outputs = deployment.outputs(f"{env}-hawk-reimport")
    tiers = {
        "SMALL_MAX_BYTES": "10485760",
        "SMALL_VCPU": "0.5",
        "SMALL_MEMORY_MIB": "1024",
        "FULL_VCPU": "1",
        "FULL_MEMORY_MIB": "2048",
    }
    name = outputs["ImporterJobDefinitionName"]
    bucket = outputs["EvalLogReimportBucketName"]
    expected = {
        "submit_import": {
            "JOB_QUEUE": outputs["ImporterSpotQueueArn"],
            "JOB_DEFINITION": name,
            "JOB_NAME": name,
            **tiers,
        },
        "extract_results": {
            "REIMPORT_BUCKET": bucket,
            "STATE_MACHINE_ARN": outputs["EvalLogReimportStateMachineArn"],
            **tiers,
        },
        "build_list": {
            "LOGS_BUCKET": outputs["LogsBucketName"],
            "REIMPORT_BUCKET": bucket,
            "SMALL_MAX_BYTES": tiers["SMALL_MAX_BYTES"],
        },
    }
    for handler, variables in expected.items():
        function = deployment.function(handler).properties
        assert function["Environment"]["Variables"] == {"POWERTOOLS_SERVICE_NAME": handler, **variables}
        assert function["Handler"] == "handler.handler"
        assert len(function["Layers"]) == 1


def test_c03_readers_and_writers_of_customer_keys_may_use_them(synthesis: Synthesis) -> None:
    keyed = synthesis("dev", logs_bucket_key_arn=LOGS_KEY, reimport_bucket_key_arn=REIMPORT_KEY)
    for bucket in keyed.of_type("AWS::S3::Bucket"):
        (rule,) = bucket.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        key = REIMPORT_KEY if bucket == bucket_of(keyed) else LOGS_KEY
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}

    def uses(role_arn: str) -> set[tuple[str, str]]:
        return {(action, resource) for action, resource, _ in keyed.grants_of(role_arn) if action.startswith("kms:")}

    container = keyed.the("AWS::Batch::JobDefinition").properties["ContainerProperties"]
    machine = keyed.the("AWS::StepFunctions::StateMachine").properties["RoleArn"]
    write = {("kms:Decrypt", REIMPORT_KEY), ("kms:GenerateDataKey", REIMPORT_KEY)}
    assert uses(container["JobRoleArn"]) == {("kms:Decrypt", LOGS_KEY)}
    assert uses(machine) == write
    assert uses(keyed.function("extract_results").properties["Role"]) == write
    assert uses(keyed.function("build_list").properties["Role"]) == write | {("kms:Decrypt", LOGS_KEY)}
    assert uses(keyed.function("submit_import").properties["Role"]) == set()


def test_c03_a_given_bucket_with_a_customer_key_can_be_read(synthesis: Synthesis) -> None:
    keyed = synthesis("sandbox", logs_bucket_name="example-logs", logs_bucket_key_arn=LOGS_KEY)
    container = keyed.the("AWS::Batch::JobDefinition").properties["ContainerProperties"]
    assert ("kms:Decrypt", LOGS_KEY, "") in keyed.grants_of(container["JobRoleArn"])
    assert ("s3:GetObject", "arn:aws:s3:::example-logs/evals/*", "") in keyed.grants_of(container["JobRoleArn"])
