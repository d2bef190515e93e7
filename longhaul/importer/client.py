"""The client of S3, ready in half of the time that boto3 takes: a small log's job is mostly its start.

It is botocore's own, with its credentials, regions and retries. Left out are boto3's resources and transfers, which the
importer does not use; and botocore's descriptions of the service, 2 MB of JSON, are parsed by the parser at hand.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from botocore.config import Config
from botocore.loaders import JSONFileLoader
from botocore.session import get_session

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=10, read_timeout=60)


def s3() -> S3Client:
    """A client; botocore retries throttling and dead connections."""
    if "boto3" in sys.modules:  # its default session may be warm: a host's (see warm.py), or that of an IAM token
        import boto3

        return boto3.client("s3", config=_CONFIG)
    session = get_session()
    session.get_component("data_loader").file_loader = Descriptions()
    return cast("S3Client", session.create_client("s3", config=_CONFIG))


class Descriptions(JSONFileLoader):
    """Reads botocore's data files."""

    def load_file(self, file_path: str) -> Any:
        """The content of a file named without its ending; None if there is none."""
        for ending, unpacked in ((".json", bytes), (".json.gz", gzip.decompress)):
            path = Path(file_path + ending)
            if path.is_file():
                return msgspec.json.decode(unpacked(path.read_bytes()))
        return None
