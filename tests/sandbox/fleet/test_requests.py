"""What one job asks of S3, counted on the wire between a real worker with all its commands and S3."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from longhaul.fleet.keys import slot
from perf.fleet.job import KEYS, count, counted
from tests.sandbox.fleet.conftest import Fleet

REPETITIONS = 3
FILES = {"environment.json", "events.jsonl", "trials.jsonl", "log.txt"}
SUMMARY = {"job-summary.json", "job-summary.csv", "job-summary.md"}
DROPPED = {"host", "expect", "connection"}


class Wire(ThreadingHTTPServer):
    """Passes every request on, and remembers what it asked: verb and key, of a listing its prefix."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        self.endpoint = urlsplit(endpoint)
        self.told: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), Passing)


class Passing(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Wire

    def do_GET(self) -> None:
        """Pass it on."""
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        asked = urlsplit(self.path)
        query = parse_qs(asked.query)
        key = query["prefix"][0] if "prefix" in query else asked.path
        verb = "LIST" if "list-type" in query else self.command
        self.server.told.append((verb, key.partition("bench/stack/")[2]))
        to = http.client.HTTPConnection(str(self.server.endpoint.hostname), self.server.endpoint.port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
        to.request(self.command, self.path, body, {**headers, "Host": self.server.endpoint.netloc})
        answer = to.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = int(answer.getheader("Content-Length") or 0) if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)
        to.close()

    do_PUT = do_HEAD = do_POST = do_DELETE = do_GET  # noqa: N815  as the base class wants them

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def wire(fleet: Fleet) -> Iterator[Wire]:
    """Between the fleet's commands and S3."""
    with Wire(fleet.environment["AWS_ENDPOINT_URL"]) as wire:
        threading.Thread(target=wire.serve_forever, daemon=True).start()
        fleet.environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{wire.server_address[1]}"
        yield wire
        wire.shutdown()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("slots", [0, 1])
def test_a_job_asks_as_much_as_is_said(fleet: Fleet, wire: Wire, slots: int) -> None:
    """12 requests and 2 for each trial, beside renewals; with slots one to read each of the stack's, two for each held.

    perf/fleet counts the same in the simulation, which writes fewer files: they are counted here.
    """
    command = json.dumps([sys.executable, "-S", "-c", "import time; time.sleep(0.3)"])
    fleet.publish(
        f'[run]\nid = "run"\nrepetitions = {REPETITIONS}\n'
        f'[[case]]\nname = "case"\nparameters = {{ command = {command} }}\n'
        f'[[job]]\nid = "job"\ncases = ["*"]\napi_weight = {slots}\n'
    )
    fleet.start("h0")
    fleet.wait(60)
    assert fleet.workers[0].process.returncode == 0, fleet.logs()
    real, simulated = counted(wire.told, REPETITIONS + 1, slots), count(REPETITIONS, slots)
    prefix = f"{KEYS.results('job')}g0/attempt-1/"
    about = [(verb, key.removeprefix(prefix)) for verb, key in wire.told if key.startswith(KEYS.results("job"))]
    of_files = [one for one in about if "checkpoint/" not in one[1]]
    assert sorted(of_files) == sorted([("LIST", KEYS.results("job")), *(("PUT", name) for name in FILES | SUMMARY)])
    assert (real.records, real.files) == (simulated.records, simulated.files) == (2 * (REPETITIONS + 1), 7)
    read = sum(one in {("GET", slot(number)) for number in range(4)} for one in wire.told)
    assert read == 4 * slots
    assert real.whole - read == 12 + 2 * slots + 2 * real.trials
    assert simulated.whole == 12 + 3 * slots + 2 * simulated.trials
