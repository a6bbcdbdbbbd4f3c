"""What a table's snapshots consist of, down to the data files, boiled down to what is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from firn.coordinator.fsck.finding import Finding
from firn.coordinator.fsck.seals import Seals
from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.limits import Limits
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.metric_faults import Fault, bound_types, metric_faults
from firn.model.partitioning import impossible_values
from firn.model.progress import Progress, counted, unseen
from firn.model.snapshot import Snapshot
from firn.storage.files import FileStore
from firn.storage.manifest_lists import decode_manifest_list
from firn.storage.manifests import decode_manifest, manifest_file_of_v1

T = TypeVar("T")
R = TypeVar("R")

READS_AT_ONCE: Final = 16

CHANGED: Final = "its bytes are not those that firn wrote: it was damaged, or edited"


class FileFact(msgspec.Struct, frozen=True):
    """An entry of a manifest without its metrics."""

    path: str
    status: Status
    content: str
    file_format: str
    records: int
    size: int
    snapshot_id: int | None
    first_row_id: int | None
    referenced: str | None
    blob: tuple[int, int] | None
    """Offset and length of a deletion vector in its file."""
    faults: tuple[Fault, ...] = ()
    """Members that no reader can use."""

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the snapshots that list the manifest."""
        return self.status is not Status.DELETED


class Listed(msgspec.Struct, frozen=True):
    """A manifest as one list describes it, and its entries (None: it cannot be read)."""

    manifest: ManifestFile
    facts: tuple[FileFact, ...] | None


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """Manifests by snapshot id (absent: its list cannot be read), and what reading found wrong."""

    snapshots: dict[int, tuple[Listed, ...]]
    findings: tuple[Finding, ...]

    def live_files(self) -> dict[str, FileFact]:
        """Every file that is live in any snapshot, by path."""
        return {fact.path: fact for fact in self.live_facts()}

    def live_facts(self) -> Iterator[FileFact]:
        """Yield every live entry of any snapshot; deletion vectors share files."""
        for listed in self.snapshots.values():
            for one in listed:
                yield from (fact for fact in one.facts or () if fact.is_live)

    @property
    def manifests(self) -> int:
        """How many manifests there are."""
        return len({one.manifest.manifest_path for listed in self.snapshots.values() for one in listed})


def read_contents(
    metadata: TableMetadata, files: FileStore, *, limits: Limits, progress: Progress = unseen
) -> Contents:
    """Read every manifest list and every manifest of every snapshot once. Raises Unavailable."""
    reading = _Reading(metadata, files, limits=limits)
    snapshots = metadata.snapshots
    for snapshot in counted(snapshots, "snapshot", total=len(snapshots), progress=progress):
        reading.read(snapshot)
    return Contents(snapshots=reading.snapshots, findings=tuple(reading.findings))


