"""Lambda: functions really run; asynchronous invocations are retried and end in the failure destination or the DLQ.

Sources: API_Invoke, "Error handling for asynchronous invocation", "Adding a destination", "Dead-letter queues" of the
Lambda developer guide. Gaps of moto 5.2.5 (`awslambda/models.py`): code runs in Docker only; an Event invocation runs
in the caller's request, once, and reports its error to the caller; every error is called Handled; no destinations, no
DLQ.
"""

from __future__ import annotations

import base64
import json
import logging
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from moto.awslambda import models
from moto.awslambda.exceptions import UnknownFunctionException

from sandbox import event_targets, surroundings
from sandbox.function_workers import Outcome, Pool

log = logging.getLogger(__name__)
RETRY_SECONDS = (1.0, 2.0)  # AWS: one minute, then two
_queue = ThreadPoolExecutor(8, thread_name_prefix="invoke")
_pool: Pool | None = None


class UnknownFunctionError(Exception):
    """No function of that name."""


def install(folder: Path) -> None:
    """Let moto's functions run; `folder` holds the unpacked assets."""
    global _pool
    _pool = Pool(folder)
    models.LambdaFunction.invoke = _invoke
    models.LambdaBackend.reset = _reset(models.LambdaBackend.reset)


def run(function: Any, event: Any) -> Outcome:
    """Invoke and wait."""
    if _pool is None:
        raise RuntimeError("functions.install() has not been called")
    backend = models.lambda_backends[surroundings.ACCOUNT][surroundings.region()]
    layers = [backend.layers_versions_by_arn(layer["Arn"]).code_bytes for layer in function.layers]
    return _pool.invoke(function, layers, event)


def invoke_later(arn: str, body: str) -> None:
    """An asynchronous invocation. An unknown function is refused at once; what goes wrong later no caller sees."""
    backend = models.lambda_backends[surroundings.ACCOUNT][surroundings.region()]
    try:
        function = backend.get_function(arn)
    except UnknownFunctionException as error:
        raise UnknownFunctionError(f"no function {arn}") from error
    _queue.submit(_work_off, function, json.loads(body), str(uuid.uuid4()))


def _invoke(self: Any, body: Any, request_headers: Any, response_headers: Any) -> bytes:
    event = json.loads(body) if body else {}
    kind = request_headers.get("x-amz-invocation-type", "RequestResponse")
    if kind == "DryRun":
        return b""
    if kind == "Event":
        _queue.submit(_work_off, self, event, str(uuid.uuid4()))
        return b""
    outcome = run(self, event)
    response_headers["x-amz-executed-version"] = "$LATEST"
    response_headers["x-amz-log-result"] = base64.b64encode(outcome.log.encode()[-4096:]).decode()
    if outcome.failed:
        response_headers["x-amz-function-error"] = "Unhandled"
    return outcome.document.encode()


def _work_off(function: Any, event: Any, request_id: str) -> None:
    """All attempts of one asynchronous invocation; the outermost edge of its thread."""
    try:
        config: dict[str, Any] = {}
        for one in function.event_invoke_config:
            config.update(one.config)
        pauses = RETRY_SECONDS[: int(config.get("MaximumRetryAttempts", len(RETRY_SECONDS)))]
        outcome, attempts = run(function, event), 1
        for pause in pauses:
            if not outcome.failed:
                break
            time.sleep(pause)
            outcome, attempts = run(function, event), attempts + 1
        _conclude(function, event, request_id, outcome, attempts, config)
    except Exception:
        log.exception("asynchronous invocation of %s", function.function_name)


def _conclude(
    function: Any, event: Any, request_id: str, outcome: Outcome, attempts: int, config: dict[str, Any]
) -> None:
    destinations = config.get("DestinationConfig") or {}
    destination = (destinations.get("OnFailure" if outcome.failed else "OnSuccess") or {}).get("Destination")
    if destination:
        record = {
            "version": "1.0",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "requestContext": {
                "requestId": request_id,
                "functionArn": f"{function.function_arn}:$LATEST",
                "condition": "RetriesExhausted" if outcome.failed else "Success",
                "approximateInvokeCount": attempts,
            },
            "requestPayload": event,
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST"},
            "responsePayload": json.loads(outcome.document),
        }
        if outcome.failed:
            record["responseContext"]["functionError"] = "Unhandled"
        event_targets.send({"Arn": destination}, record, "")
    dead_letters = getattr(function, "dead_letter_arn", None)
    if outcome.failed and dead_letters:
        reason = str(json.loads(outcome.document).get("errorMessage", ""))[:1024]
        values = (
            ("RequestID", "String", request_id),
            ("ErrorCode", "Number", "200"),
            ("ErrorMessage", "String", reason),
        )
        attributes = {name: {"DataType": kind, "StringValue": value} for name, kind, value in values}
        event_targets.to_queue(dead_letters, json.dumps(event), attributes)


def _reset(original: Any) -> Any:
    def reset(self: Any) -> None:
        if _pool is not None:
            _pool.clear()
        original(self)

    return reset
