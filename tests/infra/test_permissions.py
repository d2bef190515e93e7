"""Who may do what: R1, R27, case-C07."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

from tests.infra.conftest import Synthesis
from tests.infra.deployment import Deployment, arn

KEY = arn("kms", "key/0a1b2c3d-0000-4000-8000-000000000001")


def machine_grants(env: str, bucket: str) -> set[tuple[str, str, str]]:
    """R27, line by line."""
    machine, definition = f"{env}-hawk-eval-log-reimport", f"{env}-hawk-eval-log-importer"
    executions, children = arn("states", f"execution:{machine}:*"), arn("states", f"execution:{machine}/Reimport:*")
    own_jobs = json.dumps({"StringLike": {"aws:ResourceTag/longhaul:execution": executions}})
    submit_to = (
        arn("batch", f"job-queue/{definition}-on-demand"),
        arn("batch", f"job-definition/{definition}"),
        arn("batch", f"job-definition/{definition}:*"),
    )
    rule = arn("events", "rule/StepFunctionsGetEventsForBatchJobsRule")
    lists, results = f"arn:aws:s3:::{bucket}/lists/*", f"arn:aws:s3:::{bucket}/results/*"
    return {
        ("states:StartExecution", arn("states", f"stateMachine:{machine}"), ""),
        *(
            (f"states:{verb}", target, "")
            for verb in ("DescribeExecution", "StopExecution")
            for target in (executions, children)
        ),
        ("states:RedriveExecution", children, ""),
        *((f"batch:{verb}", target, "") for verb in ("SubmitJob", "TagResource") for target in submit_to),
        ("batch:TagResource", arn("batch", "job/*"), ""),
        ("batch:DescribeJobs", "*", ""),
        ("batch:TerminateJob", arn("batch", "job/*"), own_jobs),
        *((f"events:{verb}", rule, "") for verb in ("PutTargets", "PutRule", "DescribeRule")),
        ("s3:GetObject", lists, ""),
        *(
            (f"s3:{verb}", results, "")
            for verb in ("PutObject", "GetObject", "ListMultipartUploadParts", "AbortMultipartUpload")
        ),
        ("s3:ListBucket", f"arn:aws:s3:::{bucket}", ""),
    }


def test_r27_c07_the_machine_may_do_exactly_this(deployment: Deployment, env: str) -> None:
    bucket = deployment.outputs(f"{env}-hawk-reimport")["EvalLogReimportBucketName"]
    role = deployment.the("AWS::StepFunctions::StateMachine").properties["RoleArn"]
    assert deployment.grants_of(role) == machine_grants(env, bucket)


def test_r27_and_with_a_customer_key_use_it(synthesis: Synthesis) -> None:
    keyed = synthesis("sandbox", reimport_bucket_key_arn=KEY)
    bucket = keyed.outputs("sandbox-hawk-reimport")["EvalLogReimportBucketName"]
    role = keyed.the("AWS::StepFunctions::StateMachine").properties["RoleArn"]
    assert keyed.grants_of(role) == machine_grants("sandbox", bucket) | {
        ("kms:Decrypt", KEY, ""),
        ("kms:GenerateDataKey", KEY, ""),
    }


def test_r1_nothing_but_a_person_can_start_the_machine(deployment: Deployment) -> None:
    machine = deployment.the("AWS::StepFunctions::StateMachine")
    started = machine.identity
    own_role = machine.properties["RoleArn"]
    starters = {
        role
        for role in (f"arn:aws:iam::111122223333:role/{r.id}" for r in deployment.of_type("AWS::IAM::Role"))
        for action, resource, _ in deployment.grants_of(role)
        if _covers(action, "states:startexecution") and _covers(resource.lower(), started.lower())
    }
    assert starters == {own_role}
    for rule in deployment.of_type("AWS::Events::Rule"):
        assert all(target["Arn"] != started and "RoleArn" not in target for target in rule.properties["Targets"])
    types = {resource.type for resource in deployment.resources}
    assert not {t for t in types if t.startswith(("AWS::Scheduler::", "AWS::Pipes::", "AWS::ApiGateway"))}


def test_roles_are_assumed_by_the_service_that_needs_them_alone(deployment: Deployment) -> None:
    services = []
    for role in deployment.of_type("AWS::IAM::Role"):
        (statement,) = role.properties["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Action"] == "sts:AssumeRole"
        services.append(statement["Principal"]["Service"])
    flow_logs = ["vpc-flow-logs.amazonaws.com"] * len(deployment.of_type("AWS::EC2::FlowLog"))
    expected = [*["ecs-tasks.amazonaws.com"] * 2, *["lambda.amazonaws.com"] * 3, "states.amazonaws.com", *flow_logs]
    assert sorted(services) == sorted(expected)


def test_the_importer_may_read_logs_and_nothing_else(dev: Deployment) -> None:
    bucket = dev.outputs("dev-hawk-reimport")["LogsBucketName"]
    role = dev.the("AWS::Batch::JobDefinition").properties["ContainerProperties"]["JobRoleArn"]
    assert dev.grants_of(role) == {
        ("s3:GetObject", f"arn:aws:s3:::{bucket}/evals/*", ""),
        ("s3:ListBucket", f"arn:aws:s3:::{bucket}", ""),
    }


def test_functions_may_do_what_they_do_and_nothing_else(dev: Deployment) -> None:
    outputs = dev.outputs("dev-hawk-reimport")
    logs, bucket = (f"arn:aws:s3:::{outputs[name]}" for name in ("LogsBucketName", "EvalLogReimportBucketName"))
    machine, definition = "dev-hawk-eval-log-reimport", arn("batch", "job-definition/dev-hawk-eval-log-importer")
    undelivered = arn("sqs", outputs["UndeliveredEventsDlqUrl"].rsplit("/", 1)[1])
    expected = {
        "submit_import": {
            *(("batch:SubmitJob", to) for to in (outputs["ImporterSpotQueueArn"], definition, f"{definition}:*")),
            ("sqs:SendMessage", undelivered),
        },
        "build_list": {
            ("s3:ListBucket", logs),
            ("s3:GetObject", f"{logs}/evals/*"),
            ("s3:ListBucket", bucket),
            ("s3:GetObject", f"{bucket}/lists/*"),
            ("s3:PutObject", f"{bucket}/lists/*"),
        },
        "extract_results": {
            ("states:ListExecutions", outputs["EvalLogReimportStateMachineArn"]),
            ("states:DescribeExecution", arn("states", f"execution:{machine}:*")),
            ("states:ListMapRuns", arn("states", f"execution:{machine}:*")),
            ("states:DescribeMapRun", arn("states", f"mapRun:{machine}/*")),
            ("s3:ListBucket", bucket),
            ("s3:GetObject", f"{bucket}/results/*"),
            ("s3:PutObject", f"{bucket}/results/*"),
        },
    }
    for handler, grants in expected.items():
        function = dev.function(handler).properties
        log_group = arn("logs", f"log-group:{function['LoggingConfig']['LogGroup']}:*")
        own = {(f"logs:{verb}", log_group) for verb in ("CreateLogStream", "PutLogEvents")}
        assert {(action, resource) for action, resource, _ in dev.grants_of(function["Role"])} == grants | own, handler


def _covers(pattern: str, value: str) -> bool:
    return fnmatchcase(value, pattern.lower())
