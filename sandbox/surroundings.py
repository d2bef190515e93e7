"""What each process of the sandbox sees around it: account, endpoint, credentials, nothing of the user's AWS set-up."""

from __future__ import annotations

import functools
import os
import threading
from pathlib import Path
from typing import Any

ACCOUNT = "123456789012"
ROOT = Path(__file__).resolve().parent.parent  # the clone; it stands for the container image of every job
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox"}
NO_PROFILE = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE")
_client_lock = threading.Lock()


def region() -> str:
    """The one region of the sandbox."""
    return os.environ.get("AWS_REGION") or "us-east-1"


def endpoint() -> str:
    """The sandbox's address. `localhost`, since the CDK's asset publisher refuses a bare address."""
    return f"http://localhost:{os.environ['MOTO_PORT']}"


def aws_environment() -> dict[str, str]:
    """The variables with which any AWS SDK, CLI or CDK talks to the sandbox."""
    return {
        "AWS_ENDPOINT_URL": endpoint(),
        **CREDENTIALS,
        "AWS_REGION": region(),
        "AWS_DEFAULT_REGION": region(),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def child_environment() -> dict[str, str]:
    """A clean environment for jobs, functions and tools: no MOTO_*, no AWS_PROFILE, no configuration of the user."""
    return {**{k: v for k, v in os.environ.items() if k in _KEPT}, **aws_environment(), **NO_PROFILE}


def client(service: str) -> Any:
    """A boto3 client of this very server. Using one is thread-safe, creating one is not, hence the lock."""
    with _client_lock:
        return _client(service)


@functools.cache
def _client(service: str) -> Any:
    import boto3
    from botocore.config import Config

    connect: Any = boto3.client  # its overloads want literal names
    return connect(
        service,
        region_name=region(),
        endpoint_url=endpoint(),
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=64),
    )
