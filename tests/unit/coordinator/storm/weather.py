"""What goes wrong in a storm: servers, files and clocks of daemons that fail, each by the dice of one seed."""

from __future__ import annotations

import asyncio
import copy
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from firn.model.errors import Unavailable, UnknownOutcome
from firn.storage.files import FileInfo, FileStore
from firn.storage.memory_coordination import MemorySession, MemoryZooKeeper
from firn.storage.memory_streams import MemoryRedis, MemoryStreams

HELD_S: Final = 20.0
LATE_S: Final = 0.03
"""How long a request is on its way whose sender has given up waiting for the answer."""


class Weather(msgspec.Struct, kw_only=True):
    """How likely each call is to fail, while it storms."""

    dice: random.Random
    storms: bool = True
    session_drops: float = 0.02
    stream_drops: float = 0.02
    file_faults: float = 0.02

    def strikes(self, likely: float) -> bool:
        """Whether this call is one that fails."""
        return self.storms and self.dice.random() < likely


class Host:
    """What one daemon runs on: it can be stopped, as a debugger, a full collection or a paused VM does, and die."""

    def __init__(self) -> None:
        self.dead = False
        self._goes = asyncio.Event()
        self._goes.set()
        self._threads_go = threading.Event()
        self._threads_go.set()

    def stop(self) -> None:
        """Nothing of it goes on."""
        self._goes.clear()
        self._threads_go.clear()

    def go_on(self) -> None:
        """It goes on where it was."""
        self._goes.set()
        self._threads_go.set()

    def die(self) -> None:
        """Nothing of it goes on ever again: what it waits for fails."""
        self.dead = True
        self.go_on()

    async def turn(self) -> None:
        """Before and after whatever it asks a server for."""
        await self._goes.wait()
        self._check()

    def turn_of_thread(self) -> None:
        """The same, for what it does with files."""
        assert self._threads_go.wait(HELD_S)
        self._check()

    def _check(self) -> None:
        if self.dead:
            raise Unavailable("the daemon is dead")


def shaky_session(server: MemoryZooKeeper, host: Host, weather: Weather) -> MemorySession:
    """A session whose writes get lost before or after they take effect, take effect later, or end the session."""
    session = server.connect()
    turn, write = session._turn, session._write

    async def turned(kind: Literal["read", "write"]) -> None:
        epoch = session.epoch
        await host.turn()
        await turn(kind)
        if session.epoch != epoch:  # it was asked in a session that has ended
            raise UnknownOutcome("the session ended (injected)")

    async def written(path: str, effect: Callable[[], Any]) -> Any:
        epoch = session.epoch
        await host.turn()
        if session.epoch != epoch:
            raise UnknownOutcome(f"{path}: the session ended (injected)")
        if not weather.strikes(weather.session_drops):
            result = await write(path, effect)
            await host.turn()
            return result
        when = weather.dice.choice(("before", "after", "late", "ends before", "ends after"))
        # Only a swap: whatever else is late comes before the session's own next look, which follows it in order.
        match "before" if when == "late" and path != "multi" else when:
            case "before" | "after" as when:
                session.drop_next_write(when)
                return await write(path, effect)
            case "late":
                asyncio.get_running_loop().call_later(LATE_S, _if_live, server, session.session_id, effect)
            case "ends after":
                session.drop_next_write("after")
                try:
                    return await write(path, effect)
                finally:
                    server.expire(session, told=weather.dice.random() < 0.5)
            case _:
                server.expire(session, told=weather.dice.random() < 0.5)
        raise UnknownOutcome(f"{path}: no answer (injected)")

    session._turn, session._write = turned, written  # type: ignore[method-assign]
    return session


def _if_live(server: MemoryZooKeeper, session_id: int, effect: Callable[[], Any]) -> None:
    if server.is_live(session_id):
        try:
            effect()
        except Exception:  # noqa: BLE001 - the server refuses, and nobody hears it
            return


def shaky_streams(server: MemoryRedis, host: Host, weather: Weather) -> MemoryStreams:
    """A daemon's connection to Redis, whose answers get lost."""
    streams = server.connect()
    turn, write = streams._turn, streams._write

    async def turned() -> None:
        await host.turn()
        await turn()

    async def written(effect: Callable[[], Any]) -> Any:
        await host.turn()
        if weather.strikes(weather.stream_drops):
            streams.drop_next_write(weather.dice.choice(("before", "after")))
        result = await write(effect)
        await host.turn()
        return result

    streams._turn, streams._write = turned, written  # type: ignore[method-assign]
    return streams


class ShakyFiles:
    """A daemon's way to the files: writes fail at any file of a batch, with or without effect, or leave half of one;
    reads fail; a listing is an old one.
    """

    def __init__(self, inner: FileStore, host: Host, weather: Weather) -> None:
        self._inner = inner
        self._host = host
        self._weather = weather
        self._listed: dict[str, list[FileInfo]] = {}

    def read(self, location: str, *, bytes_max: int) -> bytes:
        self._before(location)
        return self._inner.read(location, bytes_max=bytes_max)

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        self._before(location)
        return self._inner.read_range(location, offset=offset, length=length)

    def create(self, location: str, data: bytes) -> None:
        self._host.turn_of_thread()
        strikes = self._weather.strikes(self._weather.file_faults)
        happens = self._weather.dice.choice(("nothing", "all")) if strikes else "all"
        if happens == "all":
            self._inner.create(location, data)
        if strikes:
            raise UnknownOutcome(f"{location}: no answer (injected)")
        self._host.turn_of_thread()

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        for location, data in files:
            self._host.turn_of_thread()
            if self._weather.strikes(self._weather.file_faults):
                happens = self._weather.dice.choice(("nothing", "half", "all"))
                if happens != "nothing":
                    self._inner.create(location, data if happens == "all" else data[: len(data) // 2])
                raise (UnknownOutcome if happens == "all" else Unavailable)(f"{location}: {happens} (injected)")
            self._inner.create(location, data)
        self._host.turn_of_thread()

    def replace(self, location: str, data: bytes) -> None:
        self._before(location)
        self._inner.replace(location, data)

    def size(self, location: str) -> int:
        self._before(location)
        return self._inner.size(location)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        self._before(prefix)
        asked = f"{prefix} {after}"
        if not self._weather.strikes(0.5) or asked not in self._listed:
            self._listed[asked] = list(self._inner.list(prefix, after=after))
        yield from self._listed[asked]

    def delete(self, location: str) -> None:
        self._before(location)
        self._inner.delete(location)

    def _before(self, location: str) -> None:
        self._host.turn_of_thread()
        if self._weather.strikes(self._weather.file_faults / 4):
            raise Unavailable(f"{location}: EIO (injected)")


class Failover:
    """A Redis whose replica takes over without what it was told last."""

    def __init__(self, server: MemoryRedis) -> None:
        self._server = server
        self._replica = self._copy()

    def replicate(self) -> None:
        """The replica has all."""
        self._replica = self._copy()

    def happen(self) -> None:
        """The replica is the server."""
        self._server.streams, self._server.keys, self._server.hashes = self._replica
        self.replicate()

    def _copy(self) -> tuple[Any, Any, Any]:
        return copy.deepcopy((self._server.streams, self._server.keys, self._server.hashes))
