"""How long a job takes from its start to asking for the log: the time until its GET arrives at a store of our own.

`python -m perf.importer.start DATABASE_URL` prints wall and CPU seconds.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import time

from perf.importer.process import ROOT

_TICKS = os.sysconf("SC_CLK_TCK")


def longhaul(database_url: str) -> tuple[float, float]:
    """`python -m longhaul.importer` with a bucket and a key: warehouse asked, object asked for."""
    arrived: list[tuple[float, float]] = []
    process: list[subprocess.Popen[bytes]] = []

    class Store(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            arrived.append((time.perf_counter(), _cpu_seconds(process[0].pid)))
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "perf",
            "AWS_SECRET_ACCESS_KEY": "perf",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "DATABASE_URL": database_url,
        }
        command = [sys.executable, "-m", "longhaul.importer", "--bucket", "logs", "--key", "evals/perf/none.eval"]
        started = time.perf_counter()
        process.append(
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        process[0].wait()
        server.shutdown()
    assert process[0].returncode == 11, process[0].returncode
    return arrived[0][0] - started, arrived[0][1]


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    print(*longhaul(sys.argv[1]))
