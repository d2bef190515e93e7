"""One worker's look at a large queue, with its real client: CPU time and memory of the worker's process alone."""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import resource
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from urllib.parse import parse_qs, urlsplit

from botocore.config import Config
from msgspec.structs import replace

from longhaul.fleet import lease as rules
from longhaul.fleet.lease import Completion, Lease, Outcome, Owner, Record, State, Terms
from longhaul.fleet.listing import Scanner
from longhaul.fleet.runtime import real
from longhaul.fleet.store import CONFIG, S3Store, session
from perf.fleet.counting import PAGE
from perf.fleet.job import KEYS, LEASE_SECONDS

BUCKET, TRIALS = "fleet", 11
ISO, HTTP = "%Y-%m-%dT%H:%M:%S.000Z", "%a, %d %b %Y %H:%M:%S GMT"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one look."""

    reads: int  # of claims
    cpu_seconds: float
    peak_bytes: int  # of memory, beyond what was needed before the first look


@dataclass(frozen=True, kw_only=True)
class Looks:
    """A worker's first look, at which everything is new, and the next, when all that run have renewed."""

    jobs: int
    running: int
    first: Cost
    next: Cost


def look(jobs: int, running: int) -> Looks:
    """All jobs but those that run are done. The S3 is another process, and answers from memory."""
    spawn = multiprocessing.get_context("spawn")  # nothing of this process's memory is to count
    here, there = spawn.Pipe()
    served = spawn.Process(target=_serve, args=(there, jobs, running), daemon=True)
    served.start()
    try:
        url = here.recv()
        measured = spawn.Process(target=_measure, args=(there, url), daemon=True)
        measured.start()
        measured.join()
        if measured.exitcode:
            raise RuntimeError("the worker's process failed")
        first, following = here.recv()
    finally:
        served.terminate()
        served.join()
    return Looks(jobs=jobs, running=running, first=first, next=following)


# ---- the worker ------------------------------------------------------------------------------------------------------
def _measure(told: Connection, url: str) -> None:
    client = session().client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",  # noqa: S106  nobody checks it
        config=CONFIG.merge(Config(s3={"addressing_style": "path"})),
    )
    store = S3Store(client, BUCKET)
    scanner = Scanner(keys=KEYS, store=store, runtime=real(), terms=Terms.of(LEASE_SECONDS))
    store.list(KEYS.results("job"))  # what any request needs is there before it counts
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    costs: list[Cost] = []
    for _ in range(2):
        began = time.process_time()
        scan = scanner.scan()
        needed = time.process_time() - began
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        reads = len(scan.claims) + (0 if costs else len(scan.finished))
        costs.append(Cost(reads=reads, cpu_seconds=needed, peak_bytes=peak))
    told.send(costs)


# ---- the S3 ----------------------------------------------------------------------------------------------------------
def _serve(told: Connection, jobs: int, running: int) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.queue = _Queue(jobs, running)  # type: ignore[attr-defined]
    told.send(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()


class _Queue:
    """Claims and index. Whoever runs a job renews its claim before each listing."""

    def __init__(self, jobs: int, running: int) -> None:
        self._jobs, self._running = jobs, running
        self._listings = itertools.count()
        self._version = 0

    def page(self, prefix: str, start: int) -> bytes:
        """A page of a listing, from that key on."""
        if prefix == KEYS.claims and start == 0:
            self._version = next(self._listings)
        count = self._jobs if prefix == KEYS.claims else self._jobs - self._running if prefix == KEYS.done else 0
        now = datetime.now(UTC).strftime(ISO)
        contents = "".join(
            f"<Contents><Key>{prefix}job-{number:05}</Key><LastModified>{now}</LastModified>"
            f"<ETag>&quot;{self.etag(number)}&quot;</ETag><Size>500</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for number in range(start, min(start + PAGE, count))
        )
        more = f"<NextContinuationToken>{start + PAGE}</NextContinuationToken>" if start + PAGE < count else ""
        return (
            f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{BUCKET}</Name>'
            f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{contents}</ListBucketResult>"
        ).encode()

    def etag(self, number: int) -> str:
        """Of a claim, or of its index."""
        return hashlib.md5(f"{number} {self._of(number)}".encode(), usedforsecurity=False).hexdigest()

    def claim(self, number: int) -> bytes:
        """The body of a claim."""
        owner = Owner(instance=f"i-{number:017x}", worker=self.etag(number))
        taken = rules.taken(None, owner, Terms.of(LEASE_SECONDS), nonce=self.etag(number), wall=datetime.now(UTC))
        return rules.encode(self._done(number, taken) if self._of(number) == 0 else taken)

    def _of(self, number: int) -> int:
        """The version of a claim that runs; 0 of one that is done."""
        return self._version + 1 if number >= self._jobs - self._running else 0

    def _done(self, number: int, taken: Lease) -> Lease:
        folder = f"{KEYS.results(f'job-{number:05}')}g0/attempt-1/"
        records = tuple(
            Record(
                key=f"{folder}checkpoint/scan-orders.100.rep-{trial}-1{end}.json",
                etag=f"{number * TRIALS + trial:032x}",
            )
            for trial in range(TRIALS)
            for end in ("-start", "")
        )
        end = Completion(outcome=Outcome.SUCCESS, exit_code=0, summary=f"{folder}job-summary.json", records=records)
        return replace(taken, state=State.DONE, completion=end)


class _Answers(BaseHTTPRequestHandler):
    """Two verbs of S3."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one packet, which waits for nothing

    def do_GET(self) -> None:
        """GET and LIST."""
        queue: _Queue = self.server.queue  # type: ignore[attr-defined]
        asked = urlsplit(self.path)
        query = parse_qs(asked.query)
        etag = ""
        if "list-type" in query:
            body = queue.page(query["prefix"][0], int(query.get("continuation-token", ["0"])[0]))
        else:
            number = int(asked.path.rsplit("-", 1)[1])
            body, etag = queue.claim(number), queue.etag(number)
        self.send_response(200)  # with a Date
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Last-Modified", datetime.now(UTC).strftime(HTTP))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""
