"""`python -m tests.damage --count 10000 --seed 1 [--logs FOLDER]`: import damaged logs, print what came of it.

Without --logs the variants are of the tests' own logs. A fault names its log and index; `--only INDEX` repeats it.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psycopg

from longhaul.warehouse.migrate import migrate
from sandbox import postgres
from tests.damage.runner import Finding, batch
from tests.logs import DEFLATE, dumps, header, sample, write_log

BATCH = 100  # variants a process


def own_logs(folder: Path) -> list[Path]:
    """Small logs of several shapes."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = [sample(n, uuid=f"u{n}", input=f"question {n} " * 20) for n in range(6)]
    long = [{"event": "score", "intermediate": True, "scorer": "s", "score": {"value": n}} for n in range(40)]
    odd = sample("a/b é", uuid="odd", events=long, attachments={"1" * 32: "x" * 300}, scores={"s": {"value": 2**70}})
    legacy = folder / "document.json"
    legacy.write_bytes(dumps(header("eval-d", samples=2) | {"samples": [sample(1, uuid="d1"), sample(2, uuid="d2")]}))
    return [
        write_log(folder / "zstd.eval", [*samples, odd], head=header("eval-z", samples=7)),
        write_log(folder / "deflate.eval", samples[:3], head=header("eval-f", samples=3), method=DEFLATE),
        write_log(folder / "one.eval", [odd], head=header("eval-o")),
        legacy,
    ]


def main() -> int:
    """Run; 1 if anything is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, help="a folder of whole logs")
    parser.add_argument("--only", type=int, help="just the variant with this number")
    options = parser.parse_args()
    os.environ["LONGHAUL_WAREHOUSE_PATIENCE_SECONDS"] = "0"
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = postgres.start(folder / "postgres")
        try:
            logs = sorted(options.logs.rglob("*.*")) if options.logs else own_logs(folder / "logs")
            migrate(server.url_for("warehouse"))
            numbers = [options.only] if options.only is not None else list(range(options.count))
            for at, base in enumerate(logs):
                mine = [number for number in numbers if number % len(logs) == at]
                spool = folder / f"spool{at}"
                spool.mkdir()
                for start in range(0, len(mine), BATCH):
                    findings += _in_a_process(server, base, spool, options.seed, mine[start : start + BATCH])
        finally:
            server.stop()
    return _report(findings, options.seed)


def _in_a_process(server: postgres.Server, base: Path, spool: Path, seed: int, indices: list[int]) -> list[Finding]:
    """A fresh database, and a process of its own, so that memory is that of one import."""
    with psycopg.connect(server.url_for("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS damage WITH (FORCE)")
        connection.execute("CREATE DATABASE damage TEMPLATE warehouse STRATEGY FILE_COPY")
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        return pool.submit(batch, server.url_for("damage"), base, spool, seed, indices).result(timeout=BATCH * 30)


def _report(findings: list[Finding], seed: int) -> int:
    table = collections.Counter((one.kind, one.outcome.label) for one in findings)
    labels = sorted({one.outcome.label for one in findings})
    print(f"{'kind':32}" + "".join(f"{label:>22}" for label in labels))
    for kind in sorted({one.kind for one in findings}):
        print(f"{kind:32}" + "".join(f"{table[kind, label]:>22,}" for label in labels))
    faults = [one for one in findings if one.faults]
    worst = max(findings, key=lambda one: one.peak_bytes)
    slowest = max(findings, key=lambda one: one.seconds)
    print(f"{len(findings):,} variants, seed {seed}, {len(faults)} faults")
    print(f"peak memory {worst.peak_bytes >> 20} MiB ({worst.kind}), longest {slowest.seconds:.1f} s ({slowest.kind})")
    for one in faults[:40]:
        print(f"  {one.log} #{one.index}, {one.kind}: {'; '.join(one.faults)}: {one.reason}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
