"""What is shipped, on disk: each Lambda function with just the code it uses, their layer, the importer's build context.

All are assembled below build/ in folders named by the hash of what went in. So an asset's hash changes with its
sources and with nothing else (case-C10), a second synth finds them ready, and two at once cannot disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYER_REQUIREMENTS = "lambdas/layer/requirements.txt"
IMAGE_PACKAGES = ("evallog", "warehouse", "importer")
PYTHON_VERSION = "3.14"  # of the Lambda runtime
PLATFORM = "manylinux2014_x86_64"


class LayerError(RuntimeError):
    """pip could not fill the layer."""


def function_code(name: str, packages: tuple[str, ...], root: Path = ROOT) -> tuple[Path, str]:
    """Assemble function `name`: handler.py at the top, beside it the sub-packages of longhaul that it imports.

    Returns the folder and the hash of its content.
    """
    sources = {"handler.py": root / "lambdas" / name / "handler.py", **_sources(root, packages)}
    return _copied(root, f"function-{name}", sources)


def image_context(root: Path = ROOT) -> tuple[Path, str]:
    """Assemble what the importer's Dockerfile may COPY: the sub-packages of longhaul that the job imports.

    Returns the folder, laid out as the repository is, and the hash of its content.
    """
    return _copied(root, "image", _sources(root, IMAGE_PACKAGES))


def layer_code(root: Path = ROOT) -> tuple[Path, str]:
    """Fill the layer with the wheels of its requirements for the Lambda runtime, once per set of pins.

    Returns the folder and the hash of what it was made from. Raises LayerError when pip fails, offline for instance.
    """
    requirements = root / LAYER_REQUIREMENTS
    made_from = f"{PLATFORM}\0{PYTHON_VERSION}\0".encode() + requirements.read_bytes()

    def fill(folder: Path) -> None:
        options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--only-binary=:all:"]
        runtime = ["--platform", PLATFORM, "--python-version", PYTHON_VERSION, "--implementation", "cp"]
        where = ["--requirement", str(requirements), "--target", str(folder / "python")]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, *runtime, *where],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise LayerError(
                f"pip could not fill the Lambda layer from {LAYER_REQUIREMENTS}: {done.stderr.strip()[-500:]}"
            )

    digest = hashlib.sha256(made_from).hexdigest()
    return _assembled(root, "layer", digest, fill), digest


def _sources(root: Path, packages: tuple[str, ...]) -> dict[str, Path]:
    """The files of longhaul itself and of `packages` within it, by their path in the repository."""
    files = [root / "longhaul" / "__init__.py"]
    for package in packages:
        files += [path for path in (root / "longhaul" / package).rglob("*") if path.is_file() and _is_source(path)]
    return {path.relative_to(root).as_posix(): path for path in files}


def _is_source(path: Path) -> bool:
    """Whether a file belongs to a package, unlike what interpreters and editors leave beside it."""
    left_behind = path.name.startswith((".", "#")) or path.name.endswith(("~", ".pyc", ".swp", ".orig", ".bak"))
    return not left_behind and "__pycache__" not in path.parts


def _copied(root: Path, name: str, sources: Mapping[str, Path]) -> tuple[Path, str]:
    digest = hashlib.sha256()
    for target, path in sorted(sources.items()):
        content = path.read_bytes()
        digest.update(f"{target}\0{len(content)}\0".encode() + content)

    def fill(folder: Path) -> None:
        for target, path in sources.items():
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / target)

    return _assembled(root, name, digest.hexdigest(), fill), digest.hexdigest()


def _assembled(root: Path, name: str, digest: str, fill: Callable[[Path], None]) -> Path:
    """The folder build/assets/<name>-<digest>, filled beside its place and moved there in one step."""
    place = root / "build" / "assets" / f"{name}-{digest[:16]}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{name}-") as beside:
            filled = Path(beside) / "content"
            filled.mkdir()
            fill(filled)
            try:
                os.rename(filled, place)
            except OSError:
                if not place.exists():  # else another synth was faster, with the same content
                    raise
    return place


if __name__ == "__main__":  # fill the layer ahead of the first synth
    sys.stdout.write(f"{layer_code()[0]}\n")
