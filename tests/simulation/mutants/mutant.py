"""A guard taken out: a change of the source text, made as its module is imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
UNIT = "tests/unit/fleet"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A guard taken out."""

    name: str  # what the code then does
    rules: str
    module: str
    old: str
    new: str
    test: str | None = None  # the test that must fail; None: the simulator finds it
    kind: str = "leases"  # of the schedules that find it

    @property
    def source(self) -> Path:
        """The module's file."""
        return ROOT.joinpath("longhaul", *self._path).with_suffix(".py")

    @property
    def _path(self) -> list[str]:
        """Below `longhaul`; a module without a package is one of the fleet."""
        return (self.module if "." in self.module else f"fleet.{self.module}").split(".")

    def text(self) -> str:
        """The changed source; the place must be there exactly once."""
        source = self.source.read_text("utf-8")
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} is {source.count(self.old)} times in {self.module}.py")
        return source.replace(self.old, self.new)

    def install(self) -> None:
        """Let the changed module be the one that everybody imports from now on."""
        package_name, last = f"longhaul.{self._path[0]}", self._path[1]
        name = f"{package_name}.{last}"
        if name in sys.modules:
            raise RuntimeError(f"{name} is imported already")
        package = importlib.import_module(package_name)
        spec = importlib.util.spec_from_file_location(name, self.source)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(compile(self.text(), str(self.source), "exec"), module.__dict__)  # noqa: S102  our own source
        setattr(package, last, module)


def mutant(name: str, rules: str, module: str, old: str, new: str, test: str | None = None) -> Mutant:
    """One line of a table; a test is one of the fleet's unit tests unless it says where it is."""
    if test is not None and not test.startswith("tests/"):
        test = f"{UNIT}/{test}"
    return Mutant(name=name, rules=rules, module=module, old=old, new=new, test=test)


def among_workers(name: str, rules: str, module: str, old: str, new: str) -> Mutant:
    """One line of a table, for the simulator of whole workers."""
    return Mutant(name=name, rules=rules, module=module, old=old, new=new, kind="workers")
