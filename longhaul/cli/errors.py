"""From an error to one line and an exit code (R22): what failed, where, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from longhaul.benchmark.errors import BenchmarkError, ConfigurationError
from longhaul.fleet.errors import FleetError, UnansweredError
from longhaul.fleet.keys import IllegalNameError
from longhaul.fleet.location import IllegalLocationError
from longhaul.reimport.errors import InvalidArgumentError, ReimportError

FAILED, BAD_ARGUMENT, BAD_ENVIRONMENT = 1, 2, 3

_SIGN_IN = "sign in (`aws sso login`, or set AWS_PROFILE) and try again"
_SANDBOX = 'eval "$(longhaul sandbox env)"'
_SIGN_IN_CODES = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_DENIED_CODES = {"403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}


class EnvironmentProblemError(Exception):
    """The environment cannot be used: no credentials, wrong region, stack not deployed, sandbox not running."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What the operator reads, and the exit code of the process."""

    message: str
    exit_code: int


def explain(error: Exception) -> Problem | None:
    """Return what to say of `error`, or None when it is a bug of ours that deserves its traceback."""
    if isinstance(error, EnvironmentProblemError):
        return Problem(message=str(error), exit_code=BAD_ENVIRONMENT)
    if isinstance(error, InvalidArgumentError | ConfigurationError | IllegalNameError | IllegalLocationError):
        return Problem(message=str(error), exit_code=BAD_ARGUMENT)
    if isinstance(error, UnansweredError) and isinstance(error.__cause__, ClientError | BotoCoreError):
        return explain(error.__cause__)  # which says what can be done about it
    if isinstance(error, ReimportError | BenchmarkError | FleetError):
        return Problem(message=str(error), exit_code=FAILED)
    if isinstance(error, OSError) and error.filename is not None:  # a file of the operator's, or a full disk
        return Problem(message=f"{error.filename}: {error.strerror}", exit_code=FAILED)
    if isinstance(error, ClientError):
        return _explain_answer(error)
    if isinstance(error, BotoCoreError):
        return _explain_client(error)
    return None


def _explain_answer(error: ClientError) -> Problem:
    code = error.response.get("Error", {}).get("Code", "?")
    what = f"AWS refused {error.operation_name}: {code}"
    if code in _SIGN_IN_CODES:
        return Problem(message=f"{what}; {_SIGN_IN}", exit_code=BAD_ENVIRONMENT)
    if code in _DENIED_CODES:
        return Problem(message=f"{what}; your role may not do this here", exit_code=BAD_ENVIRONMENT)
    if code == "NoSuchBucket":
        bucket = error.response.get("Error", {}).get("BucketName", "")  # S3 says it, botocore's types do not know
        what = f"{what} {bucket}".rstrip()
    detail = error.response.get("Error", {}).get("Message", "")
    return Problem(message=f"{what}: {detail}" if detail else what, exit_code=FAILED)


def _explain_client(error: BotoCoreError) -> Problem:
    if isinstance(error, NoRegionError):
        return Problem(message="no AWS region is set; set AWS_REGION to the stack's region", exit_code=BAD_ENVIRONMENT)
    if isinstance(error, ProfileNotFound):
        return Problem(message=f"{error}; set AWS_PROFILE to one of `aws configure list-profiles`", exit_code=3)
    if isinstance(
        error,
        NoCredentialsError | PartialCredentialsError | SSOError | TokenRetrievalError | UnauthorizedSSOTokenError,
    ):
        remedy = f"{_SIGN_IN}; for the sandbox: {_SANDBOX}"
        return Problem(message=f"no usable AWS credentials ({error}); {remedy}", exit_code=BAD_ENVIRONMENT)
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        remedy = "check the network and AWS_REGION; `longhaul sandbox status` if it is the sandbox"
        return Problem(message=f"{error}; {remedy}", exit_code=BAD_ENVIRONMENT)
    return Problem(message=str(error), exit_code=FAILED)
