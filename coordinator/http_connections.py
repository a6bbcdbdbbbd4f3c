"""How many connections the HTTP side holds, and for how long: bounded before a request is read or a token checked.

A connection costs a file descriptor, which commits need, too. One that has sent no whole request yet, or none since its
last answer, is *waiting*: the oldest of those gives way to a new one, so that a crowd of them keeps out nobody who
sends a request.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from firn.storage.log import get_logger

COMPLAINT_S: Final = 60.0
"""How often the log says that connections are refused or ended."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many connections there may be, of all peers and of one address, and how long each may take."""

    connections_max: int = 256
    peer_connections_max: int = 192
    """A proxy in front of the daemon is one peer."""
    head_s: float = 10.0
    """From connecting to the end of the first request."""
    answer_s: float = 60.0
    """From there to the answer."""
    idle_s: float = 30.0
    """From an answer to the next request, taking the answer included."""


class HttpConnections:
    """The connections of one server. `listener` makes protocols for them, `serving` marks requests under way."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self._limits = limits or ConnectionLimits()
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        """In the order in which they began to wait."""
        self._peers: Counter[str] = Counter()
        self._ended = 0
        self._complains_at = 0.0
        self._log = get_logger()

    def __len__(self) -> int:
        return len(self._open)

    def listener(self, serve: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """What `loop.create_server` takes: protocols of `serve` for the connections that are admitted."""
        return lambda: _Connection(self, serve)

    @contextmanager
    def serving(self, transport: asyncio.BaseTransport | None, *, endless: bool = False) -> Iterator[None]:
        """Count the connection as one with a request under way, which takes a bounded time unless it is `endless`."""
        connection = None if transport is None else self._open.get(transport)
        if connection is None:
            yield
            return
        connection.waits = False
        connection.end_after(None if endless else self._limits.answer_s)
        try:
            yield
        finally:
            if transport in self._open:
                self._open[transport] = self._open.pop(transport)  # the youngest of those that wait
            connection.waits = True
            connection.end_after(self._limits.idle_s)

    def admit(self, connection: _Connection, transport: asyncio.BaseTransport) -> bool:
        """Whether the connection may be served; another that waits may be ended for it."""
        if self._peers[connection.peer] >= self._limits.peer_connections_max:
            self._end_oldest(connection.peer)
        elif len(self._open) >= self._limits.connections_max:
            self._end_oldest(None)
        if (
            self._peers[connection.peer] >= self._limits.peer_connections_max
            or len(self._open) >= self._limits.connections_max
        ):
            self.count_ended()
            return False
        self._open[transport] = connection
        self._peers[connection.peer] += 1
        connection.end_after(self._limits.head_s)
        return True

    def forget(self, transport: asyncio.BaseTransport) -> None:
        """The connection has ended, or is about to."""
        connection = self._open.pop(transport, None)
        if connection is not None:
            connection.end_after(None)
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]

    def count_ended(self) -> None:
        """A connection was refused or ended; the log says so now and then, with their number."""
        self._ended += 1
        if time.monotonic() < self._complains_at:
            return
        self._complains_at = time.monotonic() + COMPLAINT_S
        self._log.warning(
            "http connections ended", since_last=self._ended, open=len(self._open),
            hint="they sent no request in time, or there were too many",
        )  # fmt: skip
        self._ended = 0

    def _end_oldest(self, peer: str | None) -> None:
        """End the connection that waits longest, of one peer (None: of all)."""
        oldest = next((one for one in self._open.values() if one.waits and peer in {None, one.peer}), None)
        if oldest is not None:
            oldest.end()


class _Connection(asyncio.Protocol):
    """Hands everything of one connection to the protocol that serves it, if it was admitted."""

    def __init__(self, connections: HttpConnections, serve: Callable[[], asyncio.Protocol]) -> None:
        self.peer = ""
        self.waits = True
        self._connections = connections
        self._serve = serve
        self._served: asyncio.Protocol | None = None
        self._transport: Any = None
        self._deadline: asyncio.TimerHandle | None = None

    def end_after(self, seconds: float | None) -> None:
        """End it that long from now, and not when it was to end before; None: not by time."""
        if self._deadline is not None:
            self._deadline.cancel()
        loop = asyncio.get_running_loop()
        self._deadline = None if seconds is None else loop.call_later(seconds, self.end)

    def end(self) -> None:
        """End the connection at once."""
        self._connections.forget(self._transport)
        self._connections.count_ended()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve it, or end it at once."""
        self._transport = transport
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._connections.admit(self, transport):
            self._transport.abort()
            return
        self._served = self._serve()
        self._served.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on."""
        if self._served is not None:
            self._served.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        return None if self._served is None else self._served.eof_received()

    def pause_writing(self) -> None:
        """Pass on."""
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        if self._served is not None:
            self._served.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more."""
        self._connections.forget(self._transport)
        if self._served is not None:
            self._served.connection_lost(exc)
