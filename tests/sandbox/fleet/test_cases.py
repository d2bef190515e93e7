"""Complaints about systems of this kind, with real workers (case-Q13, case-Q16)."""

from __future__ import annotations

import json
import signal
import sys
import time

import pytest

from tests.sandbox.fleet.conftest import Fleet
from tests.sandbox.fleet.test_end_to_end import config

HANGS_IN_THE_FOURTH = "import os, time; time.sleep(60 if '.rep-3.g0-a1' in os.environ['LONGHAUL_TRIAL'] else 0)"
CRASHES_ITS_HOST = """
import psutil
for one in reversed(psutil.Process().parents()):
    if "longhaul.cli" in one.cmdline():
        one.kill()
"""


@pytest.mark.timeout(200)
def test_case_q13_death_without_notice(fleet: Fleet) -> None:
    """SIGKILL of the host after trial 3 of 10: another runs 4 to 10 once the lease is over; ten count, none twice."""
    fleet.publish(config(jobs=1, repetitions=10, code=HANGS_IN_THE_FOURTH, warmups=0))
    first = fleet.start("h0")
    end = time.monotonic() + 60
    while not any(".rep-3." in key for key in fleet.objects(f"fleet/{fleet.queue}/results/")):
        assert time.monotonic() < end, fleet.logs()
        time.sleep(0.05)
    first.signal(signal.SIGKILL)
    first.process.wait(timeout=30)
    second = fleet.start("h1")
    fleet.wait(120)
    assert second.process.returncode == 0
    [claim] = fleet.objects(f"fleet/{fleet.queue}/claims/").values()
    assert (claim["state"], claim["attempt"], claim["completion"]["outcome"]) == ("done", 2, "success")
    records = {
        key: one
        for key, one in fleet.objects(f"fleet/{fleet.queue}/results/").items()
        if "/checkpoint/" in key and not key.endswith("-start.json")
    }
    measured = sorted((one["number"], one["attempt"]) for one in records.values())
    assert measured == [(number, 1 if number < 3 else 2) for number in range(10)]


@pytest.mark.timeout(200)
def test_case_q16_a_job_that_kills_every_worker(fleet: Fleet) -> None:
    """F17, S68: the fifth taker in a row ends it, with a reason; the other job is measured all the same."""
    poison = json.dumps([sys.executable, "-c", CRASHES_ITS_HOST])
    quick = json.dumps([sys.executable, "-c", "pass"])
    fleet.publish(
        '[run]\nid = "run"\nwarmups = 0\nrepetitions = 2\n'
        f'[[case]]\nname = "poison"\napi_weight = 2\nparameters = {{ command = {poison} }}\n'
        f'[[case]]\nname = "other"\napi_weight = 1\nparameters = {{ command = {quick} }}\n'
    )
    codes = []
    while not codes or codes[-1] != 0:
        assert len(codes) < 8, fleet.logs()
        codes.append(fleet.start("h0").process.wait(timeout=100))
    assert codes == [-signal.SIGKILL] * 4 + [0]
    claims = fleet.objects(f"fleet/{fleet.queue}/claims/")
    outcomes = {key.rsplit("/", 1)[1].split("-")[0]: one["completion"]["outcome"] for key, one in claims.items()}
    assert outcomes == {"poison": "abandoned", "other": "success"}
    said = fleet.run("fleet", "status", fleet.queue, "--results", fleet.results, ends=None).stdout
    assert "abandoned" in said


@pytest.mark.timeout(100)
def test_a_host_that_can_run_nothing_leaves_the_jobs_to_others(fleet: Fleet) -> None:
    """F17: it fails two attempts and ends; status tells why; no job is abandoned, another host measures both."""
    fleet.publish(config(jobs=2, repetitions=2, code="pass"))
    sick = fleet.start("h0")
    (sick.directory / "results").write_text("where the folders of attempts should be")
    assert sick.process.wait(timeout=60) == 75
    assert "attempts in a row ended for a fault of this host" in fleet.logs()
    assert [one["attempt"] for one in fleet.objects(f"fleet/{fleet.queue}/claims/").values()] == [1, 1]
    (host,) = fleet.objects(f"fleet/{fleet.queue}/hosts/").values()
    assert host["doing"] == "quarantined"
    assert "results" in host["why"]
    fleet.start("h1")
    fleet.wait(60)
    claims = fleet.objects(f"fleet/{fleet.queue}/claims/").values()
    assert [one["completion"]["outcome"] for one in claims] == ["success"] * 2
