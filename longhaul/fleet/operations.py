"""What operators do to a queue that is published: requeue a job, pause it, rehearse an interruption (F25)."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from longhaul.fleet import lease as rules
from longhaul.fleet.errors import UnansweredError
from longhaul.fleet.hosts import StoredHost
from longhaul.fleet.keys import QueueKeys
from longhaul.fleet.lease import Lease, State
from longhaul.fleet.objects import Store
from longhaul.fleet.queue import PAUSED, RefusedError
from longhaul.fleet.runtime import Runtime
from longhaul.fleet.stack import Stack, ThereAlreadyError, write_once

_NOTICE = "interruption-notice"


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """`paused.json`: while it is there, nothing is taken and housekeeping does nothing."""

    nonce: str
    at: datetime
    reason: str = ""


# ---- requeue ---------------------------------------------------------------------------------------------------------
def requeue(store: Store, keys: QueueKeys, job: str, runtime: Runtime, *, resume: bool) -> Lease:
    """Let a job that is done run again, afresh or with the records that counted so far; the claim as it stands then.

    The claim moves with `If-Match`, and only from done: whoever completes, requeues or takes it at the same moment
    wins or loses as a whole (S70, S64). `RefusedError` says in which state it is instead; an `UnansweredError` passes.
    """
    key = keys.claim(job)
    found = store.get(key)
    now = rules.seen(found)
    if found is None or now is None:
        raise RefusedError(f"job {job} has no claim yet: it is not done, and will be taken as it is")
    if now.lease is None:
        raise RefusedError(f"the claim of job {job} was written by another version of Longhaul")
    if now.lease.state is not State.DONE:
        owner = now.lease.owner.instance
        raise RefusedError(f"job {job} is {now.lease.state}, attempt {now.lease.attempt} of {owner}, and not done")
    body = rules.requeued(now.lease, resume=resume, nonce=runtime.token(), wall=runtime.wall())
    try:
        write_once(store, key, rules.encode(body), runtime, replaces=found.etag)
    except ThereAlreadyError as error:
        there = rules.seen(error.found)
        if there is not None and there.lease is not None and _is_after(there.lease, body):
            return body  # a worker has taken it meanwhile
        raise RefusedError(f"job {job} was requeued by somebody else at the same moment") from error
    return body


def _is_after(there: Lease, body: Lease) -> bool:
    """Whether what stands there comes after our write, or after another operator's that said the same."""
    return there.generation == body.generation and there.since == body.since


# ---- pause -----------------------------------------------------------------------------------------------------------
def pause(store: Store, keys: QueueKeys, runtime: Runtime, *, reason: str = "") -> bool:
    """Let workers take nothing more; what runs goes on. False: it was paused already."""
    body = msgspec.json.encode(Pause(nonce=runtime.token(), at=runtime.wall(), reason=reason))
    try:
        write_once(store, keys.document(PAUSED), body, runtime)
    except ThereAlreadyError:
        return False
    return True


def resume(stack: Stack, keys: QueueKeys) -> bool:
    """Let workers take jobs again. False: it was not paused."""
    found = stack.store.get(keys.document(PAUSED))
    if found is None:
        return False
    stack.remove(keys.document(PAUSED), found.etag)
    return True


# ---- rehearse --------------------------------------------------------------------------------------------------------
def rehearsal_command(host: StoredHost, text: str) -> str:
    """The shell command that leaves a notice in the worker's directory, whole or not at all."""
    path = str(PurePosixPath(host.directory) / _NOTICE)
    new = shlex.quote(path + ".new")
    return f"printf '%s\\n' {shlex.quote(text)} > {new} && mv {new} {shlex.quote(path)}"


def send_rehearsal(ssm: Any, host: StoredHost, text: str) -> str:
    """Have Systems Manager run it on the instance; the id of the command. An `UnansweredError` passes."""
    try:
        answer = ssm.send_command(
            InstanceIds=[host.instance],
            DocumentName="AWS-RunShellScript",
            Comment="longhaul fleet rehearse",
            Parameters={"commands": [rehearsal_command(host, text)]},
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "InvalidInstanceId":
            raise RefusedError(f"Systems Manager does not reach {host.instance}: it is gone, or not managed") from error
        raise UnansweredError(f"SendCommand: {code}") from error
    except BotoCoreError as error:
        raise UnansweredError(f"SendCommand: {type(error).__name__}") from error
    return str(answer["Command"]["CommandId"])


def replace_instance(autoscaling: Any, instance: str) -> None:
    """Terminate an instance without decrement: its group starts another one. An `UnansweredError` passes."""
    try:
        autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=instance, ShouldDecrementDesiredCapacity=False)
    except ClientError as error:
        raise UnansweredError(
            f"TerminateInstanceInAutoScalingGroup {instance}: {error.response['Error']['Code']}"
        ) from error
    except BotoCoreError as error:
        raise UnansweredError(f"TerminateInstanceInAutoScalingGroup {instance}: {type(error).__name__}") from error
