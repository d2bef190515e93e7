"""RESULTS.md of what a fleet asks of S3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perf.fleet.counting import DOLLARS, PAGE, dollars, of
from perf.fleet.job import LEASE_SECONDS, Counted
from perf.fleet.scale import Idle, Ran

DAY = 86400
BOUND = 12  # requests of a job beside two for each trial and renewals, as the issue asks


def text(counted: Sequence[Counted], idle: Idle, ran: Ran) -> str:
    """The whole page."""
    prices = ", ".join(f"{verb} ${price * 1000:g}" for verb, price in DOLLARS.items())
    return "\n".join(
        [
            "# What a fleet asks of S3",
            "",
            "Written by `python -m perf.fleet`; do not edit. The worker's own code on virtual time (tests/simulation),",
            "without faults; every request and every page of a listing counts.",
            f"Prices are list prices of S3 Standard in us-east-1 for 1,000 requests: {prices}.",
            f"Leases last {LEASE_SECONDS:.0f} s and are renewed every tenth of that.",
            "",
            *_jobs(counted),
            *_idle(idle),
            *_scale(ran, counted),
        ]
    )


def _jobs(counted: Sequence[Counted]) -> list[str]:
    rows = [
        (
            one.trials,
            one.slots,
            one.coordination,
            one.records,
            one.files,
            one.renewals,
            one.whole,
            "yes" if one.whole <= BOUND + 2 * one.trials else f"{one.whole - BOUND - 2 * one.trials} more",
        )
        for one in counted
    ]
    return [
        "## One job, from take to done",
        "",
        "The first look at its claim to the last slot's return, a first attempt that nothing interrupts; a test",
        "counts the same between a real worker and S3. Coordination: the claim is read, created and done, what is",
        "left of earlier attempts is listed once, the index is written; each slot of the stack is read (F6), each",
        "that the job weighs is taken and given back. Records are the two of each trial. Files: environment, events,",
        "trials, log, and the summary as JSON, CSV and Markdown. Records of hosts are counted below.",
        "",
        *_table(
            (
                *("trials", "slots", "coordination", "records", "files", "renewals", "all but renewals"),
                f"≤ {BOUND} + 2 per trial",
            ),
            rows,
        ),
        "",
    ]


def _idle(idle: Idle) -> list[str]:
    pages = -(-idle.keys // PAGE)
    allowed = 2 * (1 + pages) * idle.scans
    return [
        f"## An idle worker beside {idle.running} that run, {idle.keys} jobs",
        "",
        "A host that is to be kept, for an hour; all other jobs are done.",
        "",
        *_table(
            ("", "counted", "bound"),
            [
                ("scans", idle.scans, ""),
                ("LIST", idle.lists, f"{allowed} = 2 × (1 + {pages}) a scan"),
                ("GET of claims", idle.gets, f"{idle.changed} versions written meanwhile"),
            ],
        ),
        "",
    ]


def _scale(ran: Ran, counted: Sequence[Counted]) -> list[str]:
    rate = sum(ran.counts.values()) / ran.seconds
    rows = [
        (verb, area, count, f"{count / ran.jobs:.1f}", f"{count / ran.seconds:.2f}")
        for (verb, area), count in sorted(ran.counts.items())
    ]
    day = dollars(ran.counts) / ran.seconds * DAY
    one = next(each for each in counted if each.trials > 5)  # its transfers, for those that are left out here
    transfers = (one.records + one.files) * DOLLARS["PUT"]
    jobs_a_day = ran.jobs / ran.seconds * DAY
    totals = ", ".join(f"{of(ran.counts, verb) / ran.seconds:.1f} {verb}" for verb in DOLLARS)
    return [
        f"## {ran.jobs} jobs, {ran.workers} workers",
        "",
        f"Jobs of {ran.job_seconds:.0f} s (half to one and a half times as long) without slots, until the last one was",
        f"done: {ran.seconds / 3600:.1f} hours of the fleet, {ran.cpu_seconds:.0f} s of a core here. What an attempt",
        "transfers is left out, being the same for every job: see above.",
        "",
        *_table(("verb", "about", "requests", "a job", "a second"), rows),
        "",
        f"- {rate:.1f} requests a second: {totals}. S3 allows 3,500 writes and 5,500 reads a second for a prefix.",
        f"- ${day:.2f} a day for coordination, ${day / ran.workers:.3f} for each worker.",
        f"- ${jobs_a_day * transfers:.2f} a day more for what {jobs_a_day:.0f} jobs a day of {one.trials} trials each",
        "  transfer, at the price of a write for everything.",
        "",
    ]


def _table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]
