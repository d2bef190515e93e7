"""Every scenario and invariant has its row in docs/scenarios.md, and every test and mutant that it names exists."""

import re
from pathlib import Path

from tests.simulation.mutants import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scenarios.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| [SILE]\d+ .*$", PAGE, re.MULTILINE)]
LATER = {"S9", "S15", "S16", "S22", "S30", "S57", "S78", "I11"}  # of the stack and its commands
WITHOUT_MUTANT = {"S61"}  # mutants are what shows it


def test_every_scenario_and_invariant_has_a_row() -> None:
    last = {"S": 79, "I": 11, "L": 5, "E": 2}
    assert [row[0] for row in ROWS] == [f"{kind}{number + 1}" for kind in last for number in range(last[kind])]


def test_every_row_names_what_shows_it_and_what_its_guards_are() -> None:
    for name, *_, shown, mutants in ROWS:
        assert (name in LATER) == ("test_" not in shown and "schedules of" not in shown), name
        assert (name in LATER | WITHOUT_MUTANT) == (not mutants), name


def test_every_named_test_exists() -> None:
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 100
    assert named <= there


def test_every_named_mutant_exists_and_something_in_its_row_notices_it() -> None:
    for name, *_, shown, mutants in ROWS:
        for one in (BY_NAME[mutant] for mutant in mutants.split(" · ") if mutant):
            notices = f"schedules of {one.kind}" if one.test is None else f"`{one.test.rsplit('::', 1)[1]}`"
            assert notices in shown, (name, one.name)
