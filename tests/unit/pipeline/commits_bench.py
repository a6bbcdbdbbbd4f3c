"""Journals on in-memory twins with a whole daemon, and a collector that reaches both from a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from firn.coordinator.client import Answer, TableView
from firn.model.expressions.filter_text import filter_from_text
from firn.model.expressions.predicates import TRUE
from firn.model.intent import Intent
from firn.pipeline.commits_table import COMMITS_TABLE, Collected, CommitsTable, JournalHead
from firn.storage.journal import JournalFiles
from firn.storage.manifest_reader import StoredManifests
from firn.storage.pointers import Pointers
from firn.storage.scan_rows import scan_rows
from firn.storage.table_scan import plan_scan
from tests.unit.coordinator.workbench import Workbench


class CommitsBench(Workbench):
    """A workbench whose journals can be collected."""

    async def heads(self) -> list[JournalHead]:
        """The journals there are."""
        pointers = Pointers(self.zookeeper.connect())
        found = [(await pointers.read(name)).pointer for name in await pointers.list()]
        return [JournalHead(one.table, one.journal_head) for one in found if one.journal_head is not None]

    def commits_table(self, client: Any = None, **options: Any) -> CommitsTable:
        """A collector; made on this loop, used in another thread."""
        journal = JournalFiles(self.files, bytes_max=self.limits.journal_bytes_max)
        return CommitsTable(client or LoopClient(self), files=self.files, journal=journal, **options)

    async def collect(self, **options: Any) -> Collected:
        """One collection of all that there is now."""
        return await asyncio.to_thread(self.commits_table(**options).collect, await self.heads())

    async def rows(self, filter: str | None = None) -> list[dict[str, Any]]:
        """The rows of the table of commits as firn reads them, by column name, in the order of the journals."""
        metadata = await self.metadata(COMMITS_TABLE)
        names = {field.field_id: field.name for field in metadata.current_schema.fields}
        wanted = TRUE if filter is None else filter_from_text(filter)
        plan = plan_scan(metadata, files=StoredManifests(self.files), filter=wanted)
        found = [
            {names[i]: value for i, value in row.items()}
            for part in scan_rows(plan, metadata, files=self.files)
            for row in part
        ]
        return sorted(found, key=lambda row: (row["table_name"], row["journal_sequence"], row["position"]))

    async def decided(self) -> list[tuple[str, int, int, str]]:
        """What the journals themselves say: table, sequence, position, intent id."""
        segments = [segment for head in await self.heads() for segment in await self.journal(head.table)]
        return sorted(
            (segment.batch.table, segment.batch.sequence, at, decided.intent_id)
            for segment in segments
            for at, decided in enumerate(segment.decided)
        )


class LoopClient:
    """What a collector needs of a client, on the bench's loop."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._loop = asyncio.get_running_loop()

    def submit(self, intent: Intent) -> _Submitted:
        """Queue it."""
        self._on_loop(self._bench.send(intent))
        return _Submitted(self, intent)

    def table(self, name: str) -> TableView:
        """The table as its pointer has it."""
        pointer = self._on_loop(Pointers(self._bench.zookeeper.connect()).read(name)).pointer
        return TableView.from_metadata(pointer.metadata_location, self._bench.files, name=name)

    def outcome(self, intent: Intent, timeout: float) -> Answer:
        """Wait for it."""
        answer: Answer = self._on_loop(self._bench.outcome(intent, timeout_s=timeout))
        return answer

    def _on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)


class _Submitted:
    def __init__(self, client: LoopClient, intent: Intent) -> None:
        self._client = client
        self._intent = intent

    def result(self, timeout: float) -> Answer:
        return self._client.outcome(self._intent, timeout)
