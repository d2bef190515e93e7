"""The importer's command line: exit codes that Batch reads, one JSON line, structured logs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.importer.command import main
from longhaul.importer.outcome import Outcome

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch) -> Iterator[None]:
    logger = logging.getLogger("longhaul")
    before = logger.handlers[:], logger.level, logger.propagate
    for name in ("DATABASE_URL", "PGHOST", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("install", "end_at_once"):
        monkeypatch.setattr(f"longhaul.importer.termination.{name}", lambda: None)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--bucket", "b"],
        ["--key", "k"],
        ["--bucket", "b", "--key", "k", "--force", "yes"],
        ["--bucket", "b", "--key", "k", "--nonsense"],
        ["--file", "f", "--key", "k"],
        ["--bucket", "b", "--key", "k", "--force"],
        ["--bucket", "b", "--key", "no utf-8 \udcff"],
    ],
)
def test_wrong_arguments_are_12_never_2(arguments: list[str], capsys) -> None:
    assert main(arguments) == 12
    out, err = capsys.readouterr()
    assert json.loads(out)["outcome"] == "refused"
    assert err.startswith("longhaul.importer: ")


def test_no_warehouse_named_is_12(capsys) -> None:
    assert main(["--bucket", "b", "--key", "k"]) == 12
    assert "DATABASE_URL" in json.loads(capsys.readouterr().out)["reason"]


def test_a_warehouse_out_of_reach_is_20_after_the_importers_own_patience(monkeypatch, capsys) -> None:
    monkeypatch.setenv("LONGHAUL_WAREHOUSE_PATIENCE_SECONDS", "0.3")
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p@127.0.0.1:1/x")
    assert main(["--bucket", "b", "--key", "k"]) == 20
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert json.loads(out)["location"] == "s3://b/k"
    line = json.loads(err.splitlines()[0])
    assert {"level", "location", "message", "timestamp", "service", "key"} <= line.keys()
    assert (line["service"], line["key"], line["level"]) == ("importer", "k", "WARNING")


def test_an_error_nobody_foresaw_is_1_with_its_traceback_in_the_log(monkeypatch, capsys) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("odd\nin two lines")

    monkeypatch.setattr("longhaul.importer.job._run", fail)
    monkeypatch.setattr("longhaul.importer.job._record_failure", lambda *_: None)
    assert main(["--bucket", "b", "--key", "k"]) == 1
    out, err = capsys.readouterr()
    assert (json.loads(out)["outcome"], json.loads(out)["reason"]) == ("unknown", "ZeroDivisionError: odd in two lines")
    assert "Traceback" in json.loads(err)["exception"]


def test_exit_codes_are_those_of_the_table() -> None:
    """R14: 1* ends, 20 and 21 are tried again."""
    assert {outcome.label: outcome.exit_code for outcome in Outcome} == {
        "imported": 0,
        "unchanged": 0,
        "unknown": 1,
        "damaged_log": 10,
        "log_not_found": 11,
        "refused": 12,
        "warehouse_unavailable": 20,
        "log_changed": 21,
        "terminated": 143,
    }


def test_the_front_loads_nothing_heavy_and_w8_no_inspect() -> None:
    """W8, and the start: what is slow to load is loaded where it is used; inspect_ai and the schema's tools never."""
    code = (
        "import sys, longhaul.importer.command, longhaul.importer.job\n"
        "assert not {'boto3', 'psycopg', 'zstandard'} & set(sys.modules)\n"
        "import longhaul.importer.warm, longhaul.importer.rows\n"
        "assert not {'inspect_ai', 'pydantic', 'sqlalchemy', 'alembic', 'click'} & set(sys.modules)\n"
        "import threading; assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_the_image_pins_what_the_tests_run_with() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / name).read_text().splitlines()
        return {
            line.split(";")[0].split("\\")[0].strip() for line in lines if "==" in line and not line.startswith("#")
        }

    image = pins("longhaul/importer/requirements.txt")
    assert {pin.split("==")[0] for pin in image} >= {"boto3", "msgspec", "psycopg", "psycopg-binary", "zstandard"}
    assert image <= pins("requirements-dev.txt")
