"""A TCP proxy before Postgres that cuts connections at a chosen word of the client's."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit


class Proxy:
    """Forwards to the server of `url`; the first connection that says `word` is cut.

    `after_bytes` more bytes of the client's pass first. With `answer_lost` the server is told to the end, and only its
    answer does not come back.
    """

    def __init__(
        self, url: str, word: bytes, *, times: int = 1, after_bytes: int = 0, answer_lost: bool = False
    ) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 5432)
        self._word = word
        self._after_bytes, self._answer_lost = after_bytes, answer_lost
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = url.replace(f":{parts.port}/", f":{port}/")
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._target) as server:
            seen, left = b"", -1  # left: bytes that may still pass once the word was said
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    if ready is server:
                        client.sendall(data)
                        continue
                    seen = (seen + data)[-(1 << 17) :]
                    if left < 0 and self._word in seen and not self.cuts:
                        self.cuts += 1
                        left = self._after_bytes
                        if self._answer_lost:
                            server.sendall(data)
                            server.recv(1 << 16)
                            return
                    if left >= 0:
                        server.sendall(data[:left])
                        left -= len(data)
                        if left < 0:
                            return
                        continue
                    server.sendall(data)
