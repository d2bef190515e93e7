"""Whole workers on virtual time: hosts of a group, their commands and disks, queries that outlive them, operators."""
