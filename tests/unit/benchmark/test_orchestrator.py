"""One attempt of a job, against everything that can come between two trials (F18, F19)."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from longhaul.benchmark import checkpoint
from longhaul.benchmark.checkpoint import Kind, Outcome, Record
from longhaul.benchmark.orchestrator import FAILED, INTERRUPTED, MOST_REPEATS, STOPPED, SUCCEEDED, Assignment, Measured
from tests.unit.benchmark.doubles import CONFIG, Host, events_of, plan_for, records_of, succeed, trials_of

PLAN = plan_for()
ONE = plan_for(CONFIG.replace('name = "b"\n', 'name = "b"\nunsupported = "no such thing"\n'))


def failing(*numbers: int, outcome: Outcome = Outcome.FAILED) -> Host:
    """A host on which these repetitions of case a fail."""

    def behave(assignment: Assignment) -> Measured:
        start = assignment.start
        if start.kind is Kind.REPETITION and start.case.startswith("a-") and start.number in numbers:
            return Measured(outcome=outcome, error="throttled")
        return succeed(assignment)

    return Host(behave=behave)


def test_warm_ups_then_rounds_and_every_record_is_stored() -> None:
    """F18, F19: nothing starts before its start record and the record before it are stored, locally first (S53)."""
    host = Host()
    assert host.orchestrate(PLAN) == SUCCEEDED
    assert sorted(host.ran()[:2]) == ["a warmup-0", "b warmup-0"]
    assert sorted(host.ran()[2:]) == sorted(f"{case} rep-{k}" for case in "ab" for k in range(4))
    assert host.log[:2] == ["write environment.json", "put environment.json"]
    for k in range(10):
        trial = host.log[4 + 5 * k].removeprefix("run ")
        assert host.log[2 + 5 * k : 7 + 5 * k] == [
            f"write checkpoint/{trial}-start.json",
            f"put checkpoint/{trial}-start.json",
            f"run {trial}",
            f"write checkpoint/{trial}.json",
            f"put checkpoint/{trial}.json",
        ]
    assert {name: host.files[name] for name in host.stored} == host.stored
    known = [json.loads(line)["name"] for line in host.files[checkpoint.STORED].splitlines()]
    assert known == list(host.stored), "nobody need ask S3 what it has"
    assert len(host.files["trials.jsonl"].splitlines()) == 10


def test_i6_nothing_is_stored_while_a_trial_is_measured() -> None:
    """I6, S18."""
    host = Host()

    def behave(assignment: Assignment) -> Measured:
        before = list(host.log)
        measured = succeed(assignment)
        assert host.log == before
        return measured

    host.behave = behave
    assert host.orchestrate(PLAN) == SUCCEEDED


@pytest.mark.parametrize("number", [0, 2])
def test_s2_a_resume_repeats_no_success_but_its_own_warm_ups(number: int) -> None:
    """S2, S11: the warm-ups of another host warm nothing here, and are no repetitions."""
    first = failing(number, outcome=Outcome.INTERRUPTED)
    assert first.orchestrate(PLAN) == STOPPED
    second = Host()
    assert second.orchestrate(PLAN, 2, [first]) == SUCCEEDED
    assert sorted(second.ran()[:2]) == ["a warmup-0", "b warmup-0"]
    done = {record.repetition for record in records_of(first).values() if _measured(record)}
    again = {record.repetition for record in records_of(second).values() if _measured(record)}
    assert not done & again
    assert len(done | again) == 8


def test_errors_are_run_again_successes_are_not() -> None:
    """case-B04: four good, three throttled, three missing; six run, four are untouched."""
    config = CONFIG.replace("repetitions = 4", "repetitions = 10")
    plan = plan_for(config + 'cases = ["a"]\n')
    first = failing(1, 3, 5)
    first.refuse = lambda name: "rep-7" in name and name.endswith("-start.json")
    first.deadline = first.now + 60
    assert first.orchestrate(plan) == STOPPED
    outcomes = [record.outcome for record in records_of(first).values() if record.kind is Kind.REPETITION]
    assert (outcomes.count(Outcome.SUCCESS), outcomes.count(Outcome.FAILED), len(outcomes)) == (4, 3, 7)
    second = Host()
    assert second.orchestrate(plan, 2, [first]) == SUCCEEDED
    assert second.ran() == ["a warmup-0", *(f"a rep-{k}" for k in (1, 3, 5, 7, 8, 9))]


def test_a_case_that_has_everything_is_skipped_with_its_warm_ups() -> None:
    """F18."""
    first = failing(1, 3)
    assert first.orchestrate(PLAN) == FAILED
    second = Host()
    assert second.orchestrate(PLAN, 2, [first]) == SUCCEEDED
    assert second.ran() == ["a warmup-0", "a rep-1", "a rep-3"]


def test_s27_nothing_left_is_a_success() -> None:
    """S27: an earlier attempt measured all and could not publish it."""
    first, second = Host(), Host()
    assert first.orchestrate(PLAN) == SUCCEEDED
    assert second.orchestrate(PLAN, 2, [first]) == SUCCEEDED
    assert second.ran() == []
    assert list(second.stored) == ["environment.json"]


def test_s10_what_is_unsupported_is_recorded_once_over_attempts() -> None:
    """S10."""
    first, second = Host(), Host()
    assert first.orchestrate(ONE) == SUCCEEDED
    refused = [record for record in records_of(first).values() if record.outcome is Outcome.UNSUPPORTED]
    assert [(record.case[:2], record.error) for record in refused] == [("b-", "no such thing")]
    assert not any(name.startswith("b ") for name in first.ran())
    assert second.orchestrate(ONE, 2, [first]) == SUCCEEDED
    assert not records_of(second)


def test_what_turns_out_to_be_unsupported_is_not_tried_again() -> None:
    """S10: neither in this attempt nor in the next."""
    first, second = failing(0, outcome=Outcome.UNSUPPORTED), Host()
    assert first.orchestrate(PLAN) == SUCCEEDED
    assert [name for name in first.ran() if name.startswith("a ")] == ["a warmup-0", "a rep-0"]
    assert second.orchestrate(PLAN, 2, [first]) == SUCCEEDED
    assert second.ran() == []


def test_failures_are_told_by_the_exit_code_warm_ups_are_not() -> None:
    """F18."""

    def behave(assignment: Assignment) -> Measured:
        warmup = assignment.start.kind is Kind.WARMUP
        return Measured(outcome=Outcome.FAILED, error="cold") if warmup else succeed(assignment)

    assert Host(behave=behave).orchestrate(PLAN) == SUCCEEDED
    assert failing(3).orchestrate(PLAN) == FAILED


@pytest.mark.parametrize("what", ["environment.json", "rep-1.g0-a1-start.json", "rep-1.g0-a1.json"])
def test_s44_what_cannot_be_stored_is_waited_for(what: str) -> None:
    """S44, F19: and nothing starts before it is, however often it takes."""
    host = Host()
    refusals = iter([True] * 5)
    host.refuse = lambda name: name.endswith(what) and next(refusals, False)
    assert host.orchestrate(PLAN) == SUCCEEDED
    first = next(k for k, line in enumerate(host.log) if line.startswith("refuse"))
    assert host.log[first : first + 11] == [*["refuse " + host.log[first].split()[1], "wait"] * 5, host.log[first + 10]]
    assert host.log[first + 10].startswith("put")


@pytest.mark.parametrize("what", ["rep-1.g0-a1-start.json", "rep-1.g0-a1.json"])
def test_s44_what_cannot_be_stored_until_the_deadline_ends_the_attempt(what: str) -> None:
    """F19: without a failure, and without a trial more."""
    host = Host(deadline=1100)
    host.refuse = lambda name: name.endswith(what)
    assert host.orchestrate(PLAN) == STOPPED
    assert 1100 <= host.now < 1101
    assert {record.outcome for record in records_of(host).values()} == {Outcome.SUCCESS}
    refused = next(k for k, line in enumerate(host.log) if line.startswith("refuse"))
    assert not any(line.startswith(("run", "put")) for line in host.log[refused:])
    assert host.log.count("wait") < 20, "no busy waiting"


def test_waiting_ends_without_a_deadline_too() -> None:
    """L4."""
    host = Host(refuse=lambda name: True)
    assert host.orchestrate(PLAN) == STOPPED
    assert host.now < 1700


def test_a_deadline_that_moves_on_is_followed() -> None:
    """F19: the worker renews, and the store comes back."""
    host = Host(deadline=1030)

    def refuse(name: str) -> bool:
        host.deadline = host.now + 30 if host.now < 1200 else host.deadline + 1000
        return host.now < 1200

    host.refuse = refuse
    assert host.orchestrate(PLAN) == SUCCEEDED


@pytest.mark.parametrize("after", ["write", "put", "run"])
def test_s65_nothing_begins_after_the_deadline(after: str) -> None:
    """S65: a host that stood still, between any two steps, starts nothing when it goes on."""
    host = Host(deadline=10_000)

    class Stalls(list[str]):
        def append(self, line: str) -> None:
            super().append(line)
            if line.startswith(after) and "rep-1" in line:
                host.now = 20_000

    host.log = Stalls()
    assert host.orchestrate(PLAN) == STOPPED
    stalled = next(k for k, line in enumerate(host.log) if line.startswith(after) and "rep-1" in line)
    assert not any(line.startswith(("run", "put")) for line in host.log[stalled + 1 :])
    if after == "run":
        assert len(records_of(host)) == len(host.ran()), "evidence never shrinks (I7)"


def test_an_interrupted_trial_is_recorded_and_ends_the_attempt() -> None:
    """F13: locally first (S53), then once to S3, and nothing waits for that."""
    host = Host()

    def behave(assignment: Assignment) -> Measured:
        if assignment.start.number == 2:
            assert host.orchestrator is not None
            host.orchestrator.interrupt()
            host.refuse = lambda name: True
            return Measured(outcome=Outcome.INTERRUPTED, error="interrupted", queries=("q",))
        return succeed(assignment)

    host.behave = behave
    assert host.orchestrate(PLAN) == INTERRUPTED
    trial = host.ran()[-1]
    assert [line.split()[0] for line in host.log[-4:]] == ["run", "interrupt", "write", "refuse"], trial
    (record,) = [one for one in records_of(host).values() if one.outcome is Outcome.INTERRUPTED]
    assert record.queries == ("q",)
    assert events_of(host)[-1]["exit_code"] == INTERRUPTED


def test_an_interrupt_ends_a_wait_for_the_store() -> None:
    """F13: SIGINT is heard within the 20 s that there are."""
    host = Host()

    def refuse(name: str) -> bool:
        assert host.orchestrator is not None
        host.orchestrator.interrupt()
        return True

    host.refuse = refuse
    assert host.orchestrate(PLAN) == INTERRUPTED
    assert host.now < 1001
    assert host.ran() == []


def test_a_success_that_an_interrupt_came_upon_counts() -> None:
    """S52: it is recorded and stored, and nothing follows."""
    host = Host()

    def behave(assignment: Assignment) -> Measured:
        assert host.orchestrator is not None
        host.orchestrator.interrupt()
        return succeed(assignment)

    host.behave = behave
    assert host.orchestrate(PLAN) == INTERRUPTED
    assert len(host.ran()) == 1
    assert [record.outcome for record in records_of(host).values()] == [Outcome.SUCCESS]
    assert any(name.endswith("warmup-0.g0-a1.json") for name in host.stored)
    assert len(trials_of(host).starts) == 1, "no trial seems to have been started that was not"


def test_a_trial_beside_an_earlier_attempts_query_is_repeated() -> None:
    """I5, F20: recorded as disturbed, under another name, and run again."""
    host = Host()
    seen: list[datetime] = []

    def strays(since: datetime) -> list[str]:
        seen.append(since)
        return ["q-1"] if len(seen) in (1, 5, 6) else []  # the first look is for what ran before

    assert host.orchestrate(PLAN, 2, strays=strays) == SUCCEEDED
    disturbed = [record for record in records_of(host).values() if record.outcome is Outcome.DISTURBED]
    assert [record.disturbed_by for record in disturbed] == [("q-1",), ("q-1",)]
    assert [record.again for record in disturbed] == [0, 1]
    assert len(host.ran()) == len(set(host.ran())) == 12
    starts = trials_of(host).starts
    assert seen[1:] == [starts[line.removeprefix("run ")].started for line in host.log if line.startswith("run ")]


def test_a_trial_that_is_always_disturbed_fails() -> None:
    """L4; what cannot be measured cannot be disturbed (S10)."""
    host = Host()
    assert host.orchestrate(ONE, 2, strays=lambda since: ["q"]) == FAILED
    assert len(host.ran()) == 5 * (MOST_REPEATS + 1)
    assert {record.outcome for record in records_of(host).values()} == {Outcome.DISTURBED, Outcome.UNSUPPORTED}


def test_queries_that_cannot_be_looked_for_are_looked_for_again() -> None:
    """I5, L4: an error of the service is no end, and no proof that nothing ran beside the trial."""
    host = Host()
    looks: list[datetime] = []

    def strays(since: datetime) -> list[str]:
        looks.append(since)
        if len(looks) in (1, 3):
            raise ConnectionError
        return ["q-1"] if len(looks) == 4 else []

    assert host.orchestrate(PLAN, 2, strays=strays) == SUCCEEDED
    assert looks[2] == looks[3]
    assert next(iter(records_of(host).values())).outcome is Outcome.DISTURBED


def test_what_may_have_been_disturbed_is_not_recorded() -> None:
    """I5: until the deadline nobody could tell."""
    host = Host(deadline=1500)

    def strays(since: datetime) -> list[str]:
        if host.ran():
            raise ConnectionError
        return []

    assert host.orchestrate(PLAN, 2, strays=strays) == STOPPED
    assert len(host.ran()) == 1
    assert not records_of(host)


def test_a_laptop_needs_no_store() -> None:
    """Without `--checkpoint` the folder is all there is."""
    host = Host(refuse=lambda name: True)
    assert host.orchestrate(PLAN, remote=False) == SUCCEEDED
    assert len(records_of(host)) == 10


def test_prefixes_never_collide() -> None:
    """F19, S72: of two attempts, or of two tries of one repetition."""
    hosts = [Host(), Host()]
    for number, host in enumerate(hosts, 1):
        host.orchestrate(PLAN, number, trials="s3://b/runs/run-1/trials/", strays=lambda since: ["q"])
    prefixes = [start.prefix for host in hosts for start in trials_of(host).starts.values()]
    assert len(prefixes) == len(set(prefixes)) == 120
    assert all(
        prefix and prefix.startswith("s3://b/runs/run-1/trials/") and prefix.endswith("/") for prefix in prefixes
    )


def _measured(record: Record) -> bool:
    return record.kind is Kind.REPETITION and record.outcome is Outcome.SUCCESS
