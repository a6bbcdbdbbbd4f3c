"""Kazoo's results without a thread between: whoever waits for one is told by the thread that reads the connection.

Kazoo hands each result to another thread of its own, for the sake of callbacks that take long. Ours only wake the event
loop.
"""

from __future__ import annotations

from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler


class PromptResult(AsyncResult):  # type: ignore[misc]
    """A result whose callbacks run where it is set, and so must neither block nor raise."""

    def _do_callbacks(self) -> None:
        for callback in self._callbacks:
            callback(self)


class PromptHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Threads as kazoo has them, with `PromptResult`."""

    def async_result(self) -> PromptResult:
        """A new result."""
        return PromptResult(self)
