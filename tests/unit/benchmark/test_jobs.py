"""From a configuration to jobs, and back (B1, B6)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from longhaul.benchmark import running
from longhaul.benchmark.errors import ConfigurationError
from longhaul.benchmark.jobs import CONFIG as CONFIG_NAME
from longhaul.benchmark.jobs import Documents, plan, read_plan
from tests.unit.benchmark.doubles import CONFIG

HEAD = '[run]\nid = "r"\nscales = [10, "big"]\n'


def planned(config: str) -> Documents:
    """Documents of a configuration; a trial needs a slot for each letter of its adapter's name after `command`."""
    return plan(config.encode(), demand=lambda case: len(case.adapter) - 7, versions={"longhaul": "1"})


def case(name: str, *lines: str) -> str:
    """A [[case]]."""
    return "\n".join(["[[case]]", f'name = "{name}"', *lines, ""])


def test_an_id_is_a_slug_and_a_hash_of_what_is_measured() -> None:
    """B1: what changes the measurement changes the id, what does not does not."""
    texts = [
        case("Pandas cursor, CSV!", "parameters = { a = 1, b = 2 }"),
        case("Pandas cursor, CSV!", "parameters = { b = 2, a = 1 }", "timeout_seconds = 3"),
        case("Pandas cursor, CSV!", "parameters = { a = 2, b = 2 }"),
        case("Pandas cursor, CSV!", 'adapter = "other"', "parameters = { a = 1, b = 2 }"),
    ]
    ids = [planned(HEAD + text).config.case[0].id for text in texts]
    assert all(one.startswith("pandas-cursor-csv-") for one in ids)
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_without_jobs_each_case_at_each_scale_is_one() -> None:
    """B6: inputs are selectors, never command lines."""
    documents = planned(HEAD + case("a") + case("b", "scales = [1]", 'adapter = "commandxx"', "weight = 3"))
    ids = [one.id for one in documents.config.case]
    assert [(job.id, job.cases.ids, job.cases.scales) for job in documents.jobs] == [
        (f"{ids[0]}.10", (ids[0],), ("10",)),
        (f"{ids[0]}.big", (ids[0],), ("big",)),
        (f"{ids[1]}.1", (ids[1],), ("1",)),
    ]
    assert [job.api_weight for job in documents.jobs] == [0, 0, 2]
    assert [job.weight for job in documents.jobs] == [11, 11, 33]


def test_jobs_pick_cases_by_name() -> None:
    """B6."""
    job = '[[job]]\nid = "j"\ncases = ["a*"]\nscales = ["big"]\nwarmups = 0\nrepetitions = 3\napi_weight = 4\n'
    (one,) = planned(HEAD + case("a1") + case("a2", "parameters.x = 1") + case("b", "parameters.x = 2") + job).jobs
    assert [name[:2] for name in one.cases.ids] == ["a1", "a2"]
    assert one.cases.scales == ("big",)
    assert (one.warmups, one.repetitions, one.api_weight) == (0, 3, 4)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("x = [", "config.toml"),
        (HEAD, "[case]|case"),
        ("case = []\n" + HEAD, "no \\[\\[case\\]\\]"),
        (HEAD + case("a", "colour = 3"), "colour"),
        (HEAD.replace('"r"', '"a/../b"') + case("a"), "run.id"),
        (HEAD.replace("10,", '"../x",') + case("a"), "scale '../x'"),
        (HEAD + case("a") + case("a"), "the same"),
        (HEAD + case("a", "timeout_seconds = 0"), "timeout_seconds"),
        (HEAD + case("a") + '[[job]]\nid = "j"\ncases = ["b"]\n', "no case fits b"),
        (HEAD + case("a") + '[[job]]\nid = "j"\nrepetitions = 0\n', "0 repetitions"),
        (HEAD + case("a") + '[[job]]\nid = "j"\n[[job]]\nid = "j"\n', "two jobs have the id j"),
        (HEAD + case("a") + '[[job]]\nid = "j"\n[[job]]\nid = "k"\n', "two jobs measure"),
        (HEAD + case("a") + '[[job]]\nid = "j/k"\n', "job.id"),
        (HEAD + "timeout_seconds = nan\n" + case("a"), "run.timeout_seconds is nan"),
        (HEAD + case("a", "timeout_seconds = inf"), "a: timeout_seconds is inf"),
        (HEAD + case("a", "weight = nan"), "a: weight is nan"),
        (HEAD + case("a", "api_weight = -1"), "a: api_weight is -1"),
        (HEAD + case("a") + '[[job]]\nid = "j"\nweight = inf\n', "j: weight is inf"),
        (HEAD + case("a") + '[[job]]\nid = "j"\napi_weight = -1\n', "j: api_weight is -1"),
    ],
)
def test_a_wrong_configuration_is_refused(config: str, words: str) -> None:
    """B6: with what is wrong, before anything is measured."""
    with pytest.raises(ConfigurationError, match=words):
        planned(config)


def test_a_configuration_is_called_what_its_author_calls_it() -> None:
    """B6, R22: a queue's own is `config.toml`, whatever it was made of."""
    with pytest.raises(ConfigurationError, match=r"^mine\.toml: .*colour"):
        plan((HEAD + case("a", "colour = 3")).encode(), demand=running.demand, versions={}, name="mine.toml")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("comand = ['true']", "case 'a': parameters.comand is unknown; there are command and environment"),
        ("environment = {}", "case 'a': parameters.command must be a list of texts"),
        ("command = ['true'], colour = 3", "case 'a': parameters.colour is unknown"),
        ("command = ['true'], environment = 'A=B'", "environment must be a table"),
        ("command = ['true'], environment = { 'A=B' = '1' }", "a name is not empty, and has no ="),
        ('command = ["a\\u0000"]', "zero byte"),
    ],
)
def test_a_case_that_could_only_fail_is_refused(parameters: str, words: str) -> None:
    """B6: before a fleet measures it, also if its weight is said."""
    config = HEAD + case("a", f"parameters = {{ {parameters} }}", "api_weight = 1")
    with pytest.raises(ConfigurationError, match=words):
        plan(config.encode(), demand=running.demand, versions={})


def test_a_case_that_is_not_to_be_measured_needs_nothing() -> None:
    """B1."""
    config = HEAD + case("a", 'unsupported = "not here"')
    assert [job.api_weight for job in plan(config.encode(), demand=running.demand, versions={}).jobs] == [0, 0]


def test_a_host_reads_what_was_planned(tmp_path: Path) -> None:
    """F10: and notices documents that do not belong together (S5)."""
    documents = planned(CONFIG)
    for name, body in documents.files.items():
        (tmp_path / name).write_bytes(body)
    read = read_plan(tmp_path, "job-1")
    assert read.job == documents.jobs[0]
    assert [unit.case.name for unit in read.units] == ["a", "b"]
    with pytest.raises(ConfigurationError, match="no job 'x': job-1"):
        read_plan(tmp_path, "x")
    (tmp_path / CONFIG_NAME).write_text(CONFIG + "\n")
    with pytest.raises(ConfigurationError, match="is not the file"):
        read_plan(tmp_path, "job-1")
    (tmp_path / CONFIG_NAME).unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_plan(tmp_path, "job-1")


def test_the_manifest_names_versions_and_hashes() -> None:
    """B6."""
    manifest = msgspec.json.decode(planned(CONFIG).files["manifest.json"])
    assert manifest["versions"] == {"longhaul": "1"}
    assert set(manifest["sha256"]) == {"config.toml", "jobs.json"}
    assert manifest["run"] == "run-1"
