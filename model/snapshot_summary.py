"""What a snapshot says of itself: counts of what it added and removed, and the table's totals after it.

Names and rules are those of Iceberg's Java library (table specification, "Optional Snapshot Summary Fields"): counts of
zero are left out, and a total is carried on only from a previous snapshot that had it, so that no total is a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from firn.model.datafile import DataFile
from firn.model.json_members import LONG_MAX
from firn.model.manifest import ManifestFile
from firn.model.partition_values import as_keys, has_zero
from firn.model.snapshot import Operation, Snapshot

OPERATION: Final = "operation"
CHANGED_PARTITION_COUNT: Final = "changed-partition-count"
PARTITION_SUMMARIES_INCLUDED: Final = "partition-summaries-included"
PARTITION_PREFIX: Final = "partitions."
DELETED_DUPLICATE_FILES: Final = "deleted-duplicate-files"

TOTALS: Final[Mapping[str, tuple[str, str]]] = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}
"""Each total with the count that raises and the one that lowers it."""

COUNTS: Final = (
    "added-data-files", "deleted-data-files", "added-equality-delete-files", "removed-equality-delete-files",
    "added-position-delete-files", "removed-position-delete-files", "added-delete-files", "removed-delete-files",
    "added-dvs", "removed-dvs", "added-records", "deleted-records", "added-files-size", "removed-files-size",
    "added-position-deletes", "removed-position-deletes", "added-equality-deletes", "removed-equality-deletes",
)  # fmt: skip
"""In the order in which Java writes them."""

_UNKNOWN_AFTER_DATA_MANIFEST: Final = frozenset({"total-files-size"})
_UNKNOWN_AFTER_DELETE_MANIFEST: Final = frozenset(
    {"total-files-size", "total-position-deletes", "total-equality-deletes"}
)
_COMPUTED: Final = frozenset(
    {*COUNTS, *TOTALS, OPERATION, CHANGED_PARTITION_COUNT, PARTITION_SUMMARIES_INCLUDED, DELETED_DUPLICATE_FILES}
)


def is_computed(name: str) -> bool:
    """Whether firn itself writes this summary entry, so that a writer's own text must not stand in its place."""
    return name in _COMPUTED or name.startswith(PARTITION_PREFIX)


