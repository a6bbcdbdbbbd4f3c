"""A daemon that dies over certain intents: ``python -m tests.acceptance.mortal_daemon``, as ``firn serve`` otherwise.

It kills itself in the moment in which such an intent is put into its lane, as a crash of the interpreter would: nothing
is finished, told, or given up.
"""

from __future__ import annotations

import os
import signal
from typing import Final

from firn.coordinator import daemon
from firn.coordinator.cli.main import run
from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.pending import Pending

FATAL_WRITER: Final = "fatal"
"""Who sends what no daemon survives."""


class MortalLanes(Lanes):
    """Lanes in which an intent of that writer is the end, unless it has been refused before it gets there."""

    def put(self, pending: Pending) -> None:
        if pending.decoded.intent.writer == FATAL_WRITER and pending.verdict is None:
            os.kill(os.getpid(), signal.SIGKILL)
        super().put(pending)


if __name__ == "__main__":
    vars(daemon)["Lanes"] = MortalLanes
    raise SystemExit(run(["serve"]))
