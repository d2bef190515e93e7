"""Queues, job definition and buckets of the importer: R4, R5, R14, case-C08."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.conftest import Synthesis
from tests.infra.deployment import REGION, Deployment, arn


def test_r4_queues_and_job_definition_have_the_names_that_operators_know(deployment: Deployment, env: str) -> None:
    name = f"{env}-hawk-eval-log-importer"
    assert {queue.properties["JobQueueName"] for queue in deployment.of_type("AWS::Batch::JobQueue")} == {
        f"{name}-spot",
        f"{name}-on-demand",
    }
    assert deployment.the("AWS::Batch::JobDefinition").properties["JobDefinitionName"] == name


@pytest.mark.parametrize(("queue", "capacity"), [("spot", "FARGATE_SPOT"), ("on-demand", "FARGATE")])
def test_r4_each_queue_runs_on_its_kind_of_fargate(dev: Deployment, queue: str, capacity: str) -> None:
    found = dev.the("AWS::Batch::JobQueue", JobQueueName=f"dev-hawk-eval-log-importer-{queue}")
    (order,) = found.raw["Properties"]["ComputeEnvironmentOrder"]
    (name,) = {order["ComputeEnvironment"]["Fn::GetAtt"][0]}
    (environment,) = [e for e in dev.of_type("AWS::Batch::ComputeEnvironment") if e.id == name]
    assert environment.properties["ComputeResources"]["Type"] == capacity


def test_c08_compute_environments_have_no_name_and_can_be_replaced(deployment: Deployment) -> None:
    environments = deployment.of_type("AWS::Batch::ComputeEnvironment")
    assert len(environments) == 2
    assert all("ComputeEnvironmentName" not in environment.properties for environment in environments)


def test_r4_one_log_group_for_all_importer_jobs_with_retention(deployment: Deployment, env: str) -> None:
    log = _container(deployment)["LogConfiguration"]
    assert log["LogDriver"] == "awslogs"
    assert log["Options"]["awslogs-group"] == deployment.outputs(f"{env}-hawk-reimport")["ImporterLogGroupName"]
    days = {"dev": 30, "stg": 90, "prd": 365, "sandbox": 7}[env]
    groups = deployment.of_type("AWS::Logs::LogGroup")
    assert len(groups) >= 4
    assert {group.properties["RetentionInDays"] for group in groups} == {days}


def test_r4_credentials_reach_the_job_through_secrets_only(dev: Deployment) -> None:
    secret = dev.outputs("dev-hawk-reimport")["WarehouseSecretArn"]
    container = _container(dev)
    assert {entry["Name"]: entry["ValueFrom"] for entry in container["Secrets"]} == {
        "PGHOST": f"{secret}:host::",
        "PGPORT": f"{secret}:port::",
        "PGUSER": f"{secret}:username::",
        "PGPASSWORD": f"{secret}:password::",
        "PGDATABASE": f"{secret}:dbname::",
    }
    assert container["Command"] == ["python", "-m", "longhaul.importer"]
    assert not container.get("Environment")


def test_r5_the_definition_is_of_the_full_size_and_has_the_spool(synthesis: Synthesis) -> None:
    container = _container(synthesis("sandbox"))
    assert _size(container) == {"VCPU": "1", "MEMORY": "2048"}
    assert container["EphemeralStorage"] == {"SizeInGiB": 50}
    assert container["NetworkConfiguration"] == {"AssignPublicIp": "DISABLED"}
    changed = _container(synthesis("sandbox", full_vcpu="4", full_memory_mib="8192", ephemeral_storage_gib="200"))
    assert _size(changed) == {"VCPU": "4", "MEMORY": "8192"}
    assert changed["EphemeralStorage"] == {"SizeInGiB": 200}


def test_r14_batch_gives_up_at_once_on_what_cannot_get_better(dev: Deployment) -> None:
    strategy = dev.the("AWS::Batch::JobDefinition").properties["RetryStrategy"]
    assert strategy == {
        "Attempts": 3,
        "EvaluateOnExit": [
            {"Action": "EXIT", "OnStatusReason": "Your Spot Task was interrupted*"},
            {"Action": "EXIT", "OnReason": "OutOfMemoryError*"},
            {"Action": "EXIT", "OnExitCode": "1*"},
            {"Action": "EXIT", "OnExitCode": "2"},
        ],
    }


@pytest.mark.parametrize(
    ("exit_code", "status_reason", "reason", "again"),
    [
        (1, None, None, False),
        *((code, None, None, False) for code in (2, 10, 11, 12, 137, 143)),
        *((code, None, None, True) for code in (20, 21, 3)),
        (None, "CannotPullContainerError: image not found", None, True),
        (None, "Your Spot Task was interrupted.", None, False),
        (137, None, "OutOfMemoryError: Container killed due to memory usage", False),
    ],
)
def test_r14_which_failures_batch_tries_again(
    dev: Deployment, exit_code: int | None, status_reason: str | None, reason: str | None, again: bool
) -> None:
    facts = {"OnExitCode": exit_code, "OnStatusReason": status_reason, "OnReason": reason}
    rules = dev.the("AWS::Batch::JobDefinition").properties["RetryStrategy"]["EvaluateOnExit"]
    first = next(
        (rule["Action"] for rule in rules if all(_glob(rule[k], v) for k, v in facts.items() if k in rule)), None
    )
    assert (first != "EXIT") is again


def test_r6_a_created_logs_bucket_tells_eventbridge_and_keeps_its_objects(dev: Deployment) -> None:
    bucket = dev.outputs("dev-hawk-reimport")["LogsBucketName"]
    (found,) = [b for b in dev.of_type("AWS::S3::Bucket") if b.identity == bucket]
    told = found.properties["NotificationConfiguration"]["EventBridgeConfiguration"]["EventBridgeEnabled"]
    assert told is True
    assert "LifecycleConfiguration" not in found.properties
    assert found.raw["DeletionPolicy"] == "Retain"


def test_no_custom_resource_and_no_look_up(deployment: Deployment) -> None:
    types = {resource.type for resource in deployment.resources}
    assert not [type_ for type_ in types if type_.startswith("Custom::") or "CustomResource" in type_]
    assert len(deployment.of_type("AWS::Lambda::Function")) == 3


def test_given_network_logs_bucket_warehouse_and_image_are_used_as_they_are(synthesis: Synthesis) -> None:
    secret = arn("secretsmanager", "secret:warehouse-AbCdEf")
    given = synthesis(
        "prd",
        project="orca",
        vpc_id="vpc-0a1b2c3d4e5f60718",
        subnet_ids="subnet-0a1b2c3d4e5f60718, subnet-1a1b2c3d4e5f60718",
        security_group_ids="sg-0a1b2c3d4e5f60718",
        logs_bucket_name="example-logs",
        warehouse_secret_arn=secret,
        image="team/importer:2025.6",
    )
    created = {resource.type for resource in given.resources}
    assert not {t for t in created if t.startswith(("AWS::EC2", "AWS::RDS", "AWS::SecretsManager"))}
    assert len(given.of_type("AWS::S3::Bucket")) == 1
    for environment in given.of_type("AWS::Batch::ComputeEnvironment"):
        resources = environment.properties["ComputeResources"]
        assert resources["Subnets"] == ["subnet-0a1b2c3d4e5f60718", "subnet-1a1b2c3d4e5f60718"]
        assert resources["SecurityGroupIds"] == ["sg-0a1b2c3d4e5f60718"]
    container = _container(given)
    assert container["Image"].endswith(f".dkr.ecr.{REGION}.amazonaws.com/team/importer:2025.6")
    assert container["Secrets"][0]["ValueFrom"].startswith(f"{secret}:")
    outputs = given.outputs("prd-orca-reimport")
    assert outputs["LogsBucketName"] == "example-logs"
    assert outputs["ImporterJobDefinitionName"] == "prd-orca-eval-log-importer"


def test_a_created_warehouse_in_a_given_network_admits_its_security_groups(synthesis: Synthesis) -> None:
    given = synthesis.fresh(
        "dev",
        checked=True,
        vpc_id="vpc-0a1b2c3d4e5f60718",
        subnet_ids="subnet-0a1b2c3d4e5f60718,subnet-1a1b2c3d4e5f60718",
        security_group_ids="sg-0a1b2c3d4e5f60718,sg-1a1b2c3d4e5f60718",
    )
    rules = given.of_type("AWS::EC2::SecurityGroupIngress")
    assert {rule.properties["SourceSecurityGroupId"] for rule in rules} == {
        "sg-0a1b2c3d4e5f60718",
        "sg-1a1b2c3d4e5f60718",
    }
    subnets = given.the("AWS::RDS::DBSubnetGroup").properties["SubnetIds"]
    assert subnets == ["subnet-0a1b2c3d4e5f60718", "subnet-1a1b2c3d4e5f60718"]


def test_a_created_warehouse_is_encrypted_private_and_observable(synthesis: Synthesis) -> None:
    for env, protected in (("dev", False), ("prd", True)):
        found = synthesis(env)
        cluster = found.the("AWS::RDS::DBCluster").properties
        assert cluster["StorageEncrypted"] is True
        assert cluster["DeletionProtection"] is protected
        assert cluster["PerformanceInsightsEnabled"] is True
        (writer,) = found.of_type("AWS::RDS::DBInstance")
        assert not writer.properties.get("PubliclyAccessible")
        rules = found.of_type("AWS::EC2::SecurityGroupIngress")
        assert all("CidrIp" not in rule.properties and "SourceSecurityGroupId" in rule.properties for rule in rules)
        assert len(rules) == 1


def _container(deployment: Deployment) -> dict[str, Any]:
    return dict(deployment.the("AWS::Batch::JobDefinition").properties["ContainerProperties"])


def _size(container: dict[str, Any]) -> dict[str, str]:
    return {entry["Type"]: entry["Value"] for entry in container["ResourceRequirements"]}


def _glob(pattern: str, value: object) -> bool:
    """Batch's patterns: a `*` at the end, nowhere else."""
    text = "" if value is None else str(value)
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern
