"""Every file that the table reaches is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from firn.coordinator.fsck.contents import Contents
from firn.coordinator.fsck.finding import Finding
from firn.model.metadata import TableMetadata


def reachable_files(metadata: TableMetadata, contents: Contents) -> list[str]:
    """Data files, delete files and statistics files of all snapshots; what leads to them was read already."""
    return [*contents.live_files(), *_statistics(metadata)]


def nothing_missing(
    metadata: TableMetadata, contents: Contents, sizes: Mapping[str, int | str | None]
) -> Iterator[Finding]:
    """Breaches among the files that are not opened; missing metadata, lists and manifests were found on the way."""
    for path, fact in contents.live_files().items():
        if path in sizes and sizes[path] is None:
            kind = "data file" if fact.content == "data" else "delete file"
            yield Finding(invariant="nothing-missing", where=path, message=f"the {kind} is gone")
    for path in _statistics(metadata):
        if path in sizes and sizes[path] is None:
            yield Finding(invariant="nothing-missing", where=path, message="the statistics file is gone")


def _statistics(metadata: TableMetadata) -> list[str]:
    known = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    listed: list[dict[str, Any]] = [*metadata.statistics, *metadata.partition_statistics]
    return [
        path
        for statistics in listed
        if statistics.get("snapshot-id") in known and isinstance(path := statistics.get("statistics-path"), str)
    ]
