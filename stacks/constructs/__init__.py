"""Pieces that the stacks are composed of: each creates what belongs together and grants on what it created."""
