"""EventBridge: rules deliver to Lambda, SQS, CloudWatch Logs and Step Functions; no event is lost in silence.

Sources: "AWS service event metadata", "Event retry policy and using dead-letter queues", "Rules that run on a
schedule" and "Input transformation" of the EventBridge user guide. Gaps of moto 5.2.5 that this closes: a Lambda or
Step Functions target is a 500 for the sender (`events/models.py` Rule.send_to_targets); a rule without a pattern,
that is a scheduled one, matches every event (EventPattern.matches_event); DISABLED is ignored; `time` is a float and
S3's events all have one id; no dead letters, no retries; every rule gets its own deep copy of the event before it is
matched, which is what makes it slow.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moto.events import models
from moto.events.exceptions import ValidationException

from sandbox import event_targets, surroundings

log = logging.getLogger(__name__)
RETRY_SECONDS = (0.2, 1.0)  # AWS retries for 24 hours, 185 times, unless the target's RetryPolicy says less
_pool = ThreadPoolExecutor(8, thread_name_prefix="events")


def install() -> None:
    """Put the real delivery into moto's EventBridge and start the clock of scheduled rules."""
    models.EventsBackend.put_events = _put_events
    models.Rule.send_to_targets = _send_to_targets
    threading.Thread(target=_fire_schedules, name="schedules", daemon=True).start()


def publish(*, source: str, detail_type: str, resources: list[str], detail: Callable[[], dict[str, Any]]) -> None:
    """An event of an AWS service on the default bus. `detail` is called only when a rule may want the event."""
    rules = [rule for rule in _rules("default") if _may_match(rule, source, detail_type)]
    if rules:
        _route(rules, envelope(source=source, detail_type=detail_type, resources=resources, detail=detail()))


def envelope(
    *, source: str, detail_type: str, resources: list[str], detail: dict[str, Any], moment: float | None = None
) -> dict[str, Any]:
    """The fields that every event has around its detail."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": surroundings.ACCOUNT,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)),
        "region": surroundings.region(),
        "resources": resources,
        "detail": detail,
    }


def _rules(bus: str) -> list[Any]:
    backend = models.events_backends[surroundings.ACCOUNT][surroundings.region()]
    return [r for r in list(backend.describe_event_bus(bus).rules.values()) if r.state != "DISABLED"]


def _may_match(rule: Any, source: str, detail_type: str) -> bool:
    """The cheap look: does the rule name another source or detail type?"""
    pattern = rule.event_pattern.get_pattern()
    if not pattern:
        return False
    for key, value in (("source", source), ("detail-type", detail_type)):
        wanted = pattern.get(key)
        if wanted and value not in wanted and all(isinstance(w, str) for w in wanted):
            return False
    return True


def _route(rules: list[Any], event: dict[str, Any]) -> None:
    flat = models.EventPattern._flatten_dict(event)
    for rule in rules:
        if rule.event_pattern._does_event_match(flat, rule.event_pattern.get_pattern()):
            for target in list(rule.targets):
                _pool.submit(_deliver, rule, target, event)


def _put_events(self: Any, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """PutEvents: checks as moto's, then one look at each rule instead of a deep copy for each."""
    if len(events) > 10:
        raise ValidationException(
            "1 validation error detected: Value at 'entries' must have length less than or equal to 10"
        )
    return [_put_event(self, entry) for entry in events]


def _put_event(self: Any, entry: dict[str, Any]) -> dict[str, Any]:
    for name in ("Source", "DetailType", "Detail"):
        if not entry.get(name):
            text = f"Parameter {name} is not valid. Reason: {name} is a required argument."
            return {"ErrorCode": "InvalidArgument", "ErrorMessage": text}
    bus = self._normalize_event_bus_arn(entry.get("EventBusName"))
    rules = [r for r in _rules(bus) if _may_match(r, entry["Source"], entry["DetailType"])]
    try:
        detail = json.loads(entry["Detail"])
    except ValueError:
        return {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}
    event = envelope(
        source=entry["Source"],
        detail_type=entry["DetailType"],
        resources=entry.get("Resources", []),
        detail=detail,
        moment=_seconds(entry.get("Time")),
    )
    if rules:
        _route(rules, event)
    return {"EventId": event["id"]}


