"""The one-line reason of a failed import, whatever a damaged log put into it."""

from longhaul.importer.job import one_line


def test_a_reason_is_one_printable_line() -> None:
    said = one_line(ValueError("samples/1_\0\x1b[2J\u202e.json\n is not\x85where é says" + "x" * 2000))
    assert said.startswith("samples/1_\ufffd\ufffd[2J\ufffd.json is not where é says")
    assert len(said) == 1000
    assert said.isprintable()
