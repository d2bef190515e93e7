"""What the benchmark harness itself costs."""
