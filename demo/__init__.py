"""`make demo`: a re-import with a failure, a repair and a redrive, told as it happens."""
