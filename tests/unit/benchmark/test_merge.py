"""Attempts of a job, merged: each repetition counts once, whatever happened on the way (F20, I7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.benchmark import checkpoint
from longhaul.benchmark.attempts import FolderSource, Named, etag_of, read
from longhaul.benchmark.checkpoint import Kind, Outcome, Record, Start, Times, Trials
from longhaul.benchmark.errors import ReportError
from longhaul.benchmark.estimates import estimate
from longhaul.benchmark.merge import Expected, Host, Outcomes, merge
from longhaul.benchmark.report import csv_of, files, markdown_of
from longhaul.benchmark.summary import Summary, summarise
from longhaul.fleet.keys import Attempt
from tests.unit.benchmark.doubles import EPOCH

EXPECTED = [Expected(case="c", scale="1", repetitions=4)]


def start(number: int, attempt: int, *, case: str = "c", kind: Kind = Kind.REPETITION, **others: object) -> Start:
    """A trial that began."""
    generation, again = int(str(others.pop("generation", 0))), int(str(others.pop("again", 0)))
    trial = checkpoint.trial_id(case, "1", kind, number, generation=generation, attempt=attempt, again=again)
    return Start(
        run="r",
        job=str(others.pop("job", "j")),
        trial=trial,
        case=case,
        scale="1",
        kind=kind,
        number=number,
        generation=generation,
        attempt=attempt,
        again=again,
        adapter="command",
        started=EPOCH,
    )


def record(number: int, attempt: int, outcome: Outcome = Outcome.SUCCESS, **others: object) -> Record:
    """A trial that ended; how long it took depends on its repetition alone, or is `seconds`."""
    seconds = float(str(others.pop("seconds", number + 1)))
    values = {name: others.pop(name) for name in ("error", "rows", "checksum", "disturbed_by") if name in others}
    begun = msgspec.structs.asdict(start(number, attempt, **others))  # type: ignore[arg-type]
    times = Times(total=seconds, execute=seconds)
    return Record(**begun, outcome=outcome, ended=EPOCH, times=times, peak_rss_bytes=number, **values)


def trials(*of: Start) -> Trials:
    """Start records of all, and the records among them."""
    records = {one.trial: one for one in of if isinstance(one, Record)}
    return Trials(starts={one.trial: one for one in of}, records=records)


def merged(*of: Start, expected: Sequence[Expected] | None = EXPECTED) -> Outcomes:
    """Of one case."""
    (one,) = merge(trials(*of), expected)
    return one


def summary(*of: Start, expected: Sequence[Expected] | None = None, hosts: dict[int, Host] | None = None) -> Summary:
    """By attempts' hosts."""
    return summarise(
        "r", "j", merge(trials(*of), expected), {(0, attempt): host for attempt, host in (hosts or {}).items()}
    )


def test_s35_a_repetition_that_two_attempts_recorded_counts_once() -> None:
    """S35, I7: the lowest successful attempt's."""
    one = merged(record(0, 2, seconds=7), record(0, 10, seconds=8), record(0, 1, Outcome.FAILED, error="x"))
    assert [counted.times.total for counted in one.counted] == [7]


def test_an_earlier_generation_comes_first() -> None:
    """F20: attempts go on counting over generations."""
    one = merged(record(0, 3, generation=1, seconds=7), record(0, 2, generation=0, seconds=8))
    assert [counted.times.total for counted in one.counted] == [8]


def test_s17_what_did_not_succeed_is_superseded_by_what_did() -> None:
    """S17, F20: a note for each, none of which fails the job."""
    one = merged(
        record(0, 1, Outcome.FAILED, error="throttled\n twice"),
        start(1, 1),
        record(2, 1, Outcome.INTERRUPTED, error="interrupted"),
        record(3, 2, Outcome.DISTURBED, disturbed_by=("q-1",)),
        *(record(number, 2, again=1) for number in range(4)),
    )
    assert [(note.number, note.reason) for note in one.superseded] == [
        (0, "throttled twice"),
        (1, "incomplete"),
        (2, "interrupted"),
        (3, "disturbed by q-1"),
    ]
    assert one.without_success == 0
    made = summarise("r", "j", [one], {})
    assert (made.successful, made.failed, made.superseded) == (4, 0, 4)
    assert "Superseded: interrupted (repetition 2)" in made.cases[0].notes


def test_the_sources_pilot() -> None:
    """F20: 60 successful, 0 failed, one superseded."""
    first = [record(number, 1) for number in range(6)]
    interrupted = record(6, 1, Outcome.INTERRUPTED)
    second = [record(number, 2) for number in range(6, 60)]
    made = summary(*first, interrupted, *second, expected=[Expected(case="c", scale="1", repetitions=60)])
    assert (made.successful, made.failed, made.superseded) == (60, 0, 1)
    assert made.cases[0].notes == ("Superseded: interrupted (repetition 6)",)


