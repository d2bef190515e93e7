"""The fleet's code as the simulator watches it: every holding, every verdict, every body of a lease."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from longhaul.fleet import lease as rules
from longhaul.fleet.holding import Holding, Verdict
from longhaul.fleet.lease import Lease

_inside: list[Callable[[], None]] = []


@contextlib.contextmanager
def observed() -> Iterator[Callable[[], None]]:
    """Let the server hear of every holding, and of every verdict about one. Yielded is what begins a new schedule.

    Around many schedules it is entered once: whoever changes a class slows down all code that uses it. A body is
    decoded once, however often it is read: the same bytes are the same lease.
    """
    if _inside:
        yield _inside[0]
        return
    patched: Any = Holding
    module: Any = rules
    before = Holding.__init__, Holding._write, rules.encode, rules._decoder
    bodies = Bodies(rules.encode, rules._decoder.decode)
    patched.__init__, patched._write = _heard(Holding.__init__), _judged(Holding._write)
    module.encode, module._decoder = bodies.encode, bodies
    _inside.append(bodies.known.clear)
    try:
        yield bodies.known.clear
    finally:
        _inside.clear()
        patched.__init__, patched._write, module.encode, module._decoder = before


class Bodies:
    """Remembers what the bytes of leases say."""

    def __init__(self, encode: Callable[[Lease], bytes], decode: Callable[[bytes], Lease]) -> None:
        self.known: dict[bytes, Lease] = {}
        self._encode, self._decode = encode, decode

    def encode(self, lease: Lease) -> bytes:
        """See `lease.encode`."""
        body = self._encode(lease)
        self.known[body] = lease
        return body

    def decode(self, body: bytes) -> Lease:
        """See `msgspec.json.Decoder.decode`."""
        lease = self.known.get(body)
        if lease is None:
            lease = self.known[body] = self._decode(body)
        return lease


def _heard(init: Callable[..., None]) -> Callable[..., None]:
    def heard(self: Holding, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        store: Any = self._store
        store.believe(self)

    return heard


def _judged(write: Callable[..., Verdict]) -> Callable[..., Verdict]:
    def judged(self: Holding, body: Lease, until: float, **named: Any) -> Verdict:
        verdict = write(self, body, until, **named)
        if verdict is Verdict.LOST or verdict is Verdict.COMPLETED:
            store: Any = self._store
            store.server.verdict(self, verdict)
        return verdict

    return judged
