"""S3's client: botocore's own, with every way to credentials, whichever parser reads its descriptions."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore
import pytest
from botocore.loaders import JSONFileLoader

from longhaul.importer import client

DATA = Path(botocore.__file__).parent / "data"
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["s3/2006-03-01/service-2", "s3/2006-03-01/endpoint-rule-set-1", "endpoints", "none"])
def test_descriptions_are_what_botocore_reads_itself(name: str) -> None:
    found = client.Descriptions().load_file(str(DATA / name))
    assert found == JSONFileLoader().load_file(str(DATA / name))
    assert (found is None) == (name == "none")


@pytest.mark.parametrize("names", [["a.json"], ["a.json.gz"], ["a.json", "a.json.gz"]])
def test_a_plain_description_counts_before_a_packed_one(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        content = json.dumps({"from": name}).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    expected = JSONFileLoader().load_file(str(tmp_path / "a"))
    assert client.Descriptions().load_file(str(tmp_path / "a")) == expected == {"from": names[0]}


def test_a_host_that_loaded_boto3_has_its_warm_session_used(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr("boto3.client", lambda name, config: asked.append((name, config)) or "a client")
    assert client.s3() == "a client"
    assert [(name, config.retries, config.read_timeout) for name, config in asked] == [
        ("s3", {"mode": "standard", "total_max_attempts": 5}, 60)
    ]


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Where a container's credentials are, and S3 beside it; notes the paths and signatures it is asked with."""
    asked: list[tuple[str, str]] = []
    expiry = datetime.now(UTC) + timedelta(hours=1)
    credentials = {"AccessKeyId": "OFTHETASK", "SecretAccessKey": "x", "Token": "t", "Expiration": expiry.isoformat()}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization", "")))
            body = json.dumps(credentials).encode() if self.path == "/task" else b"a log"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize("owner", ["OFTHETASK", "OFTHEENVIRONMENT", "OFTHEPROFILE"])
def test_credentials_and_region_are_found_where_botocore_looks(endpoint, tmp_path: Path, owner: str) -> None:
    """A job of AWS Batch has those of its task."""
    url, asked = endpoint
    (tmp_path / "config").write_text("[profile one]\naws_access_key_id = OFTHEPROFILE\naws_secret_access_key = x\n")
    environment = {
        "OFTHETASK": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/task"},
        "OFTHEENVIRONMENT": {"AWS_ACCESS_KEY_ID": owner, "AWS_SECRET_ACCESS_KEY": "x"},
        "OFTHEPROFILE": {"AWS_PROFILE": "one"},
    }[owner]
    code = (
        "import sys\n"
        "from longhaul.importer.client import s3\n"
        "body = s3().get_object(Bucket='logs', Key='a b.eval')['Body'].read()\n"
        "print(body.decode(), 'boto3' in sys.modules)\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **kept,
            **environment,
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "eu-west-3",
            "AWS_DEFAULT_REGION": "eu-west-3",
            "AWS_CONFIG_FILE": str(tmp_path / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "a log False\n"), done.stderr
    path, signature = asked[-1]
    assert path == "/logs/a%20b.eval"
    assert f"Credential={owner}/" in signature
    assert "/eu-west-3/s3/aws4_request" in signature
