"""The benchmark fleet: workers that share a queue through S3 objects with conditional writes and nothing else."""
