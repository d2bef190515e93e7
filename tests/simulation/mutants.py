"""Each guard of the lease code taken out in turn: the simulator, or the named test, must notice.

`python -m tests.simulation.mutants [NAME …]`. A mutant is a change of the source text, made as its module is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCHEDULES = 3000  # that a mutant may survive at most, if the simulator is to find it
UNIT = "tests/unit/fleet"
VARIABLE = "LONGHAUL_MUTANT"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A guard taken out."""

    name: str  # what the code then does
    rules: str
    module: str
    old: str
    new: str
    test: str | None = None  # the test that must fail; None: the simulator finds it

    @property
    def source(self) -> Path:
        """The module's file."""
        return ROOT / "longhaul" / "fleet" / f"{self.module}.py"

    def text(self) -> str:
        """The changed source; the place must be there exactly once."""
        source = self.source.read_text("utf-8")
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} is {source.count(self.old)} times in {self.module}.py")
        return source.replace(self.old, self.new)

    def install(self) -> None:
        """Let the changed module be the one that everybody imports from now on."""
        name = f"longhaul.fleet.{self.module}"
        if name in sys.modules:
            raise RuntimeError(f"{name} is imported already")
        package = importlib.import_module("longhaul.fleet")
        spec = importlib.util.spec_from_file_location(name, self.source)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(compile(self.text(), str(self.source), "exec"), module.__dict__)  # noqa: S102  our own source
        setattr(package, self.module, module)


def mutant(name: str, rules: str, module: str, old: str, new: str, test: str | None = None) -> Mutant:
    """One line of the table."""
    return Mutant(name=name, rules=rules, module=module, old=old, new=new, test=test and f"{UNIT}/{test}")


