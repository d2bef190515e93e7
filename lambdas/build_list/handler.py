"""Build a list of logs to re-import from keys or a selector, by hand: `aws lambda invoke` (R19)."""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from longhaul.reimport.building import build_from_event
from longhaul.reimport.listing import READERS

logger = Logger()
s3 = boto3.client("s3", config=Config(max_pool_connections=READERS))
LOGS_BUCKET, REIMPORT_BUCKET = os.environ["LOGS_BUCKET"], os.environ["REIMPORT_BUCKET"]
SMALL_MAX_BYTES = int(os.environ["SMALL_MAX_BYTES"])


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Take `{"name", "keys" and/or "selector", "dry_run"}`; answer with the list's key and what it holds."""
    answer = build_from_event(s3, event, LOGS_BUCKET, REIMPORT_BUCKET, SMALL_MAX_BYTES)
    logger.info("built", extra={k: answer[k] for k in ("list_key", "items", "bytes", "missing", "duplicates")})
    return answer
