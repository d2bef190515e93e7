"""The Batch job: one Inspect log from S3 into the warehouse (`python -m longhaul.importer`)."""
