"""What the pipeline's commands reach by their settings: journals, and a client."""

from __future__ import annotations

from collections.abc import Iterable

from firn.coordinator.cli.answers import answer_to
from firn.coordinator.cli.reach import Reach
from firn.coordinator.client import Answer, TableView
from firn.model.intent import Intent
from firn.pipeline.commits_table import JournalHead
from firn.storage.pointers import Pointer


class ReachClient:
    """Submits and finds tables as every command does: by the settings, ZooKeeper's word on where a table is."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    def submit(self, intent: Intent, /) -> _Submitted:
        """Take the intent; it is queued when its outcome is asked for."""
        return _Submitted(self._reach, intent)

    def table(self, name: str, /) -> TableView:
        """The table as it is now. Raises NotFound, Unavailable."""
        pointer = self._reach.pointer(name, kind="table")
        metadata = self._reach.reader.metadata(pointer.metadata_location)
        return TableView(name=name, metadata_location=pointer.metadata_location, metadata=metadata)


class _Submitted:
    def __init__(self, reach: Reach, intent: Intent) -> None:
        self._reach = reach
        self._intent = intent

    def result(self, timeout: float, /) -> Answer:
        return self._reach.run(answer_to(self._reach, self._intent, timeout_s=timeout))


def journal_heads(pointers: Iterable[Pointer]) -> list[JournalHead]:
    """The journals of these tables and views; dropped and renamed ones have theirs as well."""
    return [JournalHead(one.table, one.journal_head) for one in pointers if one.journal_head is not None]
