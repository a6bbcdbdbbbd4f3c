"""Reads of tables' files for commands that look at many tables: a store that hangs under one keeps none of the others.

A call that hangs cannot be ended. It stays behind in its thread, and the process leaves both when the command ends.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

from firn.model.errors import Unavailable
from firn.model.journal import Segment
from firn.storage.journal import JournalFiles

T = TypeVar("T")

PATIENCE_S: Final = 5.0
"""How long a store is waited for. Whoever looks at all tables wants the others' rows."""

PATIENCE_S_MIN: Final = 0.5
"""Half as long for each further table that hangs, so that some more of them do not cost a minute."""


class PatientReads:
    """Runs blocking reads one after the other, and gives up on those that hang, with all else of their tables."""

    def __init__(self) -> None:
        self._threads = _one_thread()
        self._patience_s = PATIENCE_S
        self.hanging: dict[str, str] = {}
        """Tables that were given up, each with what was said of it."""

    def run(self, table: str, work: Callable[[], T]) -> T:
        """What `work` reads of a table. Raises what it raises, and Unavailable when the store does not answer."""
        if table in self.hanging:
            raise Unavailable(self.hanging[table])
        reading = self._threads.submit(work)
        wait({reading}, self._patience_s)
        if reading.done():
            return reading.result()
        self._threads = _one_thread()  # the other one is taken
        self.hanging[table] = f"its store has not answered in {self._patience_s:g} s"
        self._patience_s = max(PATIENCE_S_MIN, self._patience_s / 2)
        raise Unavailable(self.hanging[table])


class PatientJournal(JournalFiles):
    """The journal of one table, read so."""

    def __init__(self, journal: JournalFiles, *, table: str, reads: PatientReads) -> None:
        self._journal = journal
        self._table = table
        self._reads = reads

    def read(self, location: str) -> Segment:
        return self._reads.run(self._table, lambda: self._journal.read(location))


def _one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="firn-reads")