def test_what_never_succeeded_is_failed_or_missing() -> None:
    """F20: once for each repetition, with its last reason."""
    one = merged(
        record(0, 1, Outcome.FAILED, error="first"),
        record(0, 2, Outcome.FAILED, error="last"),
        start(1, 2),
        record(2, 2),
    )
    assert [(note.number, note.reason) for note in one.failed] == [(0, "last"), (1, "incomplete")]
    assert one.missing == (3,)
    made = summarise("r", "j", [one], {})
    assert made.failed == 3
    assert made.cases[0].notes == (
        "Failed: last (repetition 0)",
        "Failed: incomplete (repetition 1)",
        "Missing: never run (repetition 3)",
    )


def test_warm_ups_never_count() -> None:
    """F18: but it is told when they failed."""
    warmups = [record(0, attempt, Outcome.FAILED, kind=Kind.WARMUP, error="cold") for attempt in (1, 2)]
    one = merged(record(0, 1, kind=Kind.WARMUP, seconds=99), *warmups[1:], *(record(k, 1) for k in range(4)))
    assert [counted.times.total for counted in one.counted] == [1, 2, 3, 4]
    assert one.failed_warmups == 1
    assert one.superseded == one.failed == ()


def test_s10_jobs_that_have_nothing_to_do_with_each_other_are_not_merged() -> None:
    """S10."""
    with pytest.raises(ReportError, match="j of run r, k of run r"):
        merge(trials(record(0, 1), record(0, 1, job="k", case="d")))


def test_s10_what_is_unsupported_is_said_once() -> None:
    """S10: it has no failures, nothing is missing."""
    refusals = [record(0, attempt, Outcome.UNSUPPORTED, error="no such cursor") for attempt in (1, 2)]
    made = summary(*refusals, expected=EXPECTED)
    assert (made.failed, made.cases[0].n) == (0, 0)
    assert made.cases[0].notes == ("Unsupported: no such cursor",)
    assert "| unsupported |" in markdown_of(made)


def test_hosts_and_types_are_flagged() -> None:
    """F20, B7: by what counts."""
    hosts = {1: Host(host="i-1", instance_type="m7i"), 2: Host(host="i-2", instance_type="m7a"), 3: Host(host="i-3")}
    records = [record(number, 1 + number % 2) for number in range(6)]
    made = summary(*records, record(9, 3, Outcome.FAILED), hosts=hosts)
    assert "spans hosts: i-1, i-2" in made.cases[0].warnings
    assert "spans instance types: m7a, m7i" in made.cases[0].warnings
    assert made.warnings == ("measured on several instance types: compare no case with another",)
    alone = summary(*(record(number, 1) for number in range(6)), hosts=hosts)
    assert not any("spans" in warning for warning in alone.cases[0].warnings)
    assert [one.attempt for one in alone.attempts] == [1, 2, 3]


def test_b02_one_repetition_has_no_spread() -> None:
    """case-B02: n/a, not 0, in every format; with two there is one, and a warning stays until there are five."""
    one = summary(record(0, 1))
    row = markdown_of(one).splitlines()[6]
    assert row == "| c | 1 | 1 | 1.000 s | n/a | n/a | 1.000 s | n/a | 0.0 MiB | 0 |"
    assert csv_of(one).splitlines()[1].startswith("r,j,c,1,1,1.0,n/a,n/a,n/a,1.0,n/a,")
    total = json.loads(files(one)["job-summary.json"])["cases"][0]["total"]
    assert (total["low"], total["mad"], total["p95"]) == (None, None, None)
    for n in (1, 2, 4, 5):
        made = summary(*(record(number, 1, seconds=1) for number in range(n)))
        warned = f"only {n} of 5 repetitions that an estimate takes" in made.cases[0].warnings
        assert warned == (n < 5)
    two = summary(record(0, 1), record(1, 1)).cases[0].total
    assert two is not None
    assert None not in (two.low, two.high, two.mad, two.p95)


def test_nothing_at_all_can_be_summarised() -> None:
    """S27: every format."""
    made = summary(expected=[Expected(case="c", scale="1", repetitions=2)])
    assert made.failed == 2
    assert "| c | 1 | 0 | n/a |" in markdown_of(made)
    assert files(made).keys() == {"job-summary.json", "job-summary.csv", "job-summary.md"}
    assert summary().failed == 0


