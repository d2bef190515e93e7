"""Guards of the fleet's code, each of which can be taken out: the simulator, or the named test, must notice."""

import os

from tests.simulation.mutants.attempts import ATTEMPTS
from tests.simulation.mutants.edges import EDGES
from tests.simulation.mutants.leases import LEASES
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.operators import OPERATORS
from tests.simulation.mutants.queue import QUEUE
from tests.simulation.mutants.schedules import SCHEDULES
from tests.simulation.mutants.trials import TRIALS
from tests.simulation.mutants.watch import WATCH
from tests.simulation.mutants.workers import WORKERS

MUTANTS: tuple[Mutant, ...] = (*LEASES, *QUEUE, *ATTEMPTS, *WATCH, *WORKERS, *SCHEDULES, *TRIALS, *EDGES, *OPERATORS)
BY_NAME = {one.name: one for one in MUTANTS}
VARIABLE = "LONGHAUL_MUTANT"


def install_from_environment() -> Mutant:
    """In a process that the hunter started."""
    one = BY_NAME[os.environ[VARIABLE]]
    one.install()
    return one
