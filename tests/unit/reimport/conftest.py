from tests.unit.reimport.fixtures import aws, hook, s3, sfn

__all__ = ["aws", "hook", "s3", "sfn"]
