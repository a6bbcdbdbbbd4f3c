"""A table's history as it lies in storage, read with json, gzip, fastavro and pyarrow, and nothing of firn's.

Every reading checks what a reader must be able to rely on: lengths, counts, and that a file is there.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq

from tests.acceptance.outside_files import vector_positions

LIVE: Final = (0, 1)
CONTENTS: Final = ("data", "positions", "equality")


class HistoryFault(AssertionError):
    """What is in storage is not what it must be."""


def require(holds: object, what: str) -> None:
    """Raise a HistoryFault unless something holds."""
    if not holds:
        raise HistoryFault(what)


def canonical(path: str) -> str:
    """One spelling of a local path."""
    bare = path.removeprefix("file:")
    return "/" + "/".join(part for part in bare.split("/") if part)


@dataclass(frozen=True)
class Entry:
    """A live file of a snapshot, with what it inherits."""

    path: str
    kind: str
    sequence: int
    count: int
    size: int
    file: dict[str, Any] = field(compare=False)
    first_row_id: int | None = None

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector."""
        return str(self.file["file_format"]).upper() == "PUFFIN"


@dataclass(frozen=True)
class Version:
    """One metadata file."""

    location: str
    metadata: dict[str, Any] = field(compare=False)

    @property
    def refs(self) -> dict[str, int]:
        """What branches and tags point at."""
        return {name: ref["snapshot-id"] for name, ref in self.metadata.get("refs", {}).items()}

    @property
    def properties(self) -> dict[str, str]:
        """Properties that only writers set."""
        return {k: v for k, v in self.metadata.get("properties", {}).items() if k.startswith("outside.")}

    @property
    def columns(self) -> set[str]:
        """Names of the current schema."""
        wanted = self.metadata["current-schema-id"]
        schema = next(s for s in self.metadata["schemas"] if s["schema-id"] == wanted)
        return {column["name"] for column in schema["fields"]}

    @property
    def partition_columns(self) -> list[str]:
        """Names of the fields of the default partition spec."""
        wanted = self.metadata["default-spec-id"]
        spec = next(s for s in self.metadata["partition-specs"] if s["spec-id"] == wanted)
        return [partition["name"] for partition in spec["fields"]]

    @cached_property
    def snapshots(self) -> dict[int, dict[str, Any]]:
        """Snapshots by id."""
        return {s["snapshot-id"]: s for s in self.metadata.get("snapshots", ())}

    def statistics(self, member: str = "statistics") -> dict[int, str]:
        """Return statistics files, or partition statistics files, by snapshot."""
        return {s["snapshot-id"]: s["statistics-path"] for s in self.metadata.get(member, ())}


class History:
    """All versions of one table, oldest first, and what their snapshots list."""

    def __init__(self, newest: str) -> None:
        self.versions = list(_versions(newest))[::-1]
        self._manifests: dict[tuple[str, int | None], list[Entry]] = {}
        self._deleted: dict[tuple[str, int], dict[str, frozenset[int]]] = {}

    @cached_property
    def newest(self) -> Version:
        """The current version."""
        return self.versions[-1]

    def entries(self, snapshot: dict[str, Any]) -> list[Entry] | None:
        """All live files of a snapshot; None where somebody removed the files of one that has expired."""
        expired = snapshot["snapshot-id"] not in self.newest.snapshots
        listed = Path(snapshot["manifest-list"])
        if expired and not listed.exists():
            return None
        require(listed.exists(), f"manifest list {listed} is missing")
        with listed.open("rb") as file:
            manifests: list[Any] = list(fastavro.reader(file))
        if expired and not all(Path(manifest["manifest_path"]).exists() for manifest in manifests):
            return None
        entries = [entry for manifest in manifests for entry in self._manifest(manifest)]
        if expired and not all(Path(entry.path).exists() for entry in entries if entry.kind == "positions"):
            return None
        return entries

    def files_of(self, snapshot: dict[str, Any]) -> set[str]:
        """All files that reading a snapshot needs."""
        with Path(snapshot["manifest-list"]).open("rb") as file:
            manifests: list[Any] = list(fastavro.reader(file))
        entries = (entry for manifest in manifests for entry in self._manifest(manifest))
        return {snapshot["manifest-list"], *(m["manifest_path"] for m in manifests), *(e.path for e in entries)}

    def positions(self, entry: Entry) -> dict[str, frozenset[int]]:
        """What a delete file deletes by position, by data file."""
        file = entry.file
        key = (entry.path, file.get("content_offset") or 0)
        if key not in self._deleted:
            self._deleted[key] = _vector(file) if entry.is_vector else _delete_file(file)
        return self._deleted[key]

    def _manifest(self, listed: dict[str, Any]) -> list[Entry]:
        key = (listed["manifest_path"], listed.get("first_row_id"))  # which it gets later in an upgraded table
        if key not in self._manifests:
            self._manifests[key] = _entries(listed)
        return self._manifests[key]


