"""Jobs as AWS Batch runs them, seen through its API, and what moto does otherwise (R12–R14, case-R09, case-R13)."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.conftest import Bare, until

GROUP = "importer-logs"
STRATEGY = {
    "attempts": 3,
    "evaluateOnExit": [
        {"onReason": "OutOfMemoryError*", "action": "EXIT"},
        {"onExitCode": "1*", "action": "EXIT"},
        {"onExitCode": "2", "action": "EXIT"},
    ],
}


class Batch:
    """A queue and a definition of the tests' own."""

    def __init__(self, bare: Bare) -> None:
        self.bare, self.batch = bare, bare.client("batch")
        self.name = f"importer-{uuid.uuid4().hex[:8]}"
        role = bare.client("iam").create_role(RoleName=self.name, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        environment = self.batch.create_compute_environment(
            computeEnvironmentName=self.name, type="UNMANAGED", state="ENABLED", serviceRole=role
        )["computeEnvironmentArn"]
        order = [{"order": 1, "computeEnvironment": environment}]
        self.queue = self.batch.create_job_queue(
            jobQueueName=self.name, state="ENABLED", priority=1, computeEnvironmentOrder=order
        )["jobQueueArn"]
        self.secret = bare.client("secretsmanager").create_secret(
            Name=self.name, SecretString=json.dumps({"password": "p\"w'é", "port": 5432})
        )["ARN"]
        self.register()

    def register(self, **changes: Any) -> str:
        container = {
            "image": "importer:1",
            "command": ["python", "-c", "print('default')"],
            "resourceRequirements": [{"type": "VCPU", "value": "0.5"}, {"type": "MEMORY", "value": "1024"}],
            "environment": [{"name": "PLACE", "value": "definition"}],
            "secrets": [
                {"name": "PGPASSWORD", "valueFrom": f"{self.secret}:password::"},
                {"name": "PGPORT", "valueFrom": f"{self.secret}:port::"},
                {"name": "WHOLE", "valueFrom": self.secret},
            ],
            "logConfiguration": {
                "logDriver": "awslogs",
                "options": {"awslogs-group": GROUP, "awslogs-stream-prefix": "importer"},
            },
            **changes.pop("container", {}),
        }
        return str(
            self.batch.register_job_definition(
                jobDefinitionName=self.name,
                type="container",
                containerProperties=container,
                platformCapabilities=["FARGATE"],
                **{"retryStrategy": STRATEGY, **changes},
            )["jobDefinitionArn"]
        )

    def submit(self, code: str | list[str] | None = None, **more: Any) -> str:
        overrides = more.pop("containerOverrides", {})
        if code is not None:
            overrides["command"] = ["python", "-c", code] if isinstance(code, str) else code
        given = {"jobName": "job", "jobQueue": self.queue, "jobDefinition": self.name, **more}
        return str(self.batch.submit_job(containerOverrides=overrides, **given)["jobId"])

    def describe(self, job_id: str) -> dict[str, Any]:
        return dict(self.batch.describe_jobs(jobs=[job_id])["jobs"][0])

    def ended(self, job_id: str) -> dict[str, Any]:
        return until(lambda: (job := self.describe(job_id))["status"] in ("SUCCEEDED", "FAILED") and job)

    def run(self, code: str | list[str] | None = None, **more: Any) -> dict[str, Any]:
        return self.ended(self.submit(code, **more))

    def lines(self, job: dict[str, Any]) -> list[str]:
        stream = job["container"]["logStreamName"]
        events = self.bare.client("logs").get_log_events(logGroupName=GROUP, logStreamName=stream)["events"]
        return [event["message"] for event in events]

    def running(self, job_id: str) -> None:
        until(lambda: self.describe(job_id)["status"] == "RUNNING" and self.describe(job_id))


@pytest.fixture(scope="module")
def batch(bare: Bare) -> Batch:
    bare.client("logs").create_log_group(logGroupName=GROUP)
    return Batch(bare)


def test_a_job_runs_with_command_environment_and_secrets_of_definition_and_submission(batch: Batch) -> None:
    code = (
        "import os, json; e = os.environ; print(json.dumps([e['PLACE'], e['PGPASSWORD'], e['PGPORT'], e['WHOLE'][0], "
        "e['AWS_BATCH_JOB_ATTEMPT'], e['AWS_ENDPOINT_URL'], 'MOTO_PORT' in e, 'AWS_PROFILE' in e, "
        "os.getpgid(0) == os.getpid()]))"
    )
    job = batch.run(code, containerOverrides={"environment": [{"name": "PLACE", "value": "submission"}]})
    assert job["status"] == "SUCCEEDED"
    assert json.loads(batch.lines(job)[0]) == [
        "submission", "p\"w'é", "5432", "{", "1", batch.bare.env["AWS_ENDPOINT_URL"], False, False, True,
    ]  # fmt: skip


def test_the_description_has_the_apis_fields_and_no_secret(batch: Batch) -> None:
    job = batch.run("import sys; sys.exit(0)", tags={"longhaul:execution": "arn:x"})
    container = job["container"]
    assert container["exitCode"] == 0
    assert container["logStreamName"].startswith("importer/default/")
    assert {r["type"]: r["value"] for r in container["resourceRequirements"]} == {"VCPU": "0.5", "MEMORY": "1024"}
    assert container["secrets"][0]["name"] == "PGPASSWORD"
    assert "p\"w'é" not in json.dumps(job, ensure_ascii=False)
    assert job["tags"] == {"longhaul:execution": "arn:x"}
    assert job["retryStrategy"]["attempts"] == 3
    assert job["platformCapabilities"] == ["FARGATE"]
    assert job["attempts"][0]["container"]["logStreamName"] == container["logStreamName"]
    assert job["createdAt"] <= job["startedAt"] <= job["stoppedAt"]


def test_environment_does_not_grow_with_each_description(batch: Batch) -> None:
    """moto appends to the list at every DescribeJobs (batch/models.py Job._get_container_property)."""
    job = batch.run("pass")
    assert batch.describe(job["jobId"])["container"]["environment"] == [{"name": "PLACE", "value": "definition"}]


@pytest.mark.parametrize(("code", "attempts"), [(20, 3), (12, 1), (2, 1), (137, 1)])
def test_r14_the_retry_strategy_counts_attempts(batch: Batch, code: int, attempts: int) -> None:
    job = batch.run(f"import sys; sys.exit({code})")
    assert job["status"] == "FAILED"
    assert [a["container"]["exitCode"] for a in job["attempts"]] == [code] * attempts
    assert len({a["container"]["logStreamName"] for a in job["attempts"]}) == attempts
    assert job["statusReason"] == "Essential container in task exited"


def test_a_strategy_of_the_submission_goes_before_the_definitions(batch: Batch) -> None:
    """moto ignores retryStrategy of SubmitJob."""
    job = batch.run("import sys; sys.exit(20)", retryStrategy={"attempts": 1})
    assert len(job["attempts"]) == 1


def test_an_attempt_that_succeeds_ends_the_retries(batch: Batch) -> None:
    job = batch.run("import os, sys; sys.exit(0 if os.environ['AWS_BATCH_JOB_ATTEMPT'] == '2' else 20)")
    assert (job["status"], len(job["attempts"])) == ("SUCCEEDED", 2)


def test_r14_more_memory_than_the_definition_gives_kills_the_container(batch: Batch) -> None:
    job = batch.run("x = bytearray(1200 << 20); import time; time.sleep(20)")
    assert job["status"] == "FAILED"
    assert job["container"]["reason"] == "OutOfMemoryError: Container killed due to memory usage"
    assert job["container"]["exitCode"] == 137
    assert len(job["attempts"]) == 1


def test_memory_of_all_processes_of_a_job_counts(batch: Batch) -> None:
    half = "x = bytearray(600 << 20); import time; time.sleep(20)"
    job = batch.run(
        f"import subprocess, sys; "
        f"[p.wait() for p in [subprocess.Popen([sys.executable, '-c', {half!r}]) for _ in 'ab']]"
    )
    assert job["container"]["reason"].startswith("OutOfMemoryError")


def test_a_submission_can_ask_for_more_memory(batch: Batch) -> None:
    size = [{"type": "VCPU", "value": "0.5"}, {"type": "MEMORY", "value": "2048"}]
    job = batch.run("x = bytearray(1200 << 20)", containerOverrides={"resourceRequirements": size})
    assert job["status"] == "SUCCEEDED"


def test_an_attempt_that_takes_too_long_is_stopped_and_not_retried(batch: Batch) -> None:
    more = {"timeout": {"attemptDurationSeconds": 1}, "retryStrategy": {"attempts": 2}}  # which would retry any failure
    job = batch.run("import time; time.sleep(60)", **more)
    assert (job["status"], job["statusReason"]) == ("FAILED", "Job attempt duration exceeded timeout")
    assert len(job["attempts"]) == 1


def test_terminate_sends_sigterm_and_the_reason_becomes_the_status_reason(batch: Batch) -> None:
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: (print('bye', flush=True), sys.exit(143))); "
        "print('up', flush=True); time.sleep(60)"
    )
    job_id = batch.submit(code)
    until(
        lambda: "logStreamName" in batch.describe(job_id)["container"] and batch.lines(batch.describe(job_id)) == ["up"]
    )
    batch.batch.terminate_job(jobId=job_id, reason="Your Spot Task was interrupted.")
    job = batch.ended(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", "Your Spot Task was interrupted.")
    assert (job["container"]["exitCode"], job["isTerminated"], job["isCancelled"]) == (143, True, False)
    assert batch.lines(job) == ["up", "bye"]


def test_terminate_kills_what_does_not_listen_with_its_children(batch: Batch) -> None:
    code = (
        "import signal, subprocess, time; signal.signal(15, signal.SIG_IGN); "
        "p = subprocess.Popen(['sleep', '77']); print(p.pid, flush=True); time.sleep(60)"
    )
    job_id = batch.submit(code)
    until(lambda: "logStreamName" in batch.describe(job_id)["container"] and batch.lines(batch.describe(job_id)))
    grandchild = int(batch.lines(batch.describe(job_id))[0])
    batch.batch.terminate_job(jobId=job_id, reason="stop")
    job = batch.ended(job_id)
    assert job["container"]["exitCode"] == 137
    until(lambda: not alive(grandchild))


def test_what_a_container_leaves_behind_ends_with_it(batch: Batch) -> None:
    job = batch.run("import subprocess; print(subprocess.Popen(['sleep', '78']).pid)")
    until(lambda: not alive(int(batch.lines(job)[0])))


def test_cancel_leaves_a_running_job_alone_and_terminate_of_an_ended_one_changes_nothing(batch: Batch) -> None:
    job_id = batch.submit("import time; time.sleep(3)")
    batch.running(job_id)
    batch.batch.cancel_job(jobId=job_id, reason="never mind")
    job = batch.ended(job_id)
    assert job["status"] == "SUCCEEDED"
    batch.batch.terminate_job(jobId=job_id, reason="late")
    assert batch.describe(job_id)["statusReason"] == job["statusReason"]


def test_cancel_ends_a_job_that_waits_for_another(batch: Batch) -> None:
    first = batch.submit("import time; time.sleep(60)")
    second = batch.submit("print('never')", dependsOn=[{"jobId": first}])
    until(lambda: batch.describe(second)["status"] == "PENDING")
    batch.batch.cancel_job(jobId=second, reason="never mind")
    job = batch.ended(second)
    assert (job["status"], job["statusReason"], job["attempts"]) == ("FAILED", "never mind", [])
    assert job["isCancelled"]
    batch.batch.terminate_job(jobId=first, reason="done")
    batch.ended(first)


def test_a_command_that_does_not_exist_cannot_start_and_has_no_exit_code(batch: Batch) -> None:
    """case-R16: no exit code, never "exit 0"."""
    job = batch.run(["no-such-program"])
    assert job["container"]["reason"].startswith("CannotStartContainerError")
    assert "exitCode" not in job["container"]
    assert len(job["attempts"]) == 3


def test_a_secret_that_cannot_be_read_keeps_the_container_from_starting(batch: Batch) -> None:
    place = batch.secret.replace(batch.name, "none")
    arn = batch.register(container={"secrets": [{"name": "A", "valueFrom": f"{place}:password::"}]})
    try:
        job = batch.run("pass", jobDefinition=arn, retryStrategy={"attempts": 1})
        assert job["container"]["reason"].startswith("ResourceInitializationError")
    finally:
        batch.batch.deregister_job_definition(jobDefinition=arn)


def test_a_log_group_that_is_missing_keeps_the_container_from_starting(batch: Batch) -> None:
    options = {"logDriver": "awslogs", "options": {"awslogs-group": "none"}}
    arn = batch.register(container={"logConfiguration": options})
    try:
        job = batch.run("pass", jobDefinition=arn, retryStrategy={"attempts": 1})
        assert "log group none does not exist" in job["container"]["reason"]
    finally:
        batch.batch.deregister_job_definition(jobDefinition=arn)


def test_lines_are_log_events_and_undecodable_bytes_do_no_harm(batch: Batch) -> None:
    job = batch.run("import sys; sys.stdout.buffer.write(b'one\\r\\n\\xff\\n\\nno end')")
    assert batch.lines(job) == ["one", "\ufffd", "no end"]


def test_python_m_behaves_as_in_a_process_of_its_own(batch: Batch) -> None:
    """Such commands are forked from a warm process: arguments, exit codes and standard streams must not differ."""
    job = batch.run(["python", "-m", "json.tool", "--no-such-option"])
    assert job["container"]["exitCode"] == 2
    assert batch.lines(job)[0].startswith("usage: ")
    job = batch.run(["python", "-m", "no_such_module"])
    assert job["container"]["exitCode"] == 1
    assert "No module named" in batch.lines(job)[-1]


# ---- definitions and queues ------------------------------------------------------------------------------------------
def test_r12_without_a_revision_the_latest_active_one_is_meant(batch: Batch) -> None:
    """moto takes INACTIVE revisions too, and knows no ARN without revision (batch/models.py get_job_definition)."""
    old = batch.describe(batch.submit("pass"))["jobDefinition"]
    new = batch.register(container={"command": ["python", "-c", "print('new')"]})
    unversioned = new.rsplit(":", 1)[0]
    for identifier in (batch.name, unversioned, new, f"{batch.name}:{new.rsplit(':', 1)[1]}"):
        assert batch.run(jobDefinition=identifier)["jobDefinition"] == new
    batch.batch.deregister_job_definition(jobDefinition=new)
    assert batch.run(jobDefinition=unversioned)["jobDefinition"] == old
    with pytest.raises(ClientError, match="is not found"):
        batch.submit("pass", jobDefinition=new)


def test_a_new_revision_has_what_it_says_and_nothing_of_the_old_one(batch: Batch) -> None:
    """moto lets a revision inherit what it does not name."""
    arn = batch.batch.register_job_definition(
        jobDefinitionName=batch.name,
        type="container",
        containerProperties={
            "image": "a",
            "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "2048"}],
        },
    )["jobDefinitionArn"]
    [found] = batch.batch.describe_job_definitions(jobDefinitions=[arn])["jobDefinitions"]
    batch.batch.deregister_job_definition(jobDefinition=arn)
    assert (found["platformCapabilities"], found["retryStrategy"]) == ([], {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"jobName": "log.eval"}, "Job name"),
        ({"jobQueue": "none"}, "does not exist"),
        ({"jobDefinition": "none"}, "not found"),
        ({"containerOverrides": {"environment": [{"name": "A", "value": "x" * 9000}]}}, "at most 8192"),
        ({"containerOverrides": {"resourceRequirements": [{"type": "MEMORY", "value": "8192"}]}}, "not valid"),
        ({"retryStrategy": {"attempts": 11}}, "attempts"),
        ({"arrayProperties": {"size": 2}}, "arrayProperties"),
    ],
)
def test_submissions_that_batch_refuses(batch: Batch, given: dict[str, Any], said: str) -> None:
    """case-R09, case-R13: the answer is an error of the call, never a job without an attempt."""
    with pytest.raises(ClientError, match=said) as caught:
        batch.submit(**given)
    assert caught.value.response["Error"]["Code"] == "ClientException"