def _seconds(moment: Any) -> float | None:
    if moment is None:
        return None
    return float(moment.timestamp() if hasattr(moment, "timestamp") else moment)


def _send_to_targets(self: Any, original_event: dict[str, Any], transform_input: bool = True) -> None:
    """For what moto itself sends; nothing of the sandbox comes this way."""
    del transform_input
    event = {**original_event, **{k: v for k, v in envelope_of(original_event).items() if k in ("id", "time")}}
    event.pop("ingestion-time", None)
    if self.state != "DISABLED" and _may_match(self, str(event["source"]), str(event["detail-type"])):
        _route([self], event)


def envelope_of(event: dict[str, Any]) -> dict[str, Any]:
    """AWS's envelope for an event that moto built."""
    return envelope(
        source=str(event["source"]),
        detail_type=str(event["detail-type"]),
        resources=event.get("resources", []),
        detail=event["detail"],
    )


def _deliver(rule: Any, target: dict[str, Any], event: dict[str, Any]) -> None:
    """One event to one target, again after a pause when that may help, else to the target's dead-letter queue."""
    allowed = int(target.get("RetryPolicy", {}).get("MaximumRetryAttempts", len(RETRY_SECONDS)))
    pauses = RETRY_SECONDS[:allowed]
    attempts = 0
    while failure := _failure(target, event, rule.arn):
        if not failure.retriable or attempts == len(pauses):
            break
        time.sleep(pauses[attempts])
        attempts += 1
    if failure is None:
        return
    log.warning("rule %s could not deliver to %s: %s", rule.name, target["Arn"], failure)
    if queue := target.get("DeadLetterConfig", {}).get("Arn"):
        exhausted = "MaximumRetryAttempts" if failure.retriable else None
        event_targets.dead_letter(queue, event, rule.arn, target["Arn"], failure, attempts, exhausted)


def _failure(target: dict[str, Any], event: dict[str, Any], rule_arn: str) -> event_targets.UndeliverableError | None:
    """Why a target did not take an event; None when it did. The sender of the event never sees it."""
    try:
        event_targets.send(target, event, rule_arn)
    except event_targets.UndeliverableError as error:
        return error
    except Exception as error:  # noqa: BLE001  # a delivery's outermost edge; logged by the caller
        return event_targets.UndeliverableError("INTERNAL_ERROR", repr(error), retriable=True)
    return None


# ---- schedules -------------------------------------------------------------------------------------------------------
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}


def interval_seconds(expression: str) -> int | None:
    """Of `rate(…)`. cron(…) rules are kept but never fire in the sandbox."""
    found = _RATE.fullmatch(expression or "")
    return int(found[1]) * _UNIT_SECONDS[found[2]] if found else None


def scheduled_event(rule_arn: str) -> dict[str, Any]:
    """What EventBridge sends when a schedule is due."""
    return envelope(source="aws.events", detail_type="Scheduled Event", resources=[rule_arn], detail={})


def _fire_schedules() -> None:
    """Fire rate() rules. AWS counts from the rule's creation; the first firing is one interval later."""
    due: dict[str, float] = {}
    while True:
        time.sleep(1)
        moment, known = time.monotonic(), {}
        for rule in _rules("default"):
            if interval := interval_seconds(rule.scheduled_expression):
                known[rule.arn] = due.get(rule.arn, moment + interval)
                if moment >= known[rule.arn]:
                    known[rule.arn] = moment + interval
                    event = scheduled_event(rule.arn)
                    for target in list(rule.targets):
                        _pool.submit(_deliver, rule, target, event)
        due = known
