"""EventBridge rules against recorded events: R6, R18, case-C01, case-C05, case-R02."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from moto.events.models import EventPattern

from tests.infra.conftest import load_event
from tests.infra.deployment import Deployment, Resource, arn

QUEUES = {name: arn("batch", f"job-queue/dev-hawk-eval-log-importer-{name}") for name in ("spot", "on-demand")}
INTERRUPTED = "Your Spot Task was interrupted."


def uploaded(key: str, bucket: str) -> dict[str, Any]:
    event = load_event("s3-object-created")
    event["detail"]["bucket"]["name"] = bucket
    event["detail"]["object"]["key"] = key
    return event


def failed(**detail: Any) -> dict[str, Any]:
    event = load_event("batch-job-failed")
    event["detail"] |= detail
    event["detail"] = {key: value for key, value in event["detail"].items() if value is not None}
    return event


def ended(status: str = "SUCCEEDED", machine: str = "dev-hawk-eval-log-reimport") -> dict[str, Any]:
    event = load_event("execution-succeeded")
    event["detail"] |= {"status": status, "stateMachineArn": arn("states", f"stateMachine:{machine}")}
    return event


def matching(deployment: Deployment, event: dict[str, Any]) -> list[Resource]:
    """The rules that an event sets off."""
    rules = [rule for rule in deployment.of_type("AWS::Events::Rule") if "EventPattern" in rule.properties]
    return [r for r in rules if EventPattern(None, r.properties["EventPattern"]).matches_event(copy.deepcopy(event))]


def targets(deployment: Deployment, event: dict[str, Any]) -> list[str]:
    """The ARNs that an event is delivered to."""
    return [target["Arn"] for rule in matching(deployment, event) for target in rule.properties["Targets"]]


def queue_arn(deployment: Deployment, output: str) -> str:
    url = deployment.outputs("dev-hawk-reimport")[output]
    (queue,) = [q for q in deployment.of_type("AWS::SQS::Queue") if q.identity == url]
    return arn("sqs", queue.id)


def function_arn(deployment: Deployment, handler: str) -> str:
    return arn("lambda", f"function:{deployment.function(handler).id}")


def test_c01_every_rule_is_on_the_default_bus(deployment: Deployment) -> None:
    rules = deployment.of_type("AWS::Events::Rule")
    assert len(rules) == 6
    assert all("EventBusName" not in rule.properties for rule in rules)
    assert all(rule.properties["State"] == "ENABLED" for rule in rules)


@pytest.mark.parametrize(
    ("key", "imported"),
    [
        ("evals/set/log.eval", True),
        ("evals/set/deep/er/x+y%20z.eval", True),  # case-R02: literal
        ("evals/set/é #1?.eval", True),
        ("evals/.eval", True),
        ("evals/set/log.json", False),
        ("evals/set/log.eval.tmp", False),
        ("other/evals/log.eval", False),  # what a prefix and a suffix as alternatives would let in
        ("lists/log.eval", False),
    ],
)
def test_r6a_uploads_that_become_jobs(dev: Deployment, key: str, imported: bool) -> None:
    bucket = dev.outputs("dev-hawk-reimport")["LogsBucketName"]
    expected = [function_arn(dev, "submit_import")] if imported else []
    assert targets(dev, uploaded(key, bucket)) == expected


def test_r2_no_upload_to_the_reimport_bucket_or_another_becomes_a_job(dev: Deployment) -> None:
    for bucket in (dev.outputs("dev-hawk-reimport")["EvalLogReimportBucketName"], "example-logs"):
        assert targets(dev, uploaded("evals/set/log.eval", bucket)) == []


@pytest.mark.parametrize("queue", ["spot", "on-demand"])
@pytest.mark.parametrize(
    "reason", [INTERRUPTED, "Essential container in task exited", "Job attempt duration exceeded", None]
)
@pytest.mark.parametrize("name", ["dev-hawk-eval-log-importer", "dev-hawk-eval-log-reimport"])
def test_r6_every_failed_import_reaches_the_dlq_once(
    dev: Deployment, queue: str, reason: str | None, name: str
) -> None:
    event = failed(jobQueue=QUEUES[queue], statusReason=reason, jobName=name)
    assert targets(dev, event) == [queue_arn(dev, "ImporterDlqUrl")]


def test_r6b_an_interruption_is_told_apart_on_the_spot_queue_only(dev: Deployment) -> None:
    (interrupted,) = matching(dev, failed(jobQueue=QUEUES["spot"], statusReason=INTERRUPTED))
    (other,) = matching(dev, failed(jobQueue=QUEUES["spot"]))
    (on_demand,) = matching(dev, failed(jobQueue=QUEUES["on-demand"], statusReason=INTERRUPTED))
    (given,) = matching(dev, failed(jobQueue=arn("batch", "job-queue/by-hand")))
    assert interrupted != other
    assert on_demand not in (interrupted, other)
    assert given == on_demand


@pytest.mark.parametrize(
    "detail",
    [
        {"status": "SUCCEEDED"},
        {"status": "RUNNABLE"},
        {"jobDefinition": arn("batch", "job-definition/dev-hawk-eval-log-importer-2:1")},
        {"jobDefinition": arn("batch", "job-definition/somebody-elses:3")},
    ],
)
@pytest.mark.parametrize("queue", ["spot", "on-demand"])
def test_c01_other_jobs_and_other_states_are_ignored(dev: Deployment, queue: str, detail: dict[str, str]) -> None:
    assert matching(dev, failed(jobQueue=QUEUES[queue], **detail)) == []


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"])
def test_r18_an_ended_execution_is_extracted(dev: Deployment, status: str) -> None:
    assert targets(dev, ended(status)) == [function_arn(dev, "extract_results")]


def test_r18_neither_running_executions_nor_children_nor_other_machines_are(dev: Deployment) -> None:
    assert targets(dev, ended("RUNNING")) == []
    assert targets(dev, ended("PENDING_REDRIVE")) == []
    assert targets(dev, ended(machine="dev-hawk-eval-log-reimport/Reimport")) == []
    assert targets(dev, ended(machine="dev-hawk-eval-log-reimport-2")) == []


def test_r18_a_sweep_runs_every_hour(deployment: Deployment) -> None:
    sweep = deployment.the("AWS::Events::Rule", ScheduleExpression="rate(1 hour)")
    assert [target["Arn"] for target in sweep.properties["Targets"]] == [function_arn(deployment, "extract_results")]


def test_r6_undelivered_events_have_a_queue_of_their_own(dev: Deployment) -> None:
    undelivered = queue_arn(dev, "UndeliveredEventsDlqUrl")
    assert undelivered != queue_arn(dev, "ImporterDlqUrl")
    bucket = dev.outputs("dev-hawk-reimport")["LogsBucketName"]
    events = [uploaded("evals/a.eval", bucket), failed(), failed(jobQueue=QUEUES["spot"])]
    events.append(failed(jobQueue=QUEUES["spot"], statusReason=INTERRUPTED))
    for event in events:
        (rule,) = matching(dev, event)
        (target,) = rule.properties["Targets"]
        assert target["DeadLetterConfig"] == {"Arn": undelivered}
    assert dev.function("submit_import").properties["DeadLetterConfig"] == {"TargetArn": undelivered}


def test_every_rule_may_invoke_the_function_or_write_to_the_queue_it_names(deployment: Deployment) -> None:
    invocations = {
        (permission.raw["Properties"]["SourceArn"]["Fn::GetAtt"][0], permission.properties["FunctionName"])
        for permission in deployment.of_type("AWS::Lambda::Permission")
        if permission.properties["Principal"] == "events.amazonaws.com"
    }
    writes = {
        (statement["Condition"]["ArnEquals"]["aws:SourceArn"], statement["Resource"])
        for policy in deployment.of_type("AWS::SQS::QueuePolicy")
        for statement in policy.properties["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow" and statement["Principal"] == {"Service": "events.amazonaws.com"}
    }
    for rule in deployment.of_type("AWS::Events::Rule"):
        for target in rule.properties["Targets"]:
            if ":lambda:" in target["Arn"]:
                assert any(rule.id == source for source, _ in invocations)
            else:
                assert (f"{rule.id}.Arn", target["Arn"]) in writes
            if "DeadLetterConfig" in target:
                assert (f"{rule.id}.Arn", target["DeadLetterConfig"]["Arn"]) in writes


def test_c05_queues_are_encrypted_so_that_eventbridge_can_write(deployment: Deployment) -> None:
    queues = deployment.of_type("AWS::SQS::Queue")
    assert len(queues) == 2
    for queue in queues:
        assert queue.properties["SqsManagedSseEnabled"] is True
        assert "KmsMasterKeyId" not in queue.properties
        assert queue.properties["MessageRetentionPeriod"] == 14 * 24 * 60 * 60
        policies = [
            p for p in deployment.of_type("AWS::SQS::QueuePolicy") if p.properties["Queues"] == [queue.identity]
        ]
        denied = [s for p in policies for s in p.properties["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
        assert [s["Condition"] for s in denied] == [{"Bool": {"aws:SecureTransport": "false"}}]
