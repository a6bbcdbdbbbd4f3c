"""The command line on in-memory twins: what a user types, and what the user sees."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from firn.coordinator.cli.connectors import Connectors
from firn.coordinator.cli.main import run
from firn.coordinator.config import Settings
from firn.model.errors import Unavailable
from firn.storage.sessions import Session
from tests.unit.coordinator.workbench import Workbench


class Said(msgspec.Struct, frozen=True):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document that it printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON lines that it printed."""
        return [json.loads(line) for line in self.out.splitlines()]


class CliBench(Workbench):
    """A workbench with a `firn` command. Servers can be taken away with `redis.down` and `zookeeper_down`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.zookeeper_down = False

    async def firn(self, *arguments: str) -> Said:
        """Run a command in a thread; what it does on servers happens on this loop, where the twins live."""
        loop = asyncio.get_running_loop()

        def on_this_loop(work: Coroutine[Any, Any, Any]) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=30)

        connectors = Connectors(
            session=self._session, streams=lambda _: self.redis.connect(), files=lambda _: self.files, run=on_this_loop
        )
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = await asyncio.to_thread(run, arguments, connectors=connectors)
        return Said(code, out.getvalue(), err.getvalue())

    @asynccontextmanager
    async def _session(self, _settings: Settings) -> AsyncIterator[Session]:
        if self.zookeeper_down:
            raise Unavailable("no ZooKeeper answers at nowhere")
        session = self.zookeeper.connect()
        try:
            yield session
        finally:
            await session.close()
