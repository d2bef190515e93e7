"""Step Functions as AWS runs it: JSONata definitions with a Distributed Map over Batch jobs, caps, tolerance, stop,
redrive, results.

moto 5.2.5 keeps the state machines (names, tags, versions, CloudFormation); executions are this package's own, since
nearly all that happens in one differs from AWS there. Each module says what of AWS it imitates, with the page, and
which gap of moto it fills.

Assumed, as AWS's pages are silent: an empty list ends SUCCEEDED; a status without records has no file; result files of
a redrive go on in numbering; what a stopped redrive had not reached is in PENDING with the status PENDING_REDRIVE; an
ItemSelector that fails, or makes an input above 256 KiB, fails the map and not the item; Map Runs and executions are
listed newest first.

Still unlike AWS: no IAM; JSONata definitions only, with the states and tasks that `definition` names;
`jsonata-python` stands for AWS's JSONata; at most 256 children at once; an execution's history has no limit of
25,000 events while it runs; a child cannot be redriven by itself; no logging, tracing, encryption, aliases; events
arrive once and at once; nothing is forgotten after 90 days but a name.
"""

from __future__ import annotations

_installed = False


def install() -> None:
    """Give moto's Step Functions these executions. Call it before the server takes requests; once counts."""
    global _installed
    if _installed:
        return
    _installed = True
    from sandbox.step_functions import machines

    machines.install()
