"""The fleet's own code on virtual time: many schedules, each with other faults, each to be had again from one line."""