def test_list_jobs_without_a_status_means_running(batch: Batch) -> None:
    """moto lists all of them."""
    batch.run("pass")
    job_id = batch.submit("import time; time.sleep(60)")
    batch.running(job_id)
    assert [j["jobId"] for j in batch.batch.list_jobs(jobQueue=batch.queue)["jobSummaryList"]] == [job_id]
    batch.batch.terminate_job(jobId=job_id, reason="done")
    batch.ended(job_id)


def test_case_r06_lists_have_pages_and_descriptions_a_limit(batch: Batch) -> None:
    """moto returns all at once: who forgets the second page would not notice."""
    for job_id in [batch.submit("pass") for _ in range(3)]:
        batch.ended(job_id)
    first = batch.batch.list_jobs(jobQueue=batch.queue, jobStatus="SUCCEEDED", maxResults=2)
    assert len(first["jobSummaryList"]) == 2
    second = batch.batch.list_jobs(jobQueue=batch.queue, jobStatus="SUCCEEDED", nextToken=first["nextToken"])
    assert second["jobSummaryList"]
    assert not {j["jobId"] for j in first["jobSummaryList"]} & {j["jobId"] for j in second["jobSummaryList"]}
    with pytest.raises(ClientError, match="at most 100"):
        batch.batch.describe_jobs(jobs=[str(number) for number in range(101)])


