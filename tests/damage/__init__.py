"""Damaged variants of logs, as many as wanted: `python -m tests.damage --count 10000 --seed 1`."""
