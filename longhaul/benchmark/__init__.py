"""Measures cases by trials, each in a process of its own; what a fleet of workers runs."""