def test_describe_while_jobs_come_and_go(batch: Batch) -> None:
    """moto loops over a live dictionary: HTTP 500."""
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: batch.submit("pass"), range(20)))
        found = list(pool.map(lambda _: len(batch.batch.describe_jobs(jobs=ids)["jobs"]), range(20)))
    assert found == [20] * 20
    for one in ids:
        batch.ended(one)


# ---- events ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def events_of(batch: Batch) -> Callable[[str], list[dict[str, Any]]]:
    """All events of a job, through a rule that sends them to a queue."""
    sqs, events = batch.bare.client("sqs"), batch.bare.client("events")
    url = sqs.create_queue(QueueName=batch.name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = {
        "source": ["aws.batch"],
        "detail-type": ["Batch Job State Change"],
        "detail": {"jobQueue": [batch.queue]},
    }
    events.put_rule(Name=batch.name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=batch.name, Targets=[{"Id": "queue", "Arn": arn}])
    seen: list[dict[str, Any]] = []

    def of(job_id: str) -> list[dict[str, Any]]:
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                seen.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [one for one in seen if one["detail"]["jobId"] == job_id]

    return of


def test_each_state_is_an_event_of_awss_shape(batch: Batch, events_of: Callable[[str], list[dict[str, Any]]]) -> None:
    job = batch.run("import sys; sys.exit(11)")
    events = until(lambda: len(found := events_of(job["jobId"])) == 5 and found)
    by_status = {event["detail"]["status"]: event for event in events}
    assert set(by_status) == {"SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "FAILED"}
    failed = by_status["FAILED"]
    assert failed["resources"] == [job["jobArn"]]
    assert set(failed) == {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}
    assert time.strptime(failed["time"], "%Y-%m-%dT%H:%M:%SZ")
    assert failed["detail"]["container"]["exitCode"] == 11  # camelCase, unlike the Cause of Step Functions (R17)
    assert failed["detail"]["statusReason"] == "Essential container in task exited"
    assert failed["detail"]["attempts"][0]["container"]["exitCode"] == 11
    assert "p\"w'é" not in json.dumps(failed, ensure_ascii=False)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().split()[2] != "Z"
