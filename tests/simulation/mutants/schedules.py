"""Guards whose absence schedules of whole workers show, and directed ones."""

from tests.simulation.mutants.mutant import Mutant, among_workers

SCHEDULES: tuple[Mutant, ...] = (
    among_workers(
        "a crashed run is on no record",
        "I5 F14",
        "attempt",
        '        control.call("putting the run on record",',
        '        record and (lambda *_: None)("putting the run on record",',
    ),
    among_workers(
        "what an earlier worker left is not settled",
        "I5 F14",
        "worker",
        "        self._custody.settle_what_was_left()\n",
        "",
    ),
    among_workers(
        "whoever gives up leaves its queries",
        "I5 F14",
        "attempt",
        "if dead and self._to_settle and self._unconfirmed is None:",
        "if False:",
    ),
    among_workers(
        "whoever gives up leaves its command running",
        "I1 F14",
        "attempt",
        "        dead = control.kill(self._runtime.clock() + KILL_SECONDS)\n        if dead and",
        "        dead = True\n        if dead and",
    ),
    among_workers(
        "nobody looks for queries beside a trial",
        "I5 F20",
        "benchmark.quiesce",
        "    if not remote:\n        return None\n",
        "    return None\n",
    ),
    among_workers(
        "a record is not stored before the next trial",
        "E2 F19",
        "benchmark.orchestrator",
        "        self._store(checkpoint.record_name(record.trial), body)\n",
        "",
    ),
    among_workers(
        "a resume measures everything again",
        "E2 S2",
        "benchmark.rounds",
        "if (*unit.key, number) not in measured]",
        "]",
    ),
    among_workers(
        "a repetition counts as often as it succeeded",
        "I7 F20",
        "benchmark.merge",
        "            counted.append(successes[0])\n",
        "            counted += successes\n",
    ),
    among_workers(
        "a summary stays on the host",
        "I3 S40 S48",
        "publication",
        "        if merged is not None:\n            self._upload(merged)\n        failed",
        "        failed",
    ),
    among_workers(
        "a refused decrement is taken for granted",
        "L5 F16",
        "keeper",
        'if not self._try("retiring the host", self._machine.retire, MACHINE_SECONDS):',
        'if self._try("retiring the host", self._machine.retire, MACHINE_SECONDS) is None:',
    ),
    among_workers(
        "the metadata service ends the lookout",
        "L4 S14",
        "lookout",
        "except Exception as error:  # noqa: BLE001  whatever",
        "except OSError as error:  # noqa: BLE001  whatever",
    ),
    among_workers(
        "a run that is deaf is waited for",
        "L3 F13",
        "attempt",
        "self._interrupt(began + INTERRUPT_SECONDS)",
        "self._interrupt(began + 10 * INTERRUPT_SECONDS)",
    ),
    among_workers(
        "a host that shuts down is taken for dead",
        "I1 S67",
        "housekeeping",
        "if described.state != Ec2State.TERMINATED:",
        "if described.state == Ec2State.RUNNING:",
    ),
    among_workers(
        "a host that EC2 does not list yet is taken for dead",
        "I1 S67",
        "housekeeping",
        "return TERMINATED if launched is not None and launched + UNLISTED <= now else None",
        "return TERMINATED",
    ),
)