MUTANTS = (
    # ---- F1, F2: bodies and who may take
    mutant("an attempt's number is used again", "F2 S72", "lease", "last_attempt) + 1,", "last_attempt),"),
    mutant("done is takeable", "F2 I2", "lease", "now.lease is None or now.lease.state is State.DONE", "not now.lease"),
    mutant(
        "an unreadable lease is takeable",
        "F2",
        "lease",
        "    if now.lease is None or now.lease.state is State.DONE:\n        return False\n",
        "    if now.lease is None:\n        return True\n    if now.lease.state is State.DONE:\n        return False\n",
        "test_lease.py::test_only_what_is_absent_given_back_or_expired_is_takeable",
    ),
    mutant(
        "a running lease is takeable", "F2 S51", "lease", "state is not State.RUNNING or expired(", "nonce or expired("
    ),
    mutant("released is not takeable", "F2 L1", "lease", "return now.lease.state is not State.RUNNING or", "return"),
    mutant(
        "results are not looked at", "F2 S72", "taking", "found.last_attempt, found.generation", "0, found.generation"
    ),
    mutant("an end is not restored", "F2 S56", "taking", "if found.index is not None:", "if False:"),
    mutant(
        "an end of an earlier generation is restored",
        "F7 S70",
        "completion",
        "(last.generation, last.number) >",
        "(0, 0) >",
        "test_completion.py::test_a_stale_index_is_not_restored",
    ),
    mutant(
        "an end without its summary is restored",
        "I3 S56",
        "completion",
        "index.completion.summary not in there_are",
        "False",
        "test_completion.py::test_an_end_whose_summary_is_gone_is_not_restored",
    ),
    # ---- F3: reconciliation
    mutant(
        "nonces repeat",
        "F3",
        "holding",
        "rules.renewed(self.body, nonce=self._runtime.token()",
        "rules.renewed(self.body, nonce=self.body.nonce",
    ),
    mutant(
        "a refusal is believed",
        "F3 S49",
        "lease",
        "now.lease.nonce == wrote.nonce:",
        "False:",
        "test_lease.py::test_fate",
    ),
    mutant(
        "an unchanged lease counts as lost",
        "F3 E1",
        "lease",
        "        return Fate.OPEN\n    if now.lease",
        "        return Fate.LOST\n    if now.lease",
    ),
    mutant(
        "a creation in flight counts as lost",
        "F3 S49",
        "lease",
        "return Fate.OPEN if replaces is None else Fate.LOST",
        "return Fate.LOST",
        "test_lease.py::test_fate",
    ),
    mutant(
        "an object that is gone counts as open",
        "F3",
        "lease",
        "return Fate.OPEN if replaces is None else Fate.LOST",
        "return Fate.OPEN",
        "test_lease.py::test_fate",
    ),
    mutant(
        "an earlier write of its own counts as lost",
        "F3 S34",
        "lease",
        "            return Fate.OVERTAKEN\n",
        "            return Fate.LOST\n",
    ),
    mutant(
        "another's attempt is adopted",
        "F3 I1",
        "lease",
        "(now.lease.owner, now.lease.attempt) == (wrote.owner, wrote.attempt)",
        "now.lease.attempt == wrote.attempt",
    ),
    mutant(
        "another attempt of its own is adopted",
        "F3 I1",
        "lease",
        "(now.lease.owner, now.lease.attempt) == (wrote.owner, wrote.attempt)",
        "now.lease.owner == wrote.owner",
        "test_lease.py::test_fate",
    ),
    mutant(
        "its own done is overwritten",
        "F3 S63",
        "lease",
        "            return Fate.COMPLETED\n",
        "            return Fate.OVERTAKEN\n",
    ),
    mutant(
        "its own done counts as lost",
        "F3 S63",
        "lease",
        "            return Fate.COMPLETED\n",
        "            return Fate.LOST\n",
    ),
    mutant(
        "its own give-back is undone",
        "F3 I1",
        "lease",
        "if now.lease.state is State.RUNNING:",
        "if now.lease.state:",
        "test_lease.py::test_fate",
    ),
    mutant(
        "no answer means lost",
        "F3 S77",
        "holding",
        "                pass  # an",
        "                became = Fate.LOST  # an",
    ),
    mutant(
        "no answer means done",
        "F3 S49",
        "holding",
        "                pass  # an",
        "                return self._stands(body, body.nonce, first_sent)  # an",
    ),
    mutant(
        "what landed is not sent again",
        "F3",
        "holding",
        "send = became is Fate.OPEN or became is Fate.OVERTAKEN",
        "send = became is Fate.OPEN",
        "test_holding.py::test_an_earlier_write_of_ones_own_is_written_over",
    ),
    mutant(
        "nothing is ever given up",
        "F3 S76",
        "holding",
        "if self._runtime.clock() >= until or",
        "if",
        "test_holding.py::test_an_acquisition_without_answers_is_given_up",
    ),
    mutant(
        "what was not taken may still land",
        "F3 L2",
        "taking",
        "self.slots.give_back([claim, *won.holdings])",
        "self.slots.give_back(won.holdings)",
        "test_taking.py::test_an_unanswered_take_cannot_land_later",
    ),
    # ---- F4: deadline and expiry
    mutant(
        "the deadline has no margin",
        "F4",
        "lease",
        " + self.lease_seconds - self.margin_seconds",
        " + self.lease_seconds",
    ),
    mutant(
        "others grant no grace", "F4", "lease", "seconds=lease_seconds + terms.grace_seconds", "seconds=lease_seconds"
    ),
    mutant(
        "expiry goes by the holder's wall clock",
        "F4 S50",
        "lease",
        "expired(now.lease.lease_seconds, now.modified, now.date, terms)",
        "now.lease.expires + timedelta(seconds=terms.grace_seconds) <= now.date",
    ),
    mutant(
        "expiry goes by the reader's own lease",
        "F4",
        "lease",
        "expired(now.lease.lease_seconds, now",
        "expired(terms.lease_seconds, now",
        "test_lease.py::test_expiry_goes_by_the_lease_that_the_body_names",
    ),
    mutant(
        "the deadline counts from the answer",
        "F4 S41",
        "holding",
        "return self._stands(body, etag, first_sent)",
        "return self._stands(body, etag, self._runtime.clock())",
    ),
    mutant(
        "the deadline counts from the look",
        "F4 S41",
        "holding",
        "return self._stands(body, now.etag, first_sent)",
        "return self._stands(body, now.etag, self._runtime.clock())",
        "test_holding.py::test_the_deadline_counts_from_the_first_request",
    ),
    mutant(
        "the deadline counts from the last try",
        "F4 S41",
        "holding",
        "                if send:\n",
        "                if send:\n                    first_sent = self._runtime.clock()\n",
        "test_holding.py::test_the_same_bytes_sent_again_do_not_move_the_deadline",
    ),
    mutant(
        "the deadline is not looked at",
        "F4 S32",
        "holding",
        "return self._runtime.clock() < self._deadline",
        "return self.deadline > 0",
    ),
    mutant(
        "the clock stops in suspend",
        "F4 S66",
        "runtime",
        'getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)',
        "time.CLOCK_MONOTONIC",
        "test_runtime.py::test_the_clock_runs_on_in_suspend",
    ),
    # ---- F5, F6, F13: ending, renewing
    mutant(
        "one acts while giving back waits",
        "F4 I1",
        "holding",
        "            self.deadline = -math.inf  # before",
        "            pass  # before",
        "test_holding.py::test_giving_back_is_bounded_even_if_a_request_hangs",
    ),
    mutant(
        "one acts while completing",
        "F4 I1",
        "holding",
        "            self.deadline = -math.inf  # also",
        "            pass  # also",
        "test_holding.py::test_nobody_acts_once_done_is_on_its_way",
    ),
    mutant(
        "a late renewal revives an ended lease",
        "F4 I1",
        "holding",
        "if body.state is State.RUNNING and not self.ending:",
        "if body.state is State.RUNNING:",
        "test_holding.py::test_giving_back_is_bounded_even_if_a_request_hangs",
    ),
    mutant(
        "writes of threads go side by side",
        "S54",
        "holding",
        "return self._lock.acquire(timeout=max(0.0, until - self._runtime.clock()))",
        "return self._lock.acquire(timeout=0) or True",
        "test_holding.py::test_threads_write_one_at_a_time",
    ),
    mutant(
        "a renewal does not give way",
        "S37 L3",
        "holding",
        "or (gives_way and self.ending)",
        "or False",
        "test_holding.py::test_giving_back_does_not_wait_for_a_renewal_that_nobody_answers",
    ),
    mutant(
        "waiting for the lock has no end",
        "S37 L4",
        "holding",
        "self._lock.acquire(timeout=max(0.0, until - self._runtime.clock()))",
        "self._lock.acquire()",
        "test_holding.py::test_giving_back_is_bounded_even_if_a_request_hangs",
    ),
    mutant(
        "what is lost is written again",
        "F3",
        "holding",
        "if self._over or (state is State.DONE and not self.held):",
        "if state is State.DONE and not self.held:",
        "test_holding.py::test_a_lost_lease_is_never_written_again",
    ),
    mutant(
        "an expired claim is completed",
        "F14",
        "holding",
        "if self._over or (state is State.DONE and not self.held):",
        "if self._over:",
        "test_holding.py::test_an_expired_claim_is_not_completed_after_waiting",
    ),
    mutant(
        "nobody renews",
        "F5 E1",
        "holding",
        "if holding.wanted and holding.renew()",
        "if holding.wanted and Verdict.STANDS",
    ),
    mutant(
        "a short time-out ends the renewals",
        "F5 E1",
        "holding",
        "in (Verdict.LOST, Verdict.COMPLETED):",
        "is not None:",
    ),
    # ---- F6: slots
    mutant("a job runs with fewer slots", "F6 I4", "slots", "enough = len(won) == weight", "enough = len(won) > 0"),
    mutant(
        "slots are written before enough are free",
        "F6 S60",
        "slots",
        "        if len(free) < weight:\n            return Shortage.NOT_ENOUGH\n",
        "",
        "test_slots.py::test_nothing_is_written_unless_enough_are_free",
    ),
    mutant(
        "part of the slots is kept",
        "F6 S60",
        "slots",
        "if not enough or one not in won",
        "if one not in won",
        "test_slots.py::test_what_was_won_in_part_is_given_back",
    ),
    mutant(
        "an unanswered slot is taken for free",
        "F6 I4",
        "slots",
        "                continue  # not known",
        "                now = None  # not known",
        "test_slots.py::test_a_slot_that_could_not_be_read_is_not_free",
    ),
    mutant(
        "a slot that may still land is forgotten",
        "F6 L2",
        "slots",
        "if not enough or one not in won",
        "if not enough",
        "test_slots.py::test_a_slot_that_may_still_land_is_given_back",
    ),
    mutant(
        "more slots than there are",
        "F6 S74",
        "slots",
        "if weight > self.count:",
        "if False:",
        "test_slots.py::test_a_job_heavier_than_all_slots_asks_for_nothing",
    ),
    mutant(
        "a lighter job goes first",
        "F6 S74",
        "taking",
        "(-job.api_weight,",
        "(job.api_weight,",
        "test_taking.py::test_the_heaviest_goes_first",
    ),
    mutant(
        "slots come before the claim is looked at",
        "F6 S19",
        "taking",
        "        if not lease.takeable(now, self.terms, self.owner):\n            return Miss.NOT_TAKEABLE\n",
        "",
        "test_taking.py::test_a_claim_that_is_held_costs_one_read",
    ),
    mutant(
        "slots stay held if what remains is unknown",
        "F6 L2",
        "taking",
        "            self.slots.give_back(won.holdings)\n            raise",
        "            raise",
        "test_taking.py::test_slots_are_given_back_if_nobody_tells_what_remains",
    ),
    # ---- F7: completion
    mutant(
        "an index decides",
        "F7 S70",
        "listing",
        "return claim is not None and claim.lease is not None and claim.lease.state is State.DONE",
        "return job in self.indexed",
    ),
    mutant(
        "an index of another version is believed",
        "F7 S70",
        "completion",
        "(claim.lease.generation, claim.etag) ==",
        "(claim.lease.generation, index.claim_etag) ==",
        "test_completion.py::test_an_index_is_believed_only_of_the_version_it_names",
    ),
    mutant(
        "an index of another generation is believed",
        "F7 S70",
        "completion",
        "(claim.lease.generation, claim.etag) ==",
        "(index.generation, claim.etag) ==",
        "test_completion.py::test_an_index_is_believed_only_of_the_version_it_names",
    ),
    mutant(
        "a wrong index stays",
        "F7 S70",
        "completion",
        "if there is not None and there.index == right:",
        "if there is not None:",
        "test_completion.py::test_the_index_is_repaired",
    ),
    # ---- F8: listing
    mutant(
        "the dead are not looked at again",
        "F8 L2",
        "listing",
        "return lease.expired(before.lease.lease_seconds, listed.modified, date, self.terms)",
        "return False",
    ),
    mutant(
        "changes are not fetched",
        "F8 L1",
        "listing",
        "if before is None or before.etag != listed.etag:",
        "if before is None:",
    ),
    mutant(
        "everything is fetched",
        "F8",
        "listing",
        "if before is None or before.etag != listed.etag:",
        "if True:",
        "test_listing.py::test_only_what_changed_is_fetched",
    ),
    mutant(
        "a claim that could not be read is taken for absent",
        "F8 I8",
        "listing",
        "job not in self.unknown and ",
        "",
        "test_listing.py::test_a_claim_that_could_not_be_read_is_not_takeable",
    ),
)
BY_NAME = {one.name: one for one in MUTANTS}


