"""`Step Functions Execution Status Change` events on the default bus, of executions and of children alike.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html (detail fields; when input and
output together exceed 248 KB they are left out and `included` is false).
Gap of moto 5.2.5: it sends none. Children's events carry the child state machine's ARN, so a rule must match
`stateMachineArn` exactly (R18).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from moto.events.models import events_backends

from sandbox.step_functions import clock, json_text

if TYPE_CHECKING:
    from sandbox.step_functions.executions import Execution

MOST_PAYLOAD_BYTES = 248 * 1024
_log = logging.getLogger(__name__)


def detail(execution: Execution) -> dict[str, Any]:
    """The event's detail for the execution as it stands."""
    payload = sum(json_text.size_bytes(text) for text in (execution.input, execution.output or ""))
    included = payload <= MOST_PAYLOAD_BYTES
    status, reason = execution.redrivability()
    return {
        "executionArn": execution.arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": clock.milliseconds(execution.start_date),
        "stopDate": clock.milliseconds(execution.stop_date),
        "input": execution.input if included else None,
        "inputDetails": {"included": included},
        "output": execution.output if included else None,
        "outputDetails": None if execution.output is None else {"included": included},
        "error": execution.error,
        "cause": execution.cause,
        "stateMachineVersionArn": None,
        "stateMachineAliasArn": None,
        "redriveCount": execution.redrive_count,
        "redriveDate": clock.milliseconds(execution.redrive_date),
        "redriveStatus": status,
        "redriveStatusReason": reason,
    }


def publish(execution: Execution) -> None:
    """Put the event on the bus; a rule's broken target is never the execution's trouble."""
    try:
        entry = {
            "Source": "aws.states",
            "DetailType": "Step Functions Execution Status Change",
            "Resources": [execution.arn],
            "Detail": json.dumps(detail(execution)),
        }
        events_backends[execution.place.account][execution.place.region].put_events([entry])
    except Exception:  # noqa: BLE001 (logged; the rule's own dead-letter queue is for the rest)
        _log.exception("the status change of %s could not be published", execution.arn)
