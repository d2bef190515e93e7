"""Write the reports of ended re-imports: at their status event, and hourly for those whose event was lost (R18)."""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from longhaul.reimport.errors import RefusedError
from longhaul.reimport.extraction import Extractor
from longhaul.reimport.sizing import Tiers

logger = Logger()
s3, sfn, tiers = boto3.client("s3"), boto3.client("stepfunctions"), Tiers.from_environment(os.environ)
extractor = Extractor.of(s3, sfn, os.environ["STATE_MACHINE_ARN"], os.environ["REIMPORT_BUCKET"], tiers)
RESERVE_SECONDS = 120.0  # of the time-out, for reading and writing after the wait


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Take a Step Functions status-change event, or anything else as the call for a sweep."""
    run_arn = event.get("detail", {}).get("executionArn")
    if run_arn is None:
        return {"runs": extractor.sweep()}
    logger.append_keys(execution=run_arn)
    wait = max(0.0, context.get_remaining_time_in_millis() / 1000 - RESERVE_SECONDS)
    try:
        reports = extractor.extract(run_arn, wait_seconds=wait)
    except RefusedError as reason:  # still running: the next event or the sweep takes it up
        logger.warning("put off", extra={"reason": str(reason)})
        return {"reports": []}
    logger.info("extracted", extra={"reports": [r.prefix for r in reports]})
    return {"reports": [r.prefix for r in reports]}
