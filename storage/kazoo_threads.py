"""kazoo's threads, with less to do for each request than its own.

Its connection makes an epoll object anew whenever it waits for its socket. And what came off is handed from whoever
reads the answer to another thread, which wakes the event loop.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any, Final

from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler

_IN: Final = select.POLLIN | select.POLLPRI
_BROKEN: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL
"""A reader and a writer are both to find out what is wrong."""


class KazooThreads(SequentialThreadingHandler):  # type: ignore[misc]
    """Results are told by whoever reads the answer; failures, as before, in their order with the session's state."""

    attended: Any = None
    """A connection that the event loop reads (`firn.storage.kazoo_connection`): only what stays unread is found."""

    def async_result(self) -> AsyncResult:
        """A result of one request."""
        return _Result(self)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As `select.select`, for any descriptor."""
        attended = self.attended
        poll = select.poll()
        for reader in readers:
            if reader is not attended:
                poll.register(reader, _IN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        found = dict(poll.poll(None if timeout is None else timeout * 1000))
        if not found and attended is not None and attended in readers:
            poll.register(attended, _IN)
            found = dict(poll.poll(0))
        return (
            [reader for reader in readers if found.get(reader.fileno(), 0) & (_IN | _BROKEN)],
            [writer for writer in writers if found.get(writer.fileno(), 0) & (select.POLLOUT | _BROKEN)],
            [],
        )


class _Result(AsyncResult):  # type: ignore[misc]
    """A result whose success does not wait for another thread."""

    def _do_callbacks(self) -> None:
        if not self.successful():
            super()._do_callbacks()
            return
        for callback in self._callbacks:
            callback(self)
