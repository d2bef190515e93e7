"""The Lambda runtime for Python: loads a handler and answers invocations, one after the other.

Sources: "Building Lambda functions with Python", "Using the Lambda context object", "Lambda runtime API" (error
documents) of the Lambda developer guide. Run by `sandbox.function_workers` with `python -I -S`, so only three things
can be imported, as on AWS: the function's own asset, its layers, and the SDK that the runtime brings. Standard
library only.
"""

import importlib
import json
import os
import socket
import sys
import time
import traceback
from typing import Any


class Context:
    """What a handler gets as its second argument."""

    function_version = "$LATEST"
    identity = None
    client_context = None

    def __init__(self, request_id: str, arn: str, deadline: float) -> None:
        self.aws_request_id = request_id
        self.invoked_function_arn = arn
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self._deadline = deadline

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function's time is up."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def error_document(error: BaseException, request_id: str) -> dict[str, Any]:
    """What the caller gets for an exception."""
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": request_id,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }


def load(handler: str) -> Any:
    """The function behind `folder/module.name`."""
    module, _, name = handler.rpartition(".")
    return getattr(importlib.import_module(module.replace("/", ".")), name)


def main() -> None:
    """Serve invocations that come as JSON lines over the socket that is standard input."""
    handler_name, timeout_seconds, *paths = sys.argv[1:]
    channel = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.path[:0] = paths
    handler, broken = None, None
    try:
        handler = load(handler_name)
    except BaseException as error:  # noqa: BLE001  # it is the answer to the first invocation
        broken = error
    channel.sendall(b"initialised\n")
    for line in channel.makefile("r", encoding="utf-8"):
        request = json.loads(line)
        request_id, began = request["request_id"], time.monotonic()
        print(f"START RequestId: {request_id} Version: $LATEST", flush=True)
        context = Context(request_id, request["arn"], began + float(timeout_seconds))
        try:
            if broken is not None:
                raise broken
            answer: dict[str, Any] = {"result": json.dumps(handler(request["event"], context))}  # type: ignore[misc]
        except BaseException as error:  # noqa: BLE001  # it is the answer
            print(f"[ERROR] {type(error).__name__}: {error}")
            traceback.print_exc(file=sys.stdout)
            answer = {"error": error_document(error, request_id)}
        spent_ms = (time.monotonic() - began) * 1000
        print(f"END RequestId: {request_id}")
        print(
            f"REPORT RequestId: {request_id}\tDuration: {spent_ms:.2f} ms\tMemory Size: {context.memory_limit_in_mb} MB"
        )
        sys.stdout.flush()
        channel.sendall(json.dumps(answer).encode() + b"\n")
        if broken is not None:
            return


if __name__ == "__main__":
    main()
