"""A client of the REST catalog, as Java and PyIceberg are: it writes manifests and lists itself, and sends updates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from firn.coordinator.tables.table_reader import TableReader
from firn.model.content_file import bind_content_file
from firn.model.intent import ContentFile
from firn.model.limits import Limits
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.operations.rest import RestCommit
from firn.model.snapshot import Snapshot, snapshot_to_json
from firn.storage.files import FileStore
from firn.storage.manifest_lists import assign_first_row_ids, encode_manifest_list
from firn.storage.manifests import encode_manifest, manifest_file
from tests.unit.coordinator.workbench import TABLE, new_id

_NUMBERS = itertools.count(1)

Json = dict[str, Any]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that a client has made, and the rows of its manifest list."""

    snapshot: Snapshot
    listed: tuple[ManifestFile, ...]

    @property
    def update(self) -> Json:
        return {"action": "add-snapshot", "snapshot": snapshot_to_json(self.snapshot)}


class RestWriter:
    """Writes on a table as it was read: `metadata` is what its requests are planned on."""

    def __init__(self, files: FileStore, metadata: TableMetadata) -> None:
        self.files = files
        self.metadata = metadata

    def manifest(
        self, entries: Sequence[ManifestEntry], *, snapshot_id: int, content: ManifestContent = "data"
    ) -> ManifestFile:
        """Write a manifest, and return its row of a list."""
        metadata = self.metadata
        encoded = encode_manifest(
            entries, schema=metadata.current_schema, spec=metadata.default_spec, content=content,
            format_version=metadata.format_version, snapshot_id=snapshot_id, older_schemas=metadata.schemas,
        )  # fmt: skip
        location = f"{metadata.location}/metadata/client-{next(_NUMBERS):05}-m0.avro"
        self.files.create(location, encoded.data)
        return manifest_file(encoded, location)

    def added(self, *files: ContentFile, snapshot_id: int) -> list[ManifestEntry]:
        """Entries as Java writes them: with the snapshot's id, and numbers left out."""
        bound = [bind_content_file(file, self.metadata, where="file") for file in files]
        return [ManifestEntry(status=Status.ADDED, snapshot_id=snapshot_id, data_file=file) for file in bound]

    def parent_list(self, parent: int | None) -> tuple[ManifestFile, ...]:
        snapshot = None if parent is None else self.metadata.snapshot_by_id(parent)
        if snapshot is None:
            return ()
        return TableReader(self.files, limits=Limits()).manifests(self.metadata, snapshot)

    def plan(
        self,
        manifests: Sequence[ManifestFile],
        *,
        snapshot_id: int,
        parent: int | None,
        number: int | None = None,
        operation: str = "append",
        summary: Json | None = None,
        first_row_id: int | None = None,
        **changes: Any,
    ) -> Planned:
        """Write a manifest list, and return the snapshot that it is of."""
        metadata, version = self.metadata, self.metadata.format_version
        number = (metadata.last_sequence_number + 1 if version > 1 else 0) if number is None else number
        added_rows = None
        listed = tuple(manifests)
        if version > 2:
            first_row_id = (metadata.next_row_id or 0) if first_row_id is None else first_row_id
            listed, end = assign_first_row_ids(listed, first_row_id)
            added_rows = end - first_row_id
        location = f"{metadata.location}/metadata/snap-{snapshot_id}-{next(_NUMBERS):05}.avro"
        data = encode_manifest_list(
            listed, format_version=version, snapshot_id=snapshot_id, parent_snapshot_id=parent, sequence_number=number,
            first_row_id=first_row_id,
        )  # fmt: skip
        self.files.create(location, data)
        snapshot = Snapshot(**{
            "snapshot_id": snapshot_id, "parent_snapshot_id": parent, "sequence_number": number,
            "timestamp_ms": metadata.last_updated_ms + 1, "manifest_list": location, "schema_id": 0,
            "summary": {"operation": operation, "engine-name": "test", **(summary or {})},
            "first_row_id": first_row_id, "added_rows": added_rows, **changes,
        })  # fmt: skip
        numbered = tuple(
            msgspec.structs.replace(one, sequence_number=number, min_sequence_number=max(0, one.min_sequence_number))
            if one.sequence_number < 0
            else one
            for one in listed
        )
        return Planned(snapshot=snapshot, listed=numbered)

    def append(self, *files: ContentFile, branch: str = "main", snapshot_id: int | None = None, **more: Any) -> Planned:
        """A fast append: one new manifest in front of those of the branch."""
        ref = self.metadata.refs.get(branch)
        parent = None if ref is None else ref.snapshot_id
        snapshot_id = 7_000_000 + next(_NUMBERS) if snapshot_id is None else snapshot_id
        own = self.manifest(self.added(*files, snapshot_id=snapshot_id), snapshot_id=snapshot_id)
        return self.plan([own, *self.parent_list(parent)], snapshot_id=snapshot_id, parent=parent, **more)

    def requirements(self, branch: str | None = "main") -> list[Json]:
        """That the table is this one, and its branch where it was."""
        same: list[Json] = [{"type": "assert-table-uuid", "uuid": self.metadata.table_uuid}]
        if branch is None:
            return same
        ref = self.metadata.refs.get(branch)
        head = None if ref is None else ref.snapshot_id
        return [*same, {"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": head}]

    def commit(self, *planned: Planned, branch: str | None = "main", **members: Any) -> RestCommit:
        """The request that adds snapshots, one on the other, and moves a branch to the last of them."""
        updates = [one.update for one in planned]
        if branch is not None:
            updates.append(moved(branch, planned[-1].snapshot.snapshot_id))
        return request(*updates, requirements=self.requirements(branch), **members)


def moved(branch: str, snapshot_id: int, *, type: str = "branch") -> Json:
    """The update that moves a branch."""
    return {"action": "set-snapshot-ref", "ref-name": branch, "snapshot-id": snapshot_id, "type": type}


def request(*updates: Json, requirements: Sequence[Json] = (), **members: Any) -> RestCommit:
    """A request of these updates."""
    return RestCommit(**{
        "intent_id": new_id(), "table": TABLE, "requirements": tuple(requirements), "updates": updates,
        "engine": "spark 4.1", "client": "test-client/1", **members,
    })  # fmt: skip
