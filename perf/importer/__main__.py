"""`python -m perf.importer`: make the logs, run Longhaul and its peers in turn, print the ratios, write RESULTS.md."""

from __future__ import annotations

import argparse
import compileall
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perf.importer.process import ROOT, Bystanders, Run, Series, run
from perf.importer.report import Measured, Report

FOLDER = ROOT / "build" / "perf"
RESULTS = Path(__file__).with_name("RESULTS.md")
SLOW_READERS = ("read_eval_log", "read_eval_log_samples", "samples_df", "messages_df")
FAST_READERS = ("longhaul", "longhaul_messages", "zstd_and_scan", "zstd")
PARTS = ("readers", "large", "import", "loaded", "rows", "start", "long")


@dataclass(frozen=True, kw_only=True)
class Log:
    """A log to measure on."""

    path: Path
    json_bytes: int


def main() -> None:
    """Measure what was asked for; a full run takes about a quarter of an hour on two cores."""
    parser = argparse.ArgumentParser(prog="perf.importer", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each; the median counts (default %(default)s)")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part (again for more); prints only")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where logs are kept (default build/perf)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    compileall.compile_dir(ROOT / "longhaul", quiet=1)  # as in the image, whatever PYTHONDONTWRITEBYTECODE says here
    environment = {"PYTHONPATH": _libraries(options.folder), "INSPECT_DISPLAY": "none"}
    report = Report(runs=options.runs)
    for part in options.only or PARTS:
        print(f"measuring: {part}", file=sys.stderr, flush=True)
        others = Bystanders()
        _MEASURES[part](report, options.folder, options.runs, environment)
        report.disturbed(others.cores())
    print(report.text())
    if not options.only:
        RESULTS.write_text(report.text())


def _readers(report: Report, folder: Path, runs: int, environment: Mapping[str, str]) -> None:
    log = _made(folder, "imported")
    report.reading(log.path, log.json_bytes, _read(log, (*FAST_READERS, *SLOW_READERS), runs, environment))


def _large(report: Report, folder: Path, runs: int, environment: Mapping[str, str]) -> None:
    """The slow one only once: it takes half a minute of CPU time."""
    log = _made(folder, "decoded")
    found = {**_read(log, FAST_READERS, runs, environment), **_read(log, ("read_eval_log",), 1, environment)}
    report.reading(log.path, log.json_bytes, found)


def _read(log: Log, names: tuple[str, ...], runs: int, environment: Mapping[str, str]) -> Measured:
    subjects = {
        name: lambda name=name: run(["-m", "perf.importer.readers", name, str(log.path)], environment) for name in names
    }
    return _in_turn(subjects, runs)


def _import(report: Report, folder: Path, runs: int, environment: Mapping[str, str]) -> None:
    log = _made(folder, "imported")
    with _warehouse(folder) as fresh:
        again = fresh()
        job = ["-m", "longhaul.importer", "--file", str(log.path), "--force", "true", "--messages"]
        peer = ["-m", "perf.importer.peer", str(log.path)]
        found = _in_turn(
            {
                "longhaul": lambda: run([*job, "false", "--database-url", fresh()], environment),
                "longhaul, with messages": lambda: run([*job, "true", "--database-url", fresh()], environment),
                "longhaul, with messages, again": lambda: run([*job, "true", "--database-url", again], environment),
                "peer": lambda: run([*peer, fresh()], environment),
                "peer, with messages": lambda: run([*peer, fresh(), "messages"], environment),
            },
            runs,
        )
    report.importing(log.path, log.json_bytes, found)


def _loaded(report: Report, folder: Path, runs: int, environment: Mapping[str, str]) -> None:
    log = _made(folder, "imported")
    timed = ["-m", "perf.importer.loaded"]
    with _warehouse(folder) as fresh:
        found = _in_turn(
            {
                "longhaul": lambda: run([*timed, "longhaul", str(log.path), fresh()], environment),
                "longhaul, with messages": lambda: run(
                    [*timed, "longhaul", str(log.path), fresh(), "messages"], environment
                ),
                "peer": lambda: run([*timed, "peer", str(log.path), fresh()], environment),
                "peer, with messages": lambda: run([*timed, "peer", str(log.path), fresh(), "messages"], environment),
            },
            runs,
        )
    report.loaded(log.path, found)


def _rows(report: Report, folder: Path, runs: int, environment: Mapping[str, str]) -> None:
    log = _made(folder, "imported")
    names = ("longhaul", "sqlalchemy_bulk", "sqlalchemy_upsert")
    with _warehouse(folder) as fresh:
        found = _in_turn(
            {
                name: lambda name=name: run(["-m", "perf.importer.writers", name, str(log.path), fresh()], environment)
                for name in names
            },
            runs,
        )
    report.writing(found)


def _start(report: Report, folder: Path, runs: int, environment: Mapping[str, str]) -> None:
    with _warehouse(folder) as fresh:
        url = fresh()
        starts = [run(["-m", "perf.importer.start", url]).output for _ in range(runs)]
    peer = _in_turn({"peer": lambda: run(["-c", "import inspect_ai.log"], environment)}, runs)["peer"]
    report.starting(starts, peer)


def _long(report: Report, folder: Path, runs: int, environment: Mapping[str, str]) -> None:
    """Once each: it is their memory that counts."""
    made = {"one sample of 1 GB": _made(folder, "long"), "one event of 300 MB": _made(folder, "long-event")}
    job = ["-m", "longhaul.importer", "--force", "true", "--file"]
    with _warehouse(folder) as fresh:
        for name, log in made.items():
            found = _in_turn(
                {"": lambda log=log: run([*job, str(log.path), "--database-url", fresh()], environment)}, 1
            )
            report.long(name, log.json_bytes, found[""])


def _made(folder: Path, name: str) -> Log:
    size, path = run(["-m", "perf.importer.logs", str(folder), name]).output.split()[-2:]
    return Log(path=Path(path), json_bytes=int(size))


def _in_turn(subjects: Mapping[str, Callable[[], Run]], runs: int) -> Measured:
    """Every subject once, then every one again: what else the machine does then falls on all alike."""
    found: dict[str, list[Run]] = {name: [] for name in subjects}
    for _ in range(runs):
        for name, measure in subjects.items():
            found[name].append(measure())
    return {name: Series(runs=tuple(series)) for name, series in found.items()}


@contextmanager
def _warehouse(folder: Path) -> Iterator[Callable[[], str]]:
    """A Postgres of our own; each call gives the URL of a fresh database with the schema and all its indexes."""
    with subprocess.Popen(
        [sys.executable, "-m", "perf.importer.warehouse", str(folder / "postgres")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None

        def fresh() -> str:
            print("fresh", file=keeper.stdin, flush=True)
            return keeper.stdout.readline().strip()

        yield fresh
        keeper.stdin.close()


def _libraries(folder: Path) -> str:
    """Where the libraries are that only inspect_ai's data frames need; installed on first use."""
    target = folder / "libraries"
    if not target.exists():
        requirements = Path(__file__).with_name("requirements.txt")
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(target)]
        subprocess.run([sys.executable, *pip, "--requirement", str(requirements)], check=True)
    return str(target)


_MEASURES = dict(zip(PARTS, (_readers, _large, _import, _loaded, _rows, _start, _long), strict=True))

if __name__ == "__main__":
    main()
