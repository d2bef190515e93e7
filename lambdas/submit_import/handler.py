"""Submit an import for every eval log that appears in the logs bucket (R6a)."""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from longhaul.reimport.submission import JobTarget, submit

logger = Logger()
batch = boto3.client("batch")
target = JobTarget.from_environment(os.environ)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    """Take one S3 `Object Created` event of EventBridge; answer with the id of the job."""
    logger.append_keys(event_id=event.get("id"))
    job_id = submit(batch, event["detail"], target)
    logger.info("submitted", extra={"job_id": job_id, "size_bytes": event["detail"]["object"].get("size")})
    return {"jobId": job_id}
