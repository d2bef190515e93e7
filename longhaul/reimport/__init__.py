"""Re-imports: lists of logs, the runs that force them through the importer, and what came of each log."""
