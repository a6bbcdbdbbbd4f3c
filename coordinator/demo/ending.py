"""How the demo ends before its time: by a signal in good order, and after `kill -9` with all that it started."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (
    signal.SIGTERM,
    *(() if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)),  # ignored under nohup
)

PARENT_LOOK_S: Final = 0.5


class EndedError(BaseException):
    """A signal asked the demo to end. No Exception, so that nothing on the way catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def signals_end() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise EndedError in the main thread, as Ctrl-C raises KeyboardInterrupt.

    Further ones are ignored while what was started is stopped: a closing terminal sends several.
    """

    def hear(number: int, _frame: FrameType | None) -> None:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        raise EndedError(number)

    before = {number: signal.signal(number, hear) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with(parent: int) -> None:
    """End this process soon after its `parent` has ended, however that ended."""
    threading.Thread(target=_watch, args=(parent,), daemon=True, name="parent").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_LOOK_S)
    os._exit(1)  # what this process waits for may be gone as well