def test_an_estimate_is_what_it_says() -> None:
    """B7."""
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    found = estimate(values, "seed")
    assert found is not None
    assert (found.n, found.median, found.minimum, found.mad) == (5, 3.0, 1.0, 1.0)
    assert found.p95 == pytest.approx(80.8)
    assert found.low is not None
    assert found.high is not None
    assert 1 <= found.low <= 3 <= found.high <= 100
    assert found == estimate(values[::-1], "seed")
    assert found.unstable
    steady = estimate([1.0, 1.01, 0.99, 1.0, 1.0], "seed")
    assert steady is not None
    assert not steady.unstable
    assert estimate([], "seed") is None


def test_an_interval_covers_the_median_about_as_often_as_it_says() -> None:
    """B7: of 200 samples of 15 from a skewed distribution whose median is 1."""
    import random

    chance = random.Random(7)
    covered = 0
    for k in range(200):
        found = estimate([2 ** chance.gauss(0, 1) for _ in range(15)], str(k))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1 <= found.high
    assert 178 <= covered <= 199


def test_text_of_others_stays_text() -> None:
    """In a page and in a spreadsheet."""
    made = summary(
        record(0, 1, Outcome.FAILED, error="|<b>\n# x"), record(0, 2, checksum="=1+1"), record(1, 2, checksum="b")
    )
    assert r"- Superseded: \|\<b\> # x (repetition 0)" in markdown_of(made)
    assert "several checksums" in made.warnings[0]
    assert all(not cell.startswith("=") for cell in csv_of(made).split(","))


# ---- any history of attempts -----------------------------------------------------------------------------------------
REPETITIONS = 5
HALF = st.sampled_from([Outcome.FAILED, Outcome.INTERRUPTED, Outcome.DISTURBED, None])


@st.composite
def histories(draw: st.DrawFn) -> list[Start]:
    """Any attempts of which at least one measures each repetition; others fail, stop half-way, or measure it again."""
    history: list[Start] = []
    for case in ("c", "d"):
        for number in range(REPETITIONS):
            attempts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True))
            succeeds = draw(st.sets(st.sampled_from(attempts), min_size=1))
            for attempt in attempts:
                if attempt in succeeds:
                    history.append(record(number, attempt, case=case))
                    continue
                outcome = draw(HALF)
                if outcome is None:
                    history.append(start(number, attempt, case=case))
                else:
                    history.append(record(number, attempt, outcome, case=case, error="x"))
    return draw(st.permutations(history))


@given(histories())
def test_i7_any_history_comes_to_what_an_undisturbed_run_measured(history: list[Start]) -> None:
    """I7, L1: estimates, counts and repetitions; only notes tell of what happened."""
    calm = summary(*(record(number, 1, case=case) for case in ("c", "d") for number in range(REPETITIONS)))
    made = summary(*history)
    assert made.failed == 0
    for case, expected in zip(made.cases, calm.cases, strict=True):
        assert (case.n, case.total, case.phases, case.seconds) == (
            expected.n,
            expected.total,
            expected.phases,
            expected.seconds,
        )
    lost = sum(not isinstance(one, Record) or one.outcome is not Outcome.SUCCESS for one in history)
    assert made.superseded == lost, "evidence never shrinks (S17)"


# ---- from folders and from S3 ----------------------------------------------------------------------------------------
def store(folder: Path, *of: Start, environment: dict[str, str] | None = None) -> None:
    """Write records as attempts do."""
    for one in of:
        attempt = checkpoint.LocalFolder(folder / f"g{one.generation}" / f"attempt-{one.attempt}")
        begun = {field: getattr(one, field) for field in Start.__struct_fields__}
        attempt.write(checkpoint.start_name(one.trial), checkpoint.encode(Start(**begun)))
        if isinstance(one, Record):
            attempt.write(checkpoint.record_name(one.trial), checkpoint.encode(one))
        if environment is not None:
            attempt.write("environment.json", json.dumps(environment).encode())


