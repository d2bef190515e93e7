"""A metadata service on a real socket, which misbehaves as it is told."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

META = "/latest/meta-data/"
TOKEN = "/latest/api/token"
DOCUMENT = {
    "instanceId": "i-0123456789abcdef0",
    "instanceType": "m7i.large",
    "availabilityZone": "us-west-2b",
    "region": "us-west-2",
    "accountId": "123456789012",
}


class MetadataServer:
    """Answers from `items`, to those with a valid token. `trouble` names what is done instead of answering a path."""

    def __init__(self, listener: socket.socket) -> None:
        self.items: dict[str, str] = {
            "/latest/dynamic/instance-identity/document": json.dumps(DOCUMENT),
            f"{META}instance-life-cycle": "spot",
        }
        self.trouble: dict[str, Any] = {}
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        self.over = threading.Event()
        self._names = itertools.count(1)
        self._listener = listener
        self.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def forget_tokens(self) -> None:
        """As when they expire."""
        self.tokens.clear()

    def serve(self) -> None:
        """Until the listener is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._guarded, args=(connection,), daemon=True).start()

    def _guarded(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._handle(connection)

    def _handle(self, connection: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            some = connection.recv(4096)
            if not some:
                return
            received += some
        head = received.decode().split("\r\n")
        verb, path, _ = head[0].split()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        self.requests.append(f"{verb} {path}")
        trouble = self.trouble.get(path)
        if trouble == "hang":
            self.over.wait(30)
        elif trouble == "reset":
            return
        elif trouble == "drip":
            self._drip(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        elif trouble == "drip of a head":
            self._drip(connection, b"HTTP/1.1 200 OK\r\nX-Slow: ")
        elif trouble == "half":
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n{"action": "termin')
        elif trouble == "half a head":
            connection.sendall(b"HTTP/1.1 20")
        elif trouble == "no HTTP":
            connection.sendall(b"\x00\xff\xfe" * 10)
        elif trouble == "flood":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000)
        elif isinstance(trouble, int):
            _answer(connection, trouble, "trouble")
        elif verb == "PUT":
            token = f"token-{next(self._names)}"
            assert 0 < int(headers["x-aws-ec2-metadata-token-ttl-seconds"]) <= 21_600
            self.tokens.add(token)
            _answer(connection, 200, token)
        elif headers.get("x-aws-ec2-metadata-token") not in self.tokens:
            _answer(connection, 401, "Unauthorized")
        elif path in self.items:
            _answer(connection, 200, self.items[path])
            if trouble == "stays":
                self.over.wait(30)
        else:
            _answer(connection, 404, "Not Found")

    def _drip(self, connection: socket.socket, head: bytes) -> None:
        """For half a minute, as whatever hangs here: then a client that let it is told by the time it took."""
        connection.sendall(head)
        for _ in range(150):
            if self.over.wait(0.2):
                return
            connection.sendall(b"x")


def _answer(connection: socket.socket, status: int, text: str) -> None:
    body = text.encode()
    connection.sendall(b"HTTP/1.1 %d X\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
    connection.sendall(body)


@contextlib.contextmanager
def metadata_server() -> Iterator[MetadataServer]:
    """Run one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = MetadataServer(listener)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(20)
