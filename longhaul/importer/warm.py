"""Third-party modules that every import needs, for a host that loads them once and forks a process per job.

The importer itself loads each only where it is used, so that it starts fast. Nothing here, or in any module of the
importer, makes a client, a thread or a socket when it is imported: forking afterwards is safe.
"""

from __future__ import annotations

import boto3
import botocore.exceptions
import isal.isal_zlib
import msgspec
import psycopg
import zstandard

import longhaul.evallog.log
import longhaul.warehouse.runs
import longhaul.warehouse.writer

__all__ = ["boto3", "botocore", "isal", "longhaul", "msgspec", "psycopg", "zstandard"]
