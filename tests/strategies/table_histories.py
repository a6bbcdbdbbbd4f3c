"""Tables whose versions, snapshots and branches come and go, for tests of what may be removed of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from firn.model.datafile import DataFile
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import remove_snapshots
from firn.model.partitioning import UNPARTITIONED
from firn.model.schema import Schema
from firn.model.snapshot import MetadataLogEntry
from firn.model.types import LONG, NestedField, StructType
from firn.pipeline.upkeep import TableNow
from firn.storage.files import FileStore
from firn.storage.manifest_reader import StoredManifests
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import encode_metadata
from firn.storage.pointers import Pointer
from tests.strategies.small_tables import START_MS, SmallTable

SCHEMA = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="id", type=LONG, required=False),)))
LOG_MAX = 2
"""Versions that the table's log names, few so that most are beyond it."""


class History:
    """A table of which every version is stored, as commits store them; `mirror` keeps what is ever written."""

    def __init__(
        self,
        *,
        version: int = 2,
        log_max: int = LOG_MAX,
        files: FileStore | None = None,
        location: str = "memory://wh/t",
    ) -> None:
        self.mirror = MemoryFiles()
        self.table = SmallTable(SCHEMA, UNPARTITIONED, version=version, files=self.mirror, location=location)
        self.files: FileStore = MemoryFiles(now_ms=lambda: START_MS) if files is None else files
        self.versions: list[str] = []
        self._log_max = log_max
        self._copied: set[str] = set()
        self.store()

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def now(self) -> TableNow:
        """The table as a removal sees it."""
        pointer = Pointer(
            table="db.t",
            uuid=self.metadata.table_uuid,
            location=self.metadata.location,
            metadata_location=self.versions[-1],
        )
        return TableNow(pointer=pointer, metadata=self.metadata)

    def file(self) -> DataFile:
        """A new data file that nothing names."""
        file = self.table.data([{1: 1}])
        self._copy()
        return file

    def commit(self, *added: DataFile, removed: Iterable[DataFile] = (), branch: str = "main") -> int:
        """A snapshot, and the version that has it."""
        snapshot_id = self.table.commit(*added, removed=removed, branch=branch)
        self.store()
        return snapshot_id

    def expire(self, snapshot_ids: Iterable[int]) -> None:
        """Forget snapshots; those that a branch names stay."""
        heads = {ref.snapshot_id for ref in self.metadata.refs.values()}
        gone = set(snapshot_ids) - heads
        self.table.metadata = remove_snapshots(self.metadata, gone, now_ms=self.metadata.last_updated_ms + 1)
        self.store()

    def store(self) -> None:
        """Write the table as it is as its next version."""
        metadata, log = self.metadata, list(self.metadata.metadata_log)
        if self.versions:
            log.append(MetadataLogEntry(metadata_file=self.versions[-1], timestamp_ms=metadata.last_updated_ms))
        self.table.metadata = msgspec.structs.replace(metadata, metadata_log=tuple(log[-self._log_max :]))
        location = f"{metadata.location}/metadata/{len(self.versions):05}-v.metadata.json"
        self.mirror.create(location, encode_metadata(self.table.metadata))
        self.versions.append(location)
        self._copy()

    def live(self) -> list[DataFile]:
        """The data files that the head of main reads."""
        return live_files(self.metadata, self.mirror)

    def reachable(self) -> set[str]:
        """Everything that the table names, as the mirror has it."""
        found = {self.versions[-1], *(entry.metadata_file for entry in self.metadata.metadata_log)}
        reader = StoredManifests(self.mirror)
        for snapshot in self.metadata.snapshots:
            assert snapshot.manifest_list is not None
            found.add(snapshot.manifest_list)
            for manifest in reader.manifests(self.metadata, snapshot):
                found.add(manifest.manifest_path)
                entries = reader.entries(self.metadata, manifest)
                found.update(entry.data_file.file_path for entry in entries if entry.is_live)
        return found

    def stored(self) -> set[str]:
        """Every file that is there."""
        return {one.location for one in self.files.list(self.metadata.location)}

    def _copy(self) -> None:
        for one in self.mirror.list(self.metadata.location):
            if one.location not in self._copied:
                self._copied.add(one.location)
                self.files.create(one.location, self.mirror.read(one.location, bytes_max=one.size))


def live_files(metadata: TableMetadata, files: FileStore) -> list[DataFile]:
    """The data files that the head of main reads."""
    head = metadata.current_snapshot
    reader = StoredManifests(files)
    manifests = () if head is None else reader.manifests(metadata, head)
    entries = (entry for manifest in manifests for entry in reader.entries(metadata, manifest))
    return [entry.data_file for entry in entries if entry.is_live]
