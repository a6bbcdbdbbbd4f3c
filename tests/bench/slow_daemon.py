"""A daemon whose store answers each request after a while: ``python -m tests.bench.slow_daemon MILLISECONDS``.

Settings as for ``firn serve``. Requests that are made at once are answered at once, as those of an object store are.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from firn.coordinator.config import load_settings
from firn.coordinator.connections import connect
from firn.coordinator.daemon import Daemon
from firn.storage.failing_files import FailingFiles, Fault
from firn.storage.files import FileStore

AT_ONCE = 32
"""Requests under way for one commit at most, as for object stores."""


class SlowFiles(FailingFiles):
    """Each request takes `seconds` more; several files are put at once."""

    def __init__(self, inner: FileStore, *, seconds: float) -> None:
        super().__init__(inner, lambda _operation, _location: Fault(kind="slow", seconds=seconds))
        self._pool = ThreadPoolExecutor(AT_ONCE)

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """All of them, or the first error."""
        for done in [self._pool.submit(self.create, location, data) for location, data in files]:
            done.result()


async def serve(seconds: float) -> None:
    """Until SIGTERM."""
    settings, stop = load_settings(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        connections = await stack.enter_async_context(connect(settings))
        files = SlowFiles(connections.files, seconds=seconds)
        daemon = Daemon(settings, session=connections.session, streams=connections.streams, files=files)
        stack.push_async_callback(daemon.stop)
        await daemon.start()
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