def install_from_environment() -> None:
    """In a process that `main` started."""
    BY_NAME[os.environ[VARIABLE]].install()


def _hunt() -> None:
    """Look for a schedule that breaks, and print how many it took."""
    install_from_environment()
    schedule = importlib.import_module("tests.simulation.schedule")
    for seed in range(SCHEDULES):
        result = schedule.run(seed)
        if result.violation:
            print(json.dumps({"schedules": seed + 1, "violation": result.violation}))
            return
    print(json.dumps({"schedules": SCHEDULES, "violation": None}))


def _try(one: Mutant) -> tuple[Mutant, int | None, str | None]:
    """Returned are the schedules it took, and how it was noticed."""
    environment = {**os.environ, VARIABLE: one.name, "PYTHONDONTWRITEBYTECODE": "1"}
    if one.test is None:
        command = [sys.executable, "-c", "from tests.simulation import mutants; mutants._hunt()"]
        ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        found = json.loads(ran.stdout)
        return one, found["schedules"], found["violation"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.simulation.mutated", "--no-header", one.test]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{one.name}: {one.test} did not run\n{ran.stdout}{ran.stderr}")
    return one, None, one.test.rsplit("::", 1)[1] if ran.returncode == 1 else None


def main(names: list[str]) -> int:
    """Hunt them all; 1 if one survives."""
    chosen = [BY_NAME[name] for name in names] or list(MUTANTS)
    began = time.monotonic()
    took, survivors = [], []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for one, schedules, noticed in pool.map(_try, chosen):
            how = f"after {schedules} schedules: {noticed}" if schedules else str(noticed)
            print(f"{'found   ' if noticed else 'SURVIVES'} {one.name} ({one.rules}), {how}", flush=True)
            if noticed is None:
                survivors.append(one.name)
            elif schedules:
                took.append(schedules)
    median = f", the median took {statistics.median(took):.0f} schedules" if took else ""
    print(
        f"{len(chosen) - len(survivors)} of {len(chosen)} mutants found in {time.monotonic() - began:.0f} s:"
        f" {len(took)} by the simulator{median}, {len(chosen) - len(survivors) - len(took)} by their tests"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
