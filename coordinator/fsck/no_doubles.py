"""No file is live twice, in whatever spelling, no manifest is listed twice, no row id is given twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from firn.coordinator.fsck.contents import Contents, FileFact, Listed
from firn.coordinator.fsck.finding import Finding
from firn.model.metadata import TableMetadata
from firn.storage.locations import canonical


def no_doubles(metadata: TableMetadata, contents: Contents) -> Iterator[Finding]:
    """Breaches in what the branches and tags show; manifests listed twice in any snapshot."""
    for snapshot_id, listed in contents.snapshots.items():
        for path, spellings in _repeated(one.manifest.manifest_path for one in listed):
            yield _finding(path, f"snapshot {snapshot_id} lists the manifest {_times(spellings)}")
    reported: set[str] = set()
    for snapshot_id in dict.fromkeys(ref.snapshot_id for ref in metadata.refs.values()):
        for finding in _doubles_of(snapshot_id, contents.snapshots.get(snapshot_id, ()), metadata):
            if finding.where not in reported:
                reported.add(finding.where)
                yield finding
    yield from _snapshot_row_ids(metadata)


def _doubles_of(snapshot_id: int, listed: Sequence[Listed], metadata: TableMetadata) -> Iterator[Finding]:
    live = [fact for one in listed for fact in one.facts or () if fact.is_live]
    data = [fact for fact in live if fact.content == "data"]
    for path, spellings in _repeated(fact.path for fact in data):
        yield _finding(path, f"is live {_times(spellings)} in snapshot {snapshot_id}")
    vectors = (fact.referenced for fact in live if fact.blob is not None and fact.referenced is not None)
    for path, spellings in _repeated(vectors):
        yield _finding(path, f"has {len(spellings)} deletion vectors{_as(spellings)} in snapshot {snapshot_id}")
    if metadata.format_version > 2:
        yield from _row_ids(data, metadata)


def _repeated(locations: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The files that are named more than once, by their canonical names, each with the spellings that name it."""
    spellings: dict[str, list[str]] = {}
    for location in locations:
        spellings.setdefault(canonical(location), []).append(location)
    return ((name, found) for name, found in spellings.items() if len(found) > 1)


def _times(spellings: Sequence[str]) -> str:
    return f"{len(spellings)} times{_as(spellings)}"


def _as(spellings: Sequence[str]) -> str:
    """The spellings, where there are several."""
    different = sorted(set(spellings))
    return "" if len(different) == 1 else f", as {' and as '.join(different)}"


def _row_ids(data: Sequence[FileFact], metadata: TableMetadata) -> Iterator[Finding]:
    unique = {fact.path: fact for fact in data if fact.first_row_id is not None}
    ranges = sorted(
        (fact.first_row_id or 0, (fact.first_row_id or 0) + fact.records, path) for path, fact in unique.items()
    )
    for (_, end, path), (start, _, other) in pairwise(ranges):
        if start < end:
            yield _finding(other, f"its row ids begin at {start}, those of {path} end at {end}")
    if ranges and max(end for _, end, _ in ranges) > (metadata.next_row_id or 0):
        _, end, path = max(ranges, key=lambda one: one[1])
        yield _finding(path, f"its row ids end at {end}, the table's next is {metadata.next_row_id}")


def _snapshot_row_ids(metadata: TableMetadata) -> Iterator[Finding]:
    ranges = sorted(
        (snapshot.first_row_id, snapshot.first_row_id + (snapshot.added_rows or 0), snapshot.snapshot_id)
        for snapshot in metadata.snapshots
        if snapshot.first_row_id is not None
    )
    for (_, end, before), (start, _, after) in pairwise(ranges):
        if start < end:
            yield _finding(
                f"snapshot {after}", f"its row ids begin at {start}, those of snapshot {before} end at {end}"
            )


def _finding(where: str, message: str) -> Finding:
    return Finding(invariant="no-doubles", where=where, message=message)
