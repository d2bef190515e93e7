"""What is shipped: case-C10, and that nothing is missing from it or in it by mistake."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stacks.constructs import packaging
from stacks.constructs.packaging import LayerError, function_code, image_context, layer_code
from tests.infra.conftest import Synthesis

ROOT = Path(__file__).parents[2]
FUNCTIONS = ("submit_import", "build_list", "extract_results")
Assemble = Callable[[Path], tuple[Path, str]]
ASSEMBLIES: dict[str, Assemble] = {
    "function": lambda root: function_code("submit_import", ("reimport",), root),
    "image": image_context,
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A small repository of the same layout."""
    for path in ("lambdas/submit_import/handler.py", "longhaul/__init__.py", "longhaul/cli/main.py"):
        _write(tmp_path / path, f"# {path}\n")
    for package in ("reimport", "importer", "evallog", "warehouse"):
        _write(tmp_path / "longhaul" / package / "__init__.py", "")
        _write(tmp_path / "longhaul" / package / "deep" / "code.py", "x = 1\n")
    _write(tmp_path / "longhaul/warehouse/migrations/1.sql", "SELECT 1;\n")
    _write(tmp_path / "longhaul/importer/Dockerfile", "FROM scratch\n")
    return tmp_path


@pytest.mark.parametrize("kind", ASSEMBLIES)
def test_c10_what_interpreters_and_editors_leave_changes_no_hash(clone: Path, kind: str) -> None:
    before = ASSEMBLIES[kind](clone)
    for folder in ("lambdas/submit_import", "longhaul", "longhaul/reimport", "longhaul/importer/deep", "longhaul/cli"):
        for name in (
            "__pycache__/code.cpython-313.pyc",
            ".code.py.swp",
            "code.py~",
            "#code.py#",
            ".DS_Store",
            "code.orig",
        ):
            _write(clone / folder / name, "left behind")
    for path in clone.rglob("*"):
        os.utime(path, (1, 1))
    assert ASSEMBLIES[kind](clone) == before


@pytest.mark.parametrize(
    ("kind", "path", "changes"),
    [
        ("function", "lambdas/submit_import/handler.py", True),
        ("function", "longhaul/__init__.py", True),
        ("function", "longhaul/reimport/deep/code.py", True),
        ("function", "longhaul/importer/deep/code.py", False),
        ("function", "longhaul/cli/main.py", False),
        ("image", "longhaul/importer/Dockerfile", True),
        ("image", "longhaul/evallog/deep/code.py", True),
        ("image", "longhaul/warehouse/migrations/1.sql", True),
        ("image", "longhaul/reimport/deep/code.py", False),
        ("image", "longhaul/cli/main.py", False),
    ],
)
def test_c10_an_edit_changes_the_hash_of_what_it_is_part_of(clone: Path, kind: str, path: str, changes: bool) -> None:
    folder, before = ASSEMBLIES[kind](clone)
    _write(clone / path, "edited\n")
    edited, after = ASSEMBLIES[kind](clone)
    assert (after != before) is changes
    assert (edited != folder) is changes


def test_c10_a_file_that_is_renamed_or_split_changes_the_hash(clone: Path) -> None:
    _, before = function_code("submit_import", ("reimport",), clone)
    (clone / "longhaul/reimport/deep/code.py").rename(clone / "longhaul/reimport/deep/cord.py")
    assert function_code("submit_import", ("reimport",), clone)[1] != before


def test_c10_a_second_synth_has_the_same_assets(synthesis: Synthesis) -> None:
    def assets() -> set[str]:
        return {path.name for path in synthesis.fresh("sandbox").folder.glob("asset.*")}

    assert len(assets()) == 4
    left_behind = ROOT / "lambdas/submit_import/handler.py~"
    _write(left_behind, "left behind")
    try:
        assert assets() == assets()
    finally:
        left_behind.unlink()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_holds_its_handler_and_just_what_it_imports(name: str) -> None:
    folder, _ = function_code(name, ("reimport",))
    tops = {path.relative_to(folder).as_posix() for path in folder.glob("*")} | {
        path.relative_to(folder).as_posix() for path in folder.glob("longhaul/*")
    }
    assert tops == {"handler.py", "longhaul", "longhaul/__init__.py", "longhaul/reimport"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_finds_every_module_it_imports(name: str) -> None:
    folder, _ = function_code(name, ("reimport",))
    allowed = set(sys.stdlib_module_names) | {"longhaul", "boto3", "botocore", "aws_lambda_powertools", "ijson"}
    for path in folder.rglob("*.py"):
        typed = _imported_for_types_only(path)
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for imported in set(names) - typed:
                assert imported.split(".")[0] in allowed, f"{path.name} imports {imported}"
                if imported.startswith("longhaul."):
                    module = folder / Path(*imported.split("."))
                    assert module.with_suffix(".py").exists() or (module / "__init__.py").exists(), imported


def test_the_layers_pins_are_those_that_everything_was_tested_with() -> None:
    layer, tested = _pins(ROOT / packaging.LAYER_REQUIREMENTS), _pins(ROOT / "requirements-dev.txt")
    assert {"aws-lambda-powertools", "ijson"} <= set(layer)
    assert layer == {name: tested[name] for name in layer}


def test_the_layer_is_filled_once_per_set_of_pins(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(clone / packaging.LAYER_REQUIREMENTS, "one==1\n")
    runs: list[list[str]] = []

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        runs.append(command)
        _write(Path(command[command.index("--target") + 1]) / "one.py", "")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(packaging.subprocess, "run", pip)
    first = layer_code(clone)
    assert layer_code(clone) == first
    assert len(runs) == 1
    assert (first[0] / "python" / "one.py").exists()
    _write(clone / packaging.LAYER_REQUIREMENTS, "one==2\n")
    assert layer_code(clone) != first
    assert len(runs) == 2
    assert {"--only-binary=:all:", "--platform", "--no-deps"} <= set(runs[1])


def test_a_layer_that_pip_cannot_fill_is_one_clear_error_and_leaves_nothing(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(clone / packaging.LAYER_REQUIREMENTS, "one==1\n")
    failed = subprocess.CompletedProcess(["pip"], 1, "", "no network")
    monkeypatch.setattr(packaging.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(LayerError, match=r"lambdas/layer/requirements\.txt: no network"):
        layer_code(clone)
    assert not list((clone / "build").rglob("layer*"))


def test_the_image_has_a_dockerfile_and_what_it_copies() -> None:
    folder, _ = image_context()
    dockerfile = (folder / "longhaul/importer/Dockerfile").read_text()
    assert dockerfile.lstrip().split(maxsplit=1)[0] in {"FROM", "ARG", "#"}
    for line in re.findall(r"^COPY (.+)$", dockerfile, flags=re.MULTILINE):
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        if "--from=" not in line:
            assert all(list(folder.glob(source)) for source in sources), line


def test_two_assemblies_at_once_do_not_disturb_each_other(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = packaging.os.rename

    def beaten(filled: Path, place: Path) -> None:
        shutil.copytree(filled, place)  # the other one was a moment earlier
        rename(filled, place)

    monkeypatch.setattr(packaging.os, "rename", beaten)
    folder, _ = function_code("submit_import", ("reimport",), clone)
    assert (folder / "handler.py").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _pins(path: Path) -> dict[str, str]:
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return dict(line.split(";")[0].strip().split("==") for line in lines if "==" in line)


def _imported_for_types_only(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found |= {inner.module for inner in ast.walk(node) if isinstance(inner, ast.ImportFrom) and inner.module}
    return found
