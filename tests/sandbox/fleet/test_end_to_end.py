"""Twelve jobs, four workers, one S3: undisturbed, then killed, stopped and warned; the same is measured (I7, E2)."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

import pytest

from tests.sandbox.fleet.conftest import LEASE_SECONDS, Fleet, Worker

JOBS, REPETITIONS, WORKERS = 12, 4, 4
SECONDS = 0.4  # that a trial's command takes


QUICK = f"import time; time.sleep({SECONDS})"
SIXTH_IS_SLOW = "import os, time; time.sleep(60 if '.rep-6.g0-a1' in os.environ['LONGHAUL_TRIAL'] else 0)"


def config(jobs: int = JOBS, repetitions: int = REPETITIONS, code: str = QUICK, warmups: int = 1) -> str:
    """Jobs of one case each; a third of them weigh an API slot."""
    command = json.dumps([sys.executable, "-c", code])
    head = f'[run]\nid = "run"\nwarmups = {warmups}\nrepetitions = {repetitions}\n'
    cases = [
        f'[[case]]\nname = "case {n}"\napi_weight = {1 if n % 3 == 0 else 0}\n'
        f'[case.parameters]\ncommand = {command}\nenvironment = {{ NUMBER = "{n}" }}\n'
        for n in range(jobs)
    ]
    return head + "".join(cases)


def counted(fleet: Fleet) -> set[tuple[str, str, int]]:
    """The repetitions that the summaries of done jobs count, each once; nothing failed."""
    found: list[tuple[str, str, int]] = []
    for key, claim in fleet.objects(f"fleet/{fleet.queue}/claims/").items():
        assert claim["state"] == "done", (key, claim)
        assert claim["completion"]["outcome"] == "success", (key, claim["completion"])
        records = fleet.objects(f"fleet/{fleet.queue}/results/{key.rsplit('/', 1)[1]}/")
        merged = [records[one["key"]] for one in claim["completion"]["records"]]
        best: dict[tuple[str, str, int], Any] = {}
        for one in merged:
            if one.get("kind") == "rep" and one.get("outcome") == "success":
                best.setdefault((one["case"], one["scale"], one["number"]), one)
        found += best
        assert claim["completion"]["summary"] in records
    assert len(found) == len(set(found))
    return set(found)


def repetitions_started(fleet: Fleet) -> int:
    """Trials that count and were begun, over all attempts."""
    starts = [k for k in fleet.objects(f"fleet/{fleet.queue}/results/") if k.endswith("-start.json") and ".rep-" in k]
    return len(starts)


@pytest.mark.timeout(400)
def test_undisturbed_every_repetition_is_measured_once(fleet: Fleet) -> None:
    """L1, L5: all done in the first attempt, and every worker goes home."""
    fleet.publish(config())
    for n in range(WORKERS):
        fleet.start(f"h{n}")
    fleet.wait(180)
    assert [one.process.returncode for one in fleet.workers] == [0] * WORKERS
    found = counted(fleet)
    assert len(found) == JOBS * REPETITIONS
    assert {number for _, _, number in found} == set(range(REPETITIONS))
    assert repetitions_started(fleet) == JOBS * REPETITIONS
    claims = fleet.objects(f"fleet/{fleet.queue}/claims/").values()
    assert {claim["attempt"] for claim in claims} == {1}
    assert len({claim["owner"]["worker"] for claim in claims}) == WORKERS
    said = fleet.status()
    assert said["jobs"]["done"] == JOBS


@pytest.mark.timeout(600)
def test_killed_stopped_and_warned_the_same_is_measured(fleet: Fleet) -> None:
    """I1, I2, I7, E2: kill -9 of a host, SIGSTOP past the lease and SIGCONT, and notices, at random."""
    chance = random.Random(7)
    fleet.publish(config())
    names = iter(f"h{n}" for n in range(1000))
    for _ in range(WORKERS):
        fleet.start(next(names))
    interruptions: Counter[str] = Counter()
    resume: list[tuple[float, Worker]] = []
    following = time.monotonic() + 4

    def disturb() -> None:
        nonlocal following
        now = time.monotonic()
        for entry in [entry for entry in resume if entry[0] <= now]:
            resume.remove(entry)
            entry[1].signal(signal.SIGCONT)
        for one in fleet.workers:
            if one.process.poll() not in (None, 0) and not one.replaced:
                one.replaced = True
                fleet.start(next(names))
        if now < following or sum(interruptions.values()) >= 9:
            return
        following = now + chance.uniform(1.5, 3)
        stopped = {worker for _, worker in resume}
        running = [one for one in fleet.workers if one.process.poll() is None and one not in stopped]
        if not running:
            return
        victim = chance.choice(running)
        what = ("kill", "stop", "notice")[sum(interruptions.values()) % 3]
        interruptions[what] += 1
        if what == "kill":
            victim.signal(signal.SIGKILL)
        elif what == "stop":
            victim.signal(signal.SIGSTOP)
            resume.append((now + LEASE_SECONDS * 1.5, victim))
        else:
            victim.notice()

    fleet.wait(400, disturb)
    assert interruptions == Counter(kill=3, stop=3, notice=3)
    found = counted(fleet)
    assert len(found) == JOBS * REPETITIONS
    wasted = repetitions_started(fleet) - JOBS * REPETITIONS
    assert 0 <= wasted <= sum(interruptions.values())
    assert set(fleet.status()["jobs"]) >= {"done"}


@pytest.mark.timeout(300)
def test_the_pilot(fleet: Fleet) -> None:
    """F13, F18, F20: one case, 60 repetitions, a notice during repetition 6; attempt 2 runs 6 to 59 only, exit 0."""
    fleet.publish(config(jobs=1, repetitions=60, code=SIXTH_IS_SLOW))
    first = fleet.start("h0")
    end = time.monotonic() + 60
    while not any(".rep-6." in key for key in fleet.objects(f"fleet/{fleet.queue}/results/")):
        assert time.monotonic() < end, fleet.logs()
        time.sleep(0.05)
    first.notice()
    assert first.process.wait(timeout=100) == 76
    [claim] = fleet.objects(f"fleet/{fleet.queue}/claims/").values()
    assert (claim["state"], claim["attempt"]) == ("interrupted", 1)
    second = fleet.start("h1")
    fleet.wait(200)
    assert second.process.returncode == 0
    [(key, claim)] = fleet.objects(f"fleet/{fleet.queue}/claims/").items()
    job = key.rsplit("/", 1)[1]
    assert (claim["state"], claim["attempt"]) == ("done", 2)
    assert (claim["completion"]["outcome"], claim["completion"]["exit_code"]) == ("success", 0)
    left = fleet.objects(f"fleet/{fleet.queue}/results/{job}/g0/attempt-2/checkpoint/")
    numbers = sorted(one["number"] for k, one in left.items() if ".rep-" in k and not k.endswith("-start.json"))
    assert numbers == list(range(6, 60))
    summary = fleet.objects(claim["completion"]["summary"])[claim["completion"]["summary"]]
    text = json.dumps(summary)
    assert "Superseded: interrupted" in text
    [case] = summary["cases"]
    assert (case["n"], case["failed"], case["superseded"]) == (60, 0, 1)
