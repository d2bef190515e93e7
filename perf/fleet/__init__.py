"""What a fleet asks of S3, counted on virtual time."""
