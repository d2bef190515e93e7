"""Guards of trials: what is stored before and after each, what is resumed, what counts, what may still run."""

from tests.simulation.mutants.mutant import Mutant, mutant

BENCHMARK = "tests/unit/benchmark/"
ORCHESTRATOR, MERGE = f"{BENCHMARK}test_orchestrator.py::", f"{BENCHMARK}test_merge.py::"

TRIALS: tuple[Mutant, ...] = (
    # ---- what is stored
    mutant(
        "a trial starts although its start is not stored",
        "S44 F19",
        "benchmark.orchestrator",
        "        self.local.write(name, body)\n        self._store(name, body)\n",
        "        self.local.write(name, body)\n        self.remote and self._try_to_store(name, body)\n\n"
        "    def _try_to_store(self, name: str, body: bytes) -> None:\n"
        "        try:\n            self.remote.put(name, body)\n        except StoreError:\n            pass\n",
        f"{ORCHESTRATOR}test_s44_what_cannot_be_stored_is_waited_for",
    ),
    mutant(
        "what cannot be stored until the deadline is a failure of the job",
        "S44 F19",
        "benchmark.orchestrator",
        'raise _End(STOPPED, f"the deadline is over, and {trouble}")',
        'raise _End(FAILED, f"the deadline is over, and {trouble}")',
        f"{ORCHESTRATOR}test_s44_what_cannot_be_stored_until_the_deadline_ends_the_attempt",
    ),
    mutant(
        "a record is only in S3, if it is there",
        "S53 I7",
        "benchmark.orchestrator",
        "        self.local.write(checkpoint.record_name(record.trial), body)\n",
        "",
        f"{ORCHESTRATOR}test_an_interrupted_trial_is_recorded_and_ends_the_attempt",
    ),
    mutant(
        "a trial starts after the deadline",
        "S65 F19",
        "benchmark.orchestrator",
        '        if self._over():\n            raise _End(STOPPED, "the deadline is over")\n',
        "",
        f"{ORCHESTRATOR}test_s65_nothing_begins_after_the_deadline",
    ),
    mutant(
        "a query starts after the deadline",
        "S65 F19",
        "benchmark.trial",
        '"deadline": None if deadline is None else str(deadline),',
        '"deadline": None,',
        f"{BENCHMARK}test_trial.py::test_s65_a_trial_looks_at_the_deadline_before_its_query",
    ),
    mutant(
        "a success beside an interrupt is thrown away",
        "S52 I7",
        "benchmark.trial",
        "measured.outcome is Outcome.FAILED and self._interrupted",
        "self._interrupted",
        f"{BENCHMARK}test_trial.py::test_a_failure_beside_an_interrupt_is_no_failure",
    ),
    mutant(
        "a trial leaves its processes running",
        "S12 I5",
        "benchmark.leftovers",
        "adopted = mine - before - {trial} if _LINUX else set()",
        "adopted: set[int] = set()",
        f"{BENCHMARK}test_trial.py::test_s12_what_a_trial_leaves_behind_is_dead_when_it_is_over",
    ),
    # ---- what is resumed
    mutant(
        "a resume does without warm-ups",
        "S11 F18",
        "benchmark.rounds",
        "else missing.get(unit.key))",
        "else missing.get(unit.key) and not records)",
        f"{ORCHESTRATOR}test_s2_a_resume_repeats_no_success_but_its_own_warm_ups",
    ),
    mutant(
        "nothing left is a failure",
        "S27 F18",
        "benchmark.orchestrator",
        "code = FAILED if failures else SUCCEEDED",
        "code = FAILED if failures or not work.tasks else SUCCEEDED",
        f"{ORCHESTRATOR}test_s27_nothing_left_is_a_success",
    ),
    mutant(
        "what is unsupported is recorded by each attempt",
        "S10 F18",
        "benchmark.rounds",
        "if unit.case.unsupported is not None and unit.key not in refused)",
        "if unit.case.unsupported is not None)",
        f"{ORCHESTRATOR}test_s10_what_is_unsupported_is_recorded_once_over_attempts",
    ),
    # ---- what counts
    mutant(
        "jobs that have nothing to do with each other are merged",
        "S10 F20",
        "benchmark.merge",
        "if len(jobs) > 1:",
        "if False:",
        f"{MERGE}test_s10_jobs_that_have_nothing_to_do_with_each_other_are_not_merged",
    ),
    mutant(
        "failures that a success followed are not told",
        "S17 F20",
        "benchmark.merge",
        "            superseded += notes\n",
        "",
        f"{MERGE}test_s17_what_did_not_succeed_is_superseded_by_what_did",
    ),
    mutant(
        "what lands after the end counts",
        "S71 I3",
        "benchmark.attempts",
        "            late.append(one.name)\n            continue\n",
        "            late.append(one.name)\n",
        f"{MERGE}test_s71_what_lands_after_the_end_is_listed_and_not_counted",
    ),
    mutant(
        "a done job's report is made anew",
        "S71 I3",
        "benchmark.publishing",
        "generations=generations, counted=counted)\n    summary",
        "generations=generations)\n    summary",
        f"{BENCHMARK}test_publishing.py::test_s71_a_done_jobs_report_is_what_it_was",
    ),
    # ---- what may still run
    mutant(
        "a query that starts late is missed",
        "S28 I5",
        "benchmark.quiesce",
        "checks = _checks(trials, adapters, began + APART_SECONDS, say)",
        "checks = _checks(trials, adapters, began, say)",
        f"{BENCHMARK}test_quiesce.py::test_two_clean_looks_30_s_apart_confirm",
    ),
    mutant(
        "one clean look confirms",
        "S28 I5",
        "benchmark.quiesce",
        "self.confirmed = clean and self.clean",
        "self.confirmed = clean",
        f"{BENCHMARK}test_quiesce.py::test_i5_a_query_that_starts_late_is_seen",
    ),
    mutant(
        "a look that failed was clean",
        "S45 I5",
        "benchmark.quiesce",
        "            clean = False\n",
        "            clean = True\n",
        f"{BENCHMARK}test_quiesce.py::test_a_look_that_fails_confirms_nothing",
    ),
    mutant(
        "a later attempt reports on itself alone",
        "F20 I7",
        "benchmark.publishing",
        "if attempt.number == 1 and",
        "if",
        f"{BENCHMARK}test_publishing.py::test_later_attempts_are_reported_from_all_that_is_there",
    ),
)