class _Reading:
    """Reads each manifest once for each way in which lists describe it, which normally is one."""

    def __init__(self, metadata: TableMetadata, files: FileStore, *, limits: Limits) -> None:
        self._metadata = metadata
        self._specs = {spec.spec_id: spec for spec in metadata.partition_specs}
        self._types = bound_types(metadata.schemas, metadata.current_schema)
        self._seals = Seals(metadata)
        self._files = files
        self._limits = limits
        self._known: dict[bytes, tuple[FileFact, ...] | None] = {}
        self._paths: dict[str, str] = {}
        self.snapshots: dict[int, tuple[Listed, ...]] = {}
        self.findings: list[Finding] = []

    def read(self, snapshot: Snapshot) -> None:
        """A snapshot with all its manifests; what cannot be read becomes a finding."""
        where = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
        try:
            manifests = self._manifests(snapshot)
        except NotFound:
            self._missing(where, f"the manifest list of snapshot {snapshot.snapshot_id} is gone")
            return
        except (CorruptFile, InvalidInput) as error:
            self._wrong(where, str(error))
            return
        self.snapshots[snapshot.snapshot_id] = tuple(Listed(manifest, self._facts(manifest)) for manifest in manifests)

    def _manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        if snapshot.manifest_list is not None:
            data = self._files.read(snapshot.manifest_list, bytes_max=self._limits.manifest_list_bytes_max)
            found = decode_manifest_list(
                data, location=snapshot.manifest_list, snapshot_id=snapshot.snapshot_id, refuse_repeated=False
            )
            if self._seals.broken_list(data, location=snapshot.manifest_list):
                self._wrong(snapshot.manifest_list, CHANGED)
            return found
        return [
            manifest_file_of_v1(
                self._files.read(path, bytes_max=self._limits.manifest_bytes_max),
                path=path,
                snapshot_id=snapshot.snapshot_id,
            )
            for path in snapshot.manifests or ()
        ]

    def _facts(self, manifest: ManifestFile) -> tuple[FileFact, ...] | None:
        key = msgspec.msgpack.encode(manifest)
        if key not in self._known:
            self._known[key] = self._read_manifest(manifest)
        return self._known[key]

    def _read_manifest(self, manifest: ManifestFile) -> tuple[FileFact, ...] | None:
        path = manifest.manifest_path
        try:
            data = self._files.read(path, bytes_max=self._limits.manifest_bytes_max)
            entries = decode_manifest(data, manifest=manifest, specs=self._specs, schemas=self._metadata.schemas)
            if self._seals.broken_manifest(data, location=path, spec_id=manifest.partition_spec_id):
                self._wrong(path, CHANGED)
        except NotFound:
            self._missing(path, "the manifest is gone")
            return None
        except (CorruptFile, InvalidInput) as error:
            self._wrong(path, str(error))
            return None
        return tuple(self._fact(entry) for entry in entries)

    def _fact(self, entry: ManifestEntry) -> FileFact:
        file = entry.data_file
        blob = None
        if file.content_offset is not None and file.content_size_in_bytes is not None:
            blob = (file.content_offset, file.content_size_in_bytes)
        return FileFact(
            self._paths.setdefault(file.file_path, file.file_path),  # one copy of a path that many manifests name
            entry.status,
            file.content,
            file.file_format,
            file.record_count,
            file.file_size_in_bytes,
            entry.snapshot_id,
            file.first_row_id,
            file.referenced_data_file,
            blob,
            (*metric_faults(file, self._types), *self._partition_faults(file)) if entry.is_live else (),
        )

    def _partition_faults(self, file: DataFile) -> Iterator[Fault]:
        spec = self._specs[file.spec_id]
        reasons = impossible_values(
            spec, file.partition, schema=self._metadata.current_schema, older=self._metadata.schemas
        )
        return (Fault("partition", reason) for reason in reasons)

    def _missing(self, where: str, message: str) -> None:
        self.findings.append(Finding(invariant="nothing-missing", where=where, message=message))

    def _wrong(self, where: str, message: str) -> None:
        self.findings.append(Finding(invariant="content-agrees", where=where, message=message))


def file_sizes(
    files: FileStore, paths: Iterable[str], *, progress: Progress = unseen
) -> Mapping[str, int | str | None]:
    """Size in bytes of each file; None when it is gone, a text when it is no file that could be read."""

    def look(path: str) -> tuple[str, int | str | None]:
        try:
            return path, files.size(path)
        except NotFound:
            return path, None
        except (CorruptFile, InvalidInput) as error:
            return path, str(error)

    listed = list(paths)
    return dict(read_at_once(look, listed, "file", progress=progress))


def read_at_once(read: Callable[[T], R], items: Sequence[T], what: str, *, progress: Progress) -> Iterator[R]:
    """Yield what `read` makes of each item, in order, several at once. An interruption ends it."""
    pool = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="fsck")
    try:
        yield from counted(pool.map(read, items), what, total=len(items), progress=progress)
    finally:
        pool.shutdown(cancel_futures=True)