def read_metadata(location: str) -> dict[str, Any]:
    """Return what a metadata file has, of a table or a view."""
    path = Path(location)
    require(path.exists(), f"metadata file {location} is missing")
    data = path.read_bytes()
    metadata: dict[str, Any] = json.loads(gzip.decompress(data) if ".gz." in path.name else data)
    return metadata


def batches(folders: Iterable[Path]) -> dict[str, list[list[dict[str, Any]]]]:
    """By the metadata file that a journal segment made: the committed outcomes in the order of their decisions.

    There are several segments where attempts at one version were lost. A version of a file-system table may have
    rejections only, so none is committed. Records of dropped snapshots lie in a folder beside the segments.
    """
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for path in sorted(path for folder in folders for path in folder.glob("**/*journal/*.jsonl.gz")):
        records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        batch = records[0]
        new = batch.get("new-metadata")
        made = new not in (None, batch.get("base-metadata")) and "renamed-from" not in batch
        made = made and all(record.get("operation") != "register-table" for record in records)
        done = [r["outcome"] for r in records if r.get("record") == "decided" and r["outcome"]["status"] == "committed"]
        if made:
            found.setdefault(new, []).append(done)
    return found


def _versions(newest: str) -> Iterator[Version]:
    location: str | None = newest
    while location is not None:
        metadata = read_metadata(location)
        yield Version(location, metadata)
        log = metadata.get("metadata-log", ())
        location = log[-1]["metadata-file"] if log else None


def _entries(listed: dict[str, Any]) -> list[Entry]:
    path = Path(listed["manifest_path"])
    require(path.exists(), f"manifest {path} is missing")
    size = path.stat().st_size
    require(size == listed["manifest_length"], f"{path} has {size} bytes, {listed['manifest_length']} are listed")
    with path.open("rb") as file:
        records: list[Any] = list(fastavro.reader(file))
    for status, name in enumerate(("existing", "added", "deleted")):
        ours = [r for r in records if r["status"] == status]
        require(len(ours) == listed[f"{name}_files_count"], f"{path}: {len(ours)} {name} files, not as listed")
        rows = sum(r["data_file"]["record_count"] for r in ours)
        require(rows == listed[f"{name}_rows_count"], f"{path}: {rows} {name} rows, not as listed")
    next_row_id, entries = listed.get("first_row_id"), []
    for record in records:
        if record["status"] not in LIVE:
            continue
        file = record["data_file"]
        first = file.get("first_row_id")
        if first is None and next_row_id is not None and file["content"] == 0:
            first, next_row_id = next_row_id, next_row_id + file["record_count"]
        sequence = record["sequence_number"]
        entries.append(Entry(
            path=file["file_path"], kind=CONTENTS[file["content"]], count=file["record_count"],
            sequence=listed["sequence_number"] if sequence is None else sequence, size=file["file_size_in_bytes"],
            file=file, first_row_id=first,
        ))  # fmt: skip
    return entries


def _vector(file: dict[str, Any]) -> dict[str, frozenset[int]]:
    with Path(file["file_path"]).open("rb") as opened:
        opened.seek(file["content_offset"])
        positions = vector_positions(opened.read(file["content_size_in_bytes"]))
    require(len(positions) == file["record_count"], f"{file['file_path']}: a deletion vector has another cardinality")
    return {file["referenced_data_file"]: positions}


def _delete_file(file: dict[str, Any]) -> dict[str, frozenset[int]]:
    rows = pq.read_table(file["file_path"], partitioning=None)
    require(rows.num_rows == file["record_count"], f"{file['file_path']}: {rows.num_rows} rows, not as listed")
    found: dict[str, set[int]] = {}
    for target, position in zip(rows.column("file_path").to_pylist(), rows.column("pos").to_pylist(), strict=True):
        found.setdefault(target, set()).add(position)
    return {target: frozenset(positions) for target, positions in found.items()}
