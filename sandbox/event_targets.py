"""Targets of an EventBridge rule: what each is sent, and which failures are worth a retry.

Sources: "Amazon EventBridge targets", "Input transformation" and "Using dead-letter queues to process undelivered
events" of the EventBridge user guide. moto 5.2.5 knows logs, SQS and buses only, and wants `ingestion-time` in every
transformed event (`events/utils.py` EventTemplateParser.parse).
"""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import Any

from moto.utilities.arns import parse_arn

_PLACEHOLDER = re.compile(r"<([A-Za-z0-9_.-]+)>")


class UndeliverableError(Exception):
    """A target did not take an event; `code` is EventBridge's ERROR_CODE."""

    def __init__(self, code: str, message: str, *, retriable: bool) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.retriable = code, message, retriable


def send(target: dict[str, Any], event: dict[str, Any], rule_arn: str) -> None:
    """Deliver an event to a target."""
    arn, body = parse_arn(target["Arn"]), body_for(target, event, rule_arn)
    if arn.service == "lambda":
        _to_lambda(target["Arn"], body)
    elif arn.service == "states":
        _to_state_machine(target["Arn"], body)
    elif arn.service == "sqs":
        to_queue(target["Arn"], body, group_id=target.get("SqsParameters", {}).get("MessageGroupId"))
    elif arn.service == "logs":
        _to_log_group(arn, body)
    else:
        raise UndeliverableError("INVALID_PARAMETER", f"the sandbox knows no target {target['Arn']}", retriable=False)


def body_for(target: dict[str, Any], event: dict[str, Any], rule_arn: str) -> str:
    """The event itself, or what Input, InputPath or InputTransformer make of it."""
    if target.get("Input"):
        return str(target["Input"])
    if target.get("InputPath"):
        return json.dumps(_at(event, target["InputPath"]))
    if transformer := target.get("InputTransformer"):
        values = {name: _at(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}
        values["aws.events.rule-arn"] = rule_arn
        values["aws.events.rule-name"] = rule_arn.rsplit("/", 1)[-1]
        values["aws.events.event.json"] = event
        return _fill(transformer["InputTemplate"], values)
    return json.dumps(event)


def _at(event: dict[str, Any], path: str) -> Any:
    """The value at a path such as $.detail.object.key; None where there is none."""
    value: Any = event
    for part in path.removeprefix("$").lstrip(".").split("."):
        if part:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _fill(template: str, values: dict[str, Any]) -> str:
    """Placeholders inside a JSON string stay text, placeholders outside become JSON."""

    def replace(match: re.Match[str]) -> str:
        value = values.get(match[1])
        inside = template[: match.start()].replace('\\"', "").count('"') % 2 == 1
        if inside:
            return json.dumps(value if isinstance(value, str) else json.dumps(value))[1:-1]
        return json.dumps(value)

    return _PLACEHOLDER.sub(replace, template)


def _to_lambda(arn: str, body: str) -> None:
    from sandbox import functions

    try:
        functions.invoke_later(arn, body)
    except functions.UnknownFunctionError as error:
        raise UndeliverableError("NO_RESOURCE", str(error), retriable=False) from error


def _to_state_machine(arn: str, body: str) -> None:
    from moto.stepfunctions.models import stepfunctions_backends

    parsed = parse_arn(arn)
    try:
        stepfunctions_backends[parsed.account][parsed.region].start_execution(arn, str(uuid.uuid4()), body)
    except Exception as error:
        raise UndeliverableError("NO_RESOURCE", str(error), retriable=False) from error


def to_queue(arn: str, body: str, attributes: dict[str, Any] | None = None, group_id: str | None = None) -> None:
    """Send a message to a queue; attributes as moto keeps them."""
    from moto.sqs.exceptions import QueueDoesNotExist
    from moto.sqs.models import sqs_backends

    parsed = parse_arn(arn)
    try:
        sqs_backends[parsed.account][parsed.region].send_message(
            parsed.resource_id, body, message_attributes=attributes, group_id=group_id
        )
    except QueueDoesNotExist as error:
        raise UndeliverableError("NO_RESOURCE", f"no queue {arn}", retriable=False) from error


def _to_log_group(arn: Any, body: str) -> None:
    from moto.logs.exceptions import ResourceNotFoundException
    from moto.logs.models import logs_backends

    backend, group = logs_backends[arn.account][arn.region], arn.resource_id.removesuffix(":*")
    stream = str(uuid.uuid4())
    try:
        backend.create_log_stream(group, stream)
    except ResourceNotFoundException as error:
        raise UndeliverableError("NO_RESOURCE", f"no log group {group}", retriable=False) from error
    backend.put_log_events(group, stream, [{"timestamp": int(time.time() * 1000), "message": body}])


def dead_letter(
    queue_arn: str,
    event: dict[str, Any],
    rule_arn: str,
    target_arn: str,
    failure: UndeliverableError,
    attempts: int,
    exhausted: str | None,
) -> None:
    """The event as it was, and why it could not be delivered as message attributes."""
    values = {
        "RULE_ARN": rule_arn,
        "TARGET_ARN": target_arn,
        "ERROR_CODE": failure.code,
        "ERROR_MESSAGE": failure.message,
        "RETRY_ATTEMPTS": str(attempts),
        **({"EXHAUSTED_RETRY_CONDITION": exhausted} if exhausted else {}),
    }
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}
    to_queue(queue_arn, json.dumps(event), attributes)
