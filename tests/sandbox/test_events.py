"""EventBridge's delivery, seen through its API (R6, case-C01), and what a target is sent, as pure functions."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest

from tests.sandbox.conftest import Bare, until

RULE = "arn:aws:events:us-east-1:123456789012:rule/r"
EVENT = {"id": "1", "source": "s", "detail": {"key": 'a "b"', "size": 3, "tags": ["x"]}}


@pytest.fixture(scope="module")
def targets() -> Any:
    """The module, imported late: it brings moto."""
    from sandbox import event_targets

    return event_targets


def test_a_target_gets_the_event_or_a_part_of_it_or_a_constant(targets: Any) -> None:
    assert json.loads(targets.body_for({"Arn": "a"}, EVENT, RULE)) == EVENT
    assert json.loads(targets.body_for({"Arn": "a", "InputPath": "$.detail.key"}, EVENT, RULE)) == 'a "b"'
    assert targets.body_for({"Arn": "a", "Input": '{"source":"sweep"}'}, EVENT, RULE) == '{"source":"sweep"}'


def test_a_transformer_fills_strings_as_text_and_the_rest_as_json(targets: Any) -> None:
    transformer = {
        "InputPathsMap": {"key": "$.detail.key", "size": "$.detail.size", "tags": "$.detail.tags", "no": "$.detail.no"},
        "InputTemplate": '{"text": "key <key>, <size>", "key": <key>, "size": <size>, "tags": <tags>, "no": <no>, '
        '"rule": "<aws.events.rule-name>", "all": <aws.events.event.json>}',
    }
    assert json.loads(targets.body_for({"Arn": "a", "InputTransformer": transformer}, EVENT, RULE)) == {
        "text": 'key a "b", 3',
        "key": 'a "b"',
        "size": 3,
        "tags": ["x"],
        "no": None,
        "rule": "r",
        "all": EVENT,
    }


class Bus:
    """Rules and queues of one test."""

    def __init__(self, bare: Bare) -> None:
        self.name = f"t-{uuid.uuid4().hex[:8]}"
        self.source = f"test.{self.name}"
        self.events, self.sqs = bare.client("events"), bare.client("sqs")

    def queue(self, suffix: str = "") -> tuple[str, str]:
        url = self.sqs.create_queue(QueueName=self.name + suffix)["QueueUrl"]
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return url, found["Attributes"]["QueueArn"]

    def rule(self, *targets: dict[str, Any], pattern: dict[str, Any] | None = None, **rule: Any) -> str:
        if "ScheduleExpression" not in rule:
            rule["EventPattern"] = json.dumps({"source": [self.source], **(pattern or {})})
        arn = self.events.put_rule(Name=self.name, **rule)["RuleArn"]
        self.events.put_targets(Rule=self.name, Targets=[{"Id": str(i), **one} for i, one in enumerate(targets)])
        return str(arn)

    def put(self, detail: dict[str, Any], **more: Any) -> str:
        entry = {"Source": self.source, "DetailType": "Test", "Detail": json.dumps(detail), **more}
        [answer] = self.events.put_events(Entries=[entry])["Entries"]
        return str(answer["EventId"])

    def messages(self, url: str, wait_seconds: int = 1) -> list[dict[str, Any]]:
        received = self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], WaitTimeSeconds=wait_seconds
        )
        return list(received.get("Messages", []))


@pytest.fixture
def bus(bare: Bare) -> Bus:
    return Bus(bare)


def test_an_event_has_awss_envelope_everywhere(bus: Bus) -> None:
    """moto's `time` is a number and it adds an ingestion-time that AWS does not have."""
    url, arn = bus.queue()
    bus.rule({"Arn": arn})
    event_id = bus.put({"a": 1}, Resources=["arn:x"])
    [message] = until(lambda: bus.messages(url))
    event = json.loads(message["Body"])
    assert set(event) == {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}
    assert (event["id"], event["resources"], event["detail"], event["version"]) == (event_id, ["arn:x"], {"a": 1}, "0")
    assert time.strptime(event["time"], "%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ({"status": ["FAILED"]}, {"status": "FAILED"}, {"status": "SUCCEEDED"}),
        ({"key": [{"wildcard": "evals/*.eval"}]}, {"key": "evals/a/b.eval"}, {"key": "evals/a.json"}),
        ({"definition": [{"prefix": "arn:d:"}]}, {"definition": "arn:d:3"}, {"definition": "arn:d2:3"}),
        ({"queue": [{"anything-but": ["spot"]}]}, {"queue": "demand"}, {"queue": "spot"}),
        ({"reason": [{"anything-but": {"prefix": "Spot"}}, {"exists": False}]}, {}, {"reason": "Spot x"}),
    ],
)
def test_r6_the_patterns_that_the_stacks_use(
    bus: Bus, pattern: dict[str, Any], matching: dict[str, Any], other: dict[str, Any]
) -> None:
    url, arn = bus.queue()
    bus.rule({"Arn": arn}, pattern={"detail": pattern})
    bus.put({**other, "n": 1})
    bus.put({**matching, "n": 2})
    [message] = until(lambda: bus.messages(url))
    assert json.loads(message["Body"])["detail"]["n"] == 2


