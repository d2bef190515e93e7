"""`python -m perf.fleet`: count what a fleet asks of S3, on virtual time, and write RESULTS.md."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from perf.fleet import job, report, scale
from perf.fleet.look import look

RESULTS = Path(__file__).with_name("RESULTS.md")
SIZES = ((3, 0), (3, 1), (10, 1), (10, 2), (60, 1))  # repetitions and slots of one job
IDLE_SECONDS = 3600.0


def main() -> None:
    """Count; the full size takes some ten minutes of one core."""
    parser = argparse.ArgumentParser(prog="perf.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="default %(default)s")
    parser.add_argument("--workers", type=int, default=200, help="default %(default)s")
    parser.add_argument("--job-seconds", type=float, default=600.0, help="mean time of a job (default %(default)s)")
    parser.add_argument("--print", action="store_true", help="print only")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    counted = [job.count(repetitions, slots) for repetitions, slots in SIZES]
    looks = look(options.jobs, options.workers)
    idle = scale.idle(options.jobs, options.workers, IDLE_SECONDS)
    ran = scale.run(options.jobs, options.workers, options.job_seconds)
    text = report.text(counted, idle, looks, ran)
    if not options.print:
        RESULTS.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
