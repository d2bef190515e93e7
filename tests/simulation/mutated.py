"""A pytest plugin that takes a guard out before any test is imported (`-p tests.simulation.mutated`)."""

from tests.simulation import mutants

mutants.install_from_environment()
