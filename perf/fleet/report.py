"""RESULTS.md of what a fleet asks of S3."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from longhaul.fleet.queue import PAUSED
from perf.fleet.counting import DOLLARS, PAGE, dollars, of
from perf.fleet.job import LEASE_SECONDS, Counted
from perf.fleet.look import TRIALS, Looks
from perf.fleet.scale import Idle, Ran
from tests.simulation.host import DULL_SECONDS

DAY = 86400
WRITES, READS = 3500, 5500  # a second that S3 promises for a partition of a prefix
BOUND = 12  # requests of a job beside two for each trial and renewals, as the issue asks


def text(counted: Sequence[Counted], idle: Idle, looks: Looks, ran: Ran) -> str:
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
            *_looks(looks),
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


def _looks(looks: Looks) -> list[str]:
    rows = [
        (name, one.reads, f"{one.cpu_seconds:.1f} s", f"{one.peak_bytes / 1e6:.0f} MB")
        for name, one in (("first", looks.first), ("next", looks.next))
    ]
    return [
        f"## A real worker's look at {looks.jobs} jobs",
        "",
        *_prose(
            f"The worker's own S3 client and listing, against a local server in another process. {looks.running} jobs",
            f"run, all others are done with {TRIALS} trials each. The first look of a new host reads every claim,",
            "the next one those that were renewed meanwhile. Memory is what the process has more than before.",
        ),
        "",
        *_table(("look", "claims read", "CPU", "memory at most"), rows),
        "",
        *_prose("Nearly all of that is botocore's time. A worker looks at the queue while it measures nothing."),
        "",
    ]


def _scale(ran: Ran, counted: Sequence[Counted]) -> list[str]:
    rows = [
        (verb, area, count, ran.unmet[verb, area] or "", f"{count / ran.jobs:.1f}", f"{count / ran.seconds:.2f}")
        for (verb, area), count in sorted(ran.counts.items())
    ]
    return [
        f"## {ran.jobs} jobs, {ran.workers} workers",
        "",
        *_prose(
            f"Jobs of {ran.job_seconds:.0f} s (half to one and a half times as long) without slots, until the last one",
            f"was done: {ran.seconds / 3600:.1f} hours of the fleet. A request takes {DULL_SECONDS * 1000:.0f} ms.",
            "What an attempt transfers is left out, being the same for every job: see above.",
            f"Counting took {ran.cpu_seconds:.0f} s of a core, and {ran.peak_bytes / 1e6:.0f} MB of memory at most.",
        ),
        "",
        *_table(("verb", "about", "requests", "404 or refused", "a job", "a second"), rows),
        "",
        *_rates(ran),
        *_costs(ran, counted),
        "",
    ]


def _rates(ran: Ran) -> list[str]:
    second = {verb: of(ran.counts, verb) / ran.seconds for verb in DOLLARS}
    totals = ", ".join(f"{count:.1f} {verb}" for verb, count in second.items())
    reads = ran.counts["GET", "claims"]
    waited = reads / ran.jobs * DULL_SECONDS
    return [
        *_item(
            f"{sum(second.values()):.1f} requests a second: {totals}; {ran.busiest} in the busiest one. S3 promises",
            f"{WRITES} writes and {READS} reads a second for each partition of a prefix. If all of a stack is in one",
            f"that is {second['PUT'] / WRITES:.2%} of the writes and {second['GET'] / READS:.2%} of the reads.",
        ),
        *_item(
            f"{reads / sum(ran.counts.values()):.0%} of all requests are reads of claims, nearly all of jobs that",
            f"others run: each of {ran.workers} workers renews every {LEASE_SECONDS / 10:.0f} s, and whoever looks for",
            "its next job reads every claim that was written since its last look, though it will take only one.",
            "Their rate grows with the square of the workers, and not with the jobs. No worker can leave out",
            f"{ran.jobs * ran.workers / reads:.0%} of them: only a claim itself tells that its job is done.",
        ),
        *_item(
            f"They cost time rather than money: one after the other they take {waited:.0f} s before each job,",
            f"{waited / ran.job_seconds:.1%} of a host's time with jobs of {ran.job_seconds:.0f} s.",
        ),
    ]


def _costs(ran: Ran, counted: Sequence[Counted]) -> list[str]:
    a_day = DAY / ran.seconds
    day = dollars(ran.counts) * a_day
    reads = ran.counts["GET", "claims"] * DOLLARS["GET"] * a_day
    missing = of(ran.unmet, "GET")
    one = next(each for each in counted if each.trials > 5)  # its transfers, for those that are left out here
    transfers = (one.records + one.files) * DOLLARS["PUT"]
    return [
        *_item(
            f"${day:.2f} a day for coordination, ${day / ran.workers:.3f} for each worker;",
            f"${reads:.2f} of it for those reads.",
        ),
        *_item(
            "What is not there costs as much as what is, and so does a write that is refused:",
            f"{missing} reads were answered 404, {missing / ran.jobs:.1f} a job",
            f"(a claim before it is created, and `{PAUSED}`), for ${missing * DOLLARS['GET'] * a_day:.2f}",
            f"a day, and {of(ran.unmet, 'PUT')} writes were refused.",
        ),
        *_item(
            f"${ran.jobs * a_day * transfers:.2f} a day more for what {ran.jobs * a_day:.0f} jobs a day",
            f"of {one.trials} trials each transfer, at the price of a write for everything.",
        ),
    ]


def _prose(*words: str) -> list[str]:
    return textwrap.wrap(" ".join(words), 120, break_on_hyphens=False)


def _item(*words: str) -> list[str]:
    return textwrap.wrap(" ".join(words), 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def _table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]