class Counting(FolderSource):
    """Counts what is fetched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fetched: list[str] = []

    def get(self, name: str) -> tuple[bytes, str]:
        """See `Source.get`."""
        self.fetched.append(name)
        return super().get(name)


def test_attempts_of_other_generations_and_later_ones_are_left_out(tmp_path: Path) -> None:
    """F20."""
    store(
        tmp_path,
        record(0, 1, generation=0),
        record(1, 2, generation=1),
        record(2, 3, generation=2),
        record(3, 4, generation=2),
    )
    found = read(FolderSource(tmp_path), generations=range(1, 3), until=Attempt(generation=2, number=3))
    assert [one.number for one in found.trials.records.values()] == [1, 2]
    assert len(found.records) == 4


def test_i3_a_summary_names_what_it_was_merged_from(tmp_path: Path) -> None:
    """I3: each object that was read, in the version that was read, and nothing else."""
    store(tmp_path, record(0, 1), start(1, 1), environment={"host": "i-1"})
    (tmp_path / "g0/attempt-1/log.txt").write_text("x")
    (tmp_path / "g0/attempt-1/job-summary.json").write_text("{}")
    found = read(FolderSource(tmp_path), generations=range(1))
    assert [one.name.removeprefix("g0/attempt-1/") for one in found.records] == [
        "checkpoint/c.1.rep-0.g0-a1-start.json",
        "checkpoint/c.1.rep-0.g0-a1.json",
        "checkpoint/c.1.rep-1.g0-a1-start.json",
        "environment.json",
    ]
    assert all(one.etag == etag_of((tmp_path / one.name).read_bytes()) for one in found.records)
    assert found.hosts == {(0, 1): Host(host="i-1")}


def test_what_is_here_with_the_same_content_is_not_fetched(tmp_path: Path) -> None:
    """A job's requests to S3 are counted; what is there is what counts."""
    store(tmp_path / "s3", record(0, 1), record(1, 2))
    store(tmp_path / "here", record(0, 1), record(1, 2, seconds=77))
    source = Counting(tmp_path / "s3")
    found = read(source, generations=range(1), here=tmp_path / "here")
    assert source.fetched == ["g0/attempt-2/checkpoint/c.1.rep-1.g0-a2.json"]
    assert [one.times.total for one in found.trials.records.values()] == [1, 2]


def test_s71_what_lands_after_the_end_is_listed_and_not_counted(tmp_path: Path) -> None:
    """S71, I3: the same summary for ever."""
    store(tmp_path, record(0, 2), record(1, 2))
    before = read(FolderSource(tmp_path), generations=range(1))
    counted = frozenset(one.name for one in before.records)
    store(tmp_path, record(0, 1, seconds=99), record(2, 2))
    after = read(FolderSource(tmp_path), generations=range(1), counted=counted)
    assert (after.trials, after.records) == (before.trials, before.records)
    assert len(after.late) == 4
    made = summarise("r", "j", merge(after.trials), after.hosts, after.late)
    assert "objects that landed after the job was done count for nothing: 4" in made.warnings
    assert "c.1.rep-2.g0-a2.json" in markdown_of(made)


def test_s26_records_do_not_depend_on_files_that_grow(tmp_path: Path) -> None:
    """S26: trials.jsonl may be cut off; each record is an object of its own, written once."""
    store(tmp_path, record(0, 1))
    (tmp_path / "g0/attempt-1/trials.jsonl").write_text("{")
    assert len(read(FolderSource(tmp_path), generations=range(1)).trials.records) == 1


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    """It is not left out in silence (I7)."""
    store(tmp_path, record(0, 1))
    (tmp_path / "g0/attempt-1/checkpoint/x.json").write_text('{"schema": 1')
    with pytest.raises(ReportError, match=r"checkpoint/x\.json"):
        read(FolderSource(tmp_path), generations=range(1))
    (tmp_path / "g0/attempt-1/checkpoint/x.json").unlink()
    (tmp_path / "g0/attempt-1/environment.json").write_text("[]")
    with pytest.raises(ReportError, match=r"environment\.json"):
        read(FolderSource(tmp_path), generations=range(1))


def test_of_what_may_run_enough_is_known_without_a_damaged_record() -> None:
    """I5, L1: its start says all; only a start that is damaged, without a record, may hide a query."""
    start = {"run": "r", "job": "j", "trial": "t", "case": "c", "scale": "1", "kind": "rep", "number": 0}
    start |= {"generation": 0, "attempt": 1, "adapter": "a", "prefix": "p", "started": "2026-01-01T00:00:00Z"}
    good = json.dumps(start).encode()
    record = json.dumps({**start, "outcome": "failed", "ended": start["started"], "seconds": 1}).encode()
    names = "checkpoint/t-start.json", "checkpoint/t.json"
    for bodies, opened in (((good, b"{"), {"t"}), ((b"{", record), {"t"})):
        assert Trials.read(zip(names, bodies, strict=True), enough=True).open().keys() == opened
        with pytest.raises(ReportError, match="no record"):
            Trials.read(zip(names, bodies, strict=True))
    assert not Trials.read([(names[1], b"{")], enough=True).open()  # of a trial that never began
    with pytest.raises(ReportError, match="t-start"):
        Trials.read(zip(names, (b"{", b"{"), strict=True), enough=True)


def test_names_that_are_no_records_are_left_alone() -> None:
    """I9, S47."""

    class Odd(FolderSource):
        def list(self) -> Sequence[Named]:
            names = [
                "g0/attempt-1/checkpoint/../../x.json",
                "g0/attempt-1/checkpoint/a/b.json",
                "g0/x/environment.json",
            ]
            return [Named(name=name, etag="e") for name in names]

    assert read(Odd(Path("/nowhere")), generations=range(1)).records == ()
