"""Every rule that code or tests cite is explained in docs/rules.md, or is a scenario of docs/scenarios.md."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("longhaul", "lambdas", "stacks", "sandbox", "demo", "state_machines", "tests")
RULE = re.compile(r"(?<![\w-])(case-[A-Z]\d\d|(?:[RWFB]\d{1,2}|[ILE]\d|S\d\d)(?=[a-d]?\b))")


def test_every_cited_rule_is_explained() -> None:
    pages = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("rules.md", "scenarios.md"))
    explained = set(re.findall(r"^\| (\S+) \|", pages, re.MULTILINE))
    cited = {
        (rule, path.relative_to(ROOT).as_posix())
        for place in PLACES
        for path in (ROOT / place).rglob("*")
        if path.suffix in (".py", ".json")
        for rule in RULE.findall(path.read_text("utf-8"))
    }
    assert len(cited) > 50, "the pattern finds citations"
    unexplained = {(rule, path) for rule, path in cited if rule not in explained and f"case-{rule}" not in explained}
    assert not unexplained