def test_a_disabled_rule_delivers_nothing(bus: Bus) -> None:
    url, arn = bus.queue()
    bus.rule({"Arn": arn}, State="DISABLED")
    bus.put({})
    assert bus.messages(url) == []
    bus.events.enable_rule(Name=bus.name)
    bus.put({})
    assert bus.messages(url)


def test_a_scheduled_rule_is_not_fired_by_events(bus: Bus) -> None:
    """To moto a rule without a pattern matches every event."""
    url, arn = bus.queue()
    bus.rule({"Arn": arn}, ScheduleExpression="rate(1 hour)")
    bus.put({})
    assert bus.messages(url) == []


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("rate(1 minute)", 60),
        ("rate(5 minutes)", 300),
        ("rate(1 hour)", 3600),
        ("rate(2 days)", 172800),
        ("cron(0 * * * ? *)", None),
    ],
)
def test_intervals_of_schedules(expression: str, seconds: int | None) -> None:
    from sandbox import events

    assert events.interval_seconds(expression) == seconds


def test_case_c01_an_undeliverable_event_reaches_the_targets_dead_letters_and_says_why(bus: Bus) -> None:
    url, dead = bus.queue()
    gone = "arn:aws:lambda:us-east-1:123456789012:function:gone"
    rule = bus.rule({"Arn": gone, "DeadLetterConfig": {"Arn": dead}})
    event_id = bus.put({"a": 1})  # no error for the sender, unlike moto's 500
    [message] = until(lambda: bus.messages(url))
    assert json.loads(message["Body"])["id"] == event_id
    attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert attributes["RULE_ARN"] == rule
    assert attributes["TARGET_ARN"] == gone
    assert (attributes["ERROR_CODE"], attributes["RETRY_ATTEMPTS"]) == ("NO_RESOURCE", "0")
    assert "gone" in attributes["ERROR_MESSAGE"]


@pytest.mark.parametrize(
    ("failures", "policy", "delivered", "retries"),
    [(2, {}, True, None), (9, {}, False, "2"), (1, {"RetryPolicy": {"MaximumRetryAttempts": 0}}, False, "0")],
)
def test_a_delivery_that_may_succeed_later_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, policy: dict[str, Any], delivered: bool, retries: str | None
) -> None:
    from sandbox import event_targets, events

    sent: list[str] = []
    dead: list[tuple[str, str]] = []

    def send(target: dict[str, Any], event: dict[str, Any], rule_arn: str) -> None:
        sent.append("try")
        if len(sent) <= failures:
            raise ConnectionError

    def dead_letter(
        queue: str, event: Any, rule: str, target: str, failure: Any, attempts: int, exhausted: str
    ) -> None:
        dead.append((str(attempts), exhausted))

    monkeypatch.setattr(events, "RETRY_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(event_targets, "send", send)
    monkeypatch.setattr(event_targets, "dead_letter", dead_letter)
    rule = type("Rule", (), {"name": "r", "arn": RULE})
    events._deliver(rule, {"Arn": "a", "DeadLetterConfig": {"Arn": "q"}, **policy}, EVENT)
    assert dead == ([] if delivered else [(retries, "MaximumRetryAttempts")])


def test_one_broken_target_keeps_no_other_from_its_event(bus: Bus) -> None:
    url, arn = bus.queue()
    bus.rule({"Arn": "arn:aws:sqs:us-east-1:123456789012:none"}, {"Arn": arn})
    bus.put({})
    assert until(lambda: bus.messages(url))


def test_a_log_group_gets_one_stream_an_event(bus: Bus, bare: Bare) -> None:
    logs, group = bare.client("logs"), f"/aws/events/{bus.name}"
    logs.create_log_group(logGroupName=group)
    bus.rule({"Arn": f"arn:aws:logs:us-east-1:123456789012:log-group:{group}"})
    bus.put({"a": 1})
    [stream] = until(lambda: logs.describe_log_streams(logGroupName=group)["logStreams"])
    events = until(lambda: logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"])
    assert json.loads(events[0]["message"])["detail"] == {"a": 1}


def test_bad_entries_are_answered_one_by_one(bus: Bus) -> None:
    entries = [
        {"Source": bus.source, "DetailType": "T", "Detail": "{"},
        {"Source": bus.source, "DetailType": "T", "Detail": "{}"},
    ]
    first, second = bus.events.put_events(Entries=entries)["Entries"]
    assert first["ErrorCode"] == "MalformedDetail"
    assert second["EventId"]


def test_the_detail_of_an_event_that_no_rule_wants_is_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of a thousand items publishes some ten thousand events, most of which nobody wants."""
    from sandbox import events

    class Rule:
        targets: list[dict[str, Any]] = []  # noqa: RUF012
        event_pattern = events.models.EventPattern.load(json.dumps({"source": ["aws.s3"]}))

    built: list[str] = []
    monkeypatch.setattr(events, "_rules", lambda bus: [Rule()])
    for source in ("aws.batch", "aws.s3"):
        events.publish(source=source, detail_type="T", resources=[], detail=lambda s=source: built.append(s) or {})
    assert built == ["aws.s3"]
