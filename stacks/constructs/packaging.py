"""What a Lambda function is made of on disk: its handler with just the code it uses, and the layer that pip fills.

Both are assembled below build/ in folders named by the hash of what went in. So an asset's hash changes with its
sources and with nothing else (case-C10), a second synth finds them ready, and two at once cannot disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYER_REQUIREMENTS = "lambdas/layer/requirements.txt"
PYTHON_VERSION = "3.14"  # of the Lambda runtime
PLATFORM = "manylinux2014_x86_64"


class LayerError(RuntimeError):
    """pip could not fill the layer."""


def function_code(name: str, packages: tuple[str, ...], root: Path = ROOT) -> tuple[Path, str]:
    """Assemble function `name`: handler.py at the top, beside it the sub-packages of longhaul that it imports.

    Returns the folder and the hash of its content.
    """
    sources = {
        "handler.py": root / "lambdas" / name / "handler.py",
        "longhaul/__init__.py": root / "longhaul/__init__.py",
    }
    for package in packages:
        folder = root / Path(*package.split("."))
        sources |= {str(path.relative_to(root)): path for path in _python_files(folder)}
    digest = hashlib.sha256()
    for target, path in sorted(sources.items()):
        content = path.read_bytes()
        digest.update(f"{target}\0{len(content)}\0".encode() + content)

    def fill(folder: Path) -> None:
        for target, path in sources.items():
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / target)

    return _assembled(root, f"function-{name}", digest.hexdigest(), fill), digest.hexdigest()


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


def _python_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.py") if not path.name.startswith("."))


def _assembled(root: Path, name: str, digest: str, fill: Callable[[Path], None]) -> Path:
    """The folder build/lambdas/<name>-<digest>, filled beside its place and moved there in one step."""
    place = root / "build" / "lambdas" / f"{name}-{digest[:16]}"
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