class _Counts:
    """Counts by name; those never raised are absent."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def raise_by(self, name: str, amount: int) -> None:
        self.values[name] = self.values.get(name, 0) + amount

    def added(self, file: DataFile) -> None:
        self.raise_by("added-files-size", content_size(file))
        if file.content == "data":
            self.raise_by("added-data-files", 1)
            self.raise_by("added-records", file.record_count)
            return
        self.raise_by("added-delete-files", 1)
        if file.content == "equality-deletes":
            self.raise_by("added-equality-delete-files", 1)
            self.raise_by("added-equality-deletes", file.record_count)
        else:
            self.raise_by("added-dvs" if file.is_deletion_vector else "added-position-delete-files", 1)
            self.raise_by("added-position-deletes", file.record_count)

    def removed(self, file: DataFile) -> None:
        self.raise_by("removed-files-size", content_size(file))
        if file.content == "data":
            self.raise_by("deleted-data-files", 1)
            self.raise_by("deleted-records", file.record_count)
            return
        self.raise_by("removed-delete-files", 1)
        if file.content == "equality-deletes":
            self.raise_by("removed-equality-delete-files", 1)
            self.raise_by("removed-equality-deletes", file.record_count)
        else:
            self.raise_by("removed-dvs" if file.is_deletion_vector else "removed-position-delete-files", 1)
            self.raise_by("removed-position-deletes", file.record_count)

    def merge(self, other: _Counts) -> None:
        for name, amount in other.values.items():
            self.raise_by(name, amount)

    def as_text(self) -> dict[str, str]:
        known = self.values
        return {name: str(known[name]) for name in COUNTS if name in known and known[name] > 0}


def content_size(file: DataFile) -> int:
    """Bytes that a content file takes: a deletion vector is a part of its file, which others may share."""
    if file.is_deletion_vector and file.content_size_in_bytes is not None:
        return file.content_size_in_bytes
    return file.file_size_in_bytes


class SummaryBuilder:
    """Gathers what one snapshot changes and turns it into its summary.

    `partition_limit` is ``write.summary.partition-limit``: with at most so many changed partitions, each gets an entry
    under the path that `path_of` gives for one of its files. Zero or less: no entries, as in the Java library.
    """

    def __init__(self, *, partition_limit: int = 0, path_of: Callable[[DataFile], str] | None = None) -> None:
        self._counts = _Counts()
        self._partitions: dict[tuple[int, tuple[Hashable, ...]], tuple[_Counts, DataFile]] | None = {}
        self._partition_limit = max(0, partition_limit) if path_of is not None else 0
        self._path_of = path_of
        self._unknown_totals: frozenset[str] = frozenset()
        self._duplicates = 0

    def added(self, file: DataFile) -> None:
        """Count a file of any content as added."""
        self._counts.added(file)
        if self._partitions is not None:
            self._partition(file).added(file)

    def added_all(self, files: Sequence[DataFile]) -> None:
        """Count files as added. Cost for data files: a few sums, and a look at each of their partitions."""
        if self._partition_limit or any(file.content != "data" for file in files):
            for file in files:
                self.added(file)
            return
        self._counts.raise_by("added-files-size", sum([file.file_size_in_bytes for file in files]))
        self._counts.raise_by("added-data-files", len(files))
        self._counts.raise_by("added-records", sum([file.record_count for file in files]))
        if self._partitions is not None:
            found = {(file.spec_id, file.partition): file for file in files}
            some = files if any(has_zero(partition) for _, partition in found) else found.values()
            for file in some:
                self._partition(file)  # for their number: without a limit none is listed

    def removed(self, file: DataFile) -> None:
        """Count a file of any content as removed."""
        self._counts.removed(file)
        if self._partitions is not None:
            self._partition(file).removed(file)

    def removed_duplicate(self) -> None:
        """Count a file that the table listed more than once and that goes again."""
        self._duplicates += 1

    def added_manifest(self, manifest: ManifestFile) -> None:
        """Count a manifest by the counts in its manifest list entry.

        Its files' sizes, deletes and partitions are not known from there; entries that would need them are left out.
        Count its files one by one instead wherever they are read anyway.
        """
        counts = self._counts
        self._partitions = None
        if manifest.content == "data":
            counts.raise_by("added-data-files", manifest.added_files_count or 0)
            counts.raise_by("added-records", manifest.added_rows_count or 0)
            counts.raise_by("deleted-data-files", manifest.deleted_files_count or 0)
            counts.raise_by("deleted-records", manifest.deleted_rows_count or 0)
            self._unknown_totals |= _UNKNOWN_AFTER_DATA_MANIFEST
        else:
            counts.raise_by("added-delete-files", manifest.added_files_count or 0)
            counts.raise_by("removed-delete-files", manifest.deleted_files_count or 0)
            self._unknown_totals |= _UNKNOWN_AFTER_DELETE_MANIFEST

    def _partition(self, file: DataFile) -> _Counts:
        assert self._partitions is not None
        values = as_keys(file.partition)
        found = self._partitions.get((file.spec_id, values))
        if found is None:
            found = self._partitions[file.spec_id, values] = (_Counts(), file)
        return found[0]

    def build(
        self, operation: Operation, *, previous: Snapshot | None, properties: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The summary of the snapshot.

        `previous` is the head that it follows, None on an empty branch, where totals start from 0. `properties` are the
        writer's own entries; names that firn computes are ignored there.
        """
        summary: dict[str, str] = {OPERATION: operation}
        summary |= {name: value for name, value in (properties or {}).items() if not is_computed(name)}
        changes = self._changes()
        summary |= changes
        totals = dict.fromkeys(TOTALS, "0") if previous is None else previous.summary or {}
        for name, (added, removed) in TOTALS.items():
            total = _carried(totals.get(name), added=changes.get(added), removed=changes.get(removed))
            if total is not None and name not in self._unknown_totals:
                summary[name] = total
        return summary

    def _changes(self) -> dict[str, str]:
        changes = self._counts.as_text()
        for name in self._unknown_totals:
            for part in TOTALS[name]:
                changes.pop(part, None)
        if self._duplicates:
            changes[DELETED_DUPLICATE_FILES] = str(self._duplicates)
        if self._partitions is None:
            return changes
        changes[CHANGED_PARTITION_COUNT] = str(len(self._partitions))
        if self._path_of is not None and 0 < len(self._partitions) <= self._partition_limit:
            changes[PARTITION_SUMMARIES_INCLUDED] = "true"
            by_path: dict[str, _Counts] = {}
            for counts, file in self._partitions.values():
                by_path.setdefault(self._path_of(file), _Counts()).merge(counts)
            for path, counts in by_path.items():
                if path:
                    changes[PARTITION_PREFIX + path] = ",".join(f"{k}={v}" for k, v in counts.as_text().items())
        return changes


def _carried(total: str | None, *, added: str | None, removed: str | None) -> str | None:
    """A total after this snapshot; None where the previous snapshot had none, or one that cannot be right."""
    if total == "0" and added is None and removed is None:
        return total  # as nearly all of deletes
    if total is None or not (total.isascii() and total.isdecimal()):
        return None
    new = int(total[:19]) + int(added or 0) - int(removed or 0)
    return str(new) if 0 <= new <= LONG_MAX and len(total) <= 19 else None
