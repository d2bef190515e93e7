"""Longhaul keeps long lists of work going on machines that come and go."""
