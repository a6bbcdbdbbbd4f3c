"""A client of the REST catalog that changes and merges manifests as Java and PyIceberg do."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import msgspec

from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import ContentFile
from firn.model.limits import Limits
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from tests.unit.coordinator.rest_writer import Planned, RestWriter

_IDS = itertools.count(8_000_000)


class ChangingWriter(RestWriter):
    """As `RestWriter`, with all that a snapshot can do to files."""

    def change(
        self,
        *added: ContentFile,
        deletes: Collection[ContentFile] = (),
        removed: Collection[ContentFile] = (),
        on: Planned | None = None,
        merged: bool = False,
        number: int | None = None,
        operation: str = "overwrite",
        branch: str = "main",
        **more: Any,
    ) -> Planned:
        """A snapshot that adds and removes files, on the branch or on another one of this client.

        `merged` puts all data files into one manifest; `number` is the data sequence number of added ones.
        """
        snapshot_id = next(_IDS)
        ref = self.metadata.refs.get(branch)
        parent = on.snapshot.snapshot_id if on else None if ref is None else ref.snapshot_id
        before = on.listed if on else self.parent_list(parent)
        gone = {(file.file_path, file.content_offset) for file in removed}
        rows: list[ManifestFile] = []
        new = [
            msgspec.structs.replace(entry, sequence_number=number)
            for entry in self.added(*added, snapshot_id=snapshot_id)
        ]
        carried: list[ManifestEntry] = []
        for row in before:
            entries = self.entries(row)
            names = {(e.data_file.file_path, e.data_file.content_offset) for e in entries if e.is_live}
            together = merged and row.content == "data"
            if not together and names.isdisjoint(gone):
                rows.append(row)
                continue
            left = [self._after(entry, gone, snapshot_id) for entry in entries if entry.is_live]
            if together:
                carried += left
            else:
                rows.append(self.manifest(left, snapshot_id=snapshot_id, content=row.content))
        if new or carried:
            rows.insert(0, self.manifest([*new, *carried], snapshot_id=snapshot_id))
        if deletes:
            own = self.added(*deletes, snapshot_id=snapshot_id)
            rows.append(self.manifest(own, snapshot_id=snapshot_id, content="deletes"))
        if on is not None:
            more = {"number": on.snapshot.sequence_number + 1, **more}
            if on.snapshot.first_row_id is not None:
                more["first_row_id"] = on.snapshot.first_row_id + (on.snapshot.added_rows or 0)
            return self.plan(rows, snapshot_id=snapshot_id, parent=parent, operation=operation, **more)
        return self.plan(rows, snapshot_id=snapshot_id, parent=parent, operation=operation, **more)

    def entries(self, row: ManifestFile) -> list[ManifestEntry]:
        return list(TableReader(self.files, limits=Limits()).entries(self.metadata, row))

    @staticmethod
    def _after(entry: ManifestEntry, gone: Collection[tuple[str, int | None]], snapshot_id: int) -> ManifestEntry:
        file = entry.data_file
        if (file.file_path, file.content_offset) in gone:
            return msgspec.structs.replace(entry, status=Status.DELETED, snapshot_id=snapshot_id)
        return msgspec.structs.replace(entry, status=Status.EXISTING)
