"""What a failed deployment says in its one line."""

from pathlib import Path

import pytest

from sandbox import deployment


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Traceback\nTypeError: no such option\napp.py: Subprocess exited with error 1\n", "TypeError: no such option"),
        ("longhaul: unknown env\nSubprocess exited with error 1", "longhaul: unknown env"),
        ("❌  stack failed: Topic: unknown type\n\nsome hint\n", "❌  stack failed: Topic: unknown type"),
        ("current credentials could not be used: Error 3\nbye", "current credentials could not be used: Error 3"),
        ("\n", "it said nothing"),
    ],
)
def test_the_line_that_says_why(text: str, said: str) -> None:
    assert deployment.reason(text) == said


def test_what_an_interrupted_cdk_leaves_goes_with_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jsii unpacks its kernel into the temporary folder; a killed one never cleans up."""
    monkeypatch.setenv("MOTO_PORT", "1")
    monkeypatch.setenv("TMPDIR", "/somewhere/else")
    place = Path(deployment.environment(tmp_path)["TMPDIR"])
    assert place.is_dir()
    assert place.is_relative_to(tmp_path)
