"""What hostile or broken writers leave behind that still reads: values that no row has, ids that change, no Puffin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from firn.coordinator.fsck.contents import READS_AT_ONCE, Contents, FileFact, Listed
from firn.coordinator.fsck.finding import Finding
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.json_members import LONG_MAX
from firn.model.metadata import TableMetadata
from firn.model.metadata_counters import shown_counters
from firn.storage.files import FileStore
from firn.storage.statistics_files import read_puffin_footer

STATISTICS_PATH: Final = "statistics-path"


def sound_entries(metadata: TableMetadata, contents: Contents, *, at: str) -> Iterator[Finding]:
    """Yield counters below what the metadata shows (`at` is its file), impossible members, and sums past 63 bits."""
    for name, shown in shown_counters(metadata).items():
        claimed = getattr(metadata, name)
        if claimed < shown:
            yield _wrong(at, f"{name.replace('_', '-')} is {claimed}, but {shown} has been given")
    reported: set[tuple[FileFact, ...]] = set()
    for snapshot_id, listed in contents.snapshots.items():
        yield from _sums(metadata, snapshot_id, listed)
        for one in listed:
            if one.facts is None or not any(fact.faults for fact in one.facts) or one.facts in reported:
                continue
            reported.add(one.facts)
            for fact in one.facts:
                for fault in fact.faults:
                    yield _wrong(one.manifest.manifest_path, f"{fact.path}: {fault.member}: {fault.message}")
    yield from _row_ids_changed(metadata, contents)


def _sums(metadata: TableMetadata, snapshot_id: int, listed: Sequence[Listed]) -> Iterator[Finding]:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    where = (snapshot.manifest_list if snapshot is not None else None) or f"snapshot {snapshot_id}"
    for content in ("data", "deletes"):
        own = [one for one in listed if one.manifest.content == content]
        counts: Mapping[str, Callable[[FileFact], int]] = {
            "record-count": lambda fact: fact.records,
            "file-size-in-bytes": lambda fact: fact.size,
        }
        for member, count_of in counts.items():
            total = sum(count_of(fact) for one in own for fact in one.facts or () if fact.is_live)
            if total > LONG_MAX:
                yield _wrong(where, f"{member} adds up to {total} over its manifests of {content}, past 63 bits")


def _row_ids_changed(metadata: TableMetadata, contents: Contents) -> Iterator[Finding]:
    """Yield files whose first row id differs between a snapshot and its parent; only what differs is compared."""
    for snapshot in metadata.snapshots:
        listed = contents.snapshots.get(snapshot.snapshot_id, ())
        parents = contents.snapshots.get(snapshot.parent_snapshot_id or -1, ())
        kept = {id(one.facts) for one in listed} & {id(one.facts) for one in parents}
        before = {_entry(fact): fact.first_row_id for fact in _live(parents, without=kept)}
        for fact in _live(listed, without=kept):
            was = before.get(_entry(fact))
            if was is not None and fact.first_row_id is not None and fact.first_row_id != was:
                yield Finding(
                    invariant="no-doubles",
                    where=fact.path,
                    message=f"first-row-id is {fact.first_row_id} in snapshot {snapshot.snapshot_id}, {was} in its "
                    f"parent: its rows have become others",
                )


def _live(listed: Sequence[Listed], *, without: set[int]) -> Iterator[FileFact]:
    for one in listed:
        if id(one.facts) not in without:
            yield from (fact for fact in one.facts or () if fact.is_live and fact.content == "data")


def _entry(fact: FileFact) -> tuple[str, int | None]:
    """A file as one snapshot added it: one that is removed and added again gets other row ids."""
    return fact.path, fact.snapshot_id


def puffin_files(
    metadata: TableMetadata, contents: Contents, sizes: Mapping[str, int | str | None], files: FileStore
) -> Iterator[Finding]:
    """Yield statistics files and files of deletion vectors that are no Puffin, or have no blob where one is named."""
    blobs: dict[str, list[tuple[int, int]]] = {}
    for fact in contents.live_facts():
        if fact.file_format == "puffin":
            blobs.setdefault(fact.path, []).extend(() if fact.blob is None else (fact.blob,))
    for statistics in metadata.statistics:
        blobs.setdefault(statistics[STATISTICS_PATH], [])
    present = {path: size for path in blobs if isinstance(size := sizes.get(path), int)}

    def look(path: str) -> Finding | None:
        try:
            found, _ = read_puffin_footer(files, path, present[path])
        except (CorruptFile, InvalidInput, NotFound) as error:
            return _wrong(path, f"is no Puffin file: {error}")
        ranges = {(blob.offset, blob.length) for blob in found.blobs}
        strays = [blob for blob in blobs[path] if blob not in ranges]
        if not strays:
            return None
        offset, length = strays[0]
        return _wrong(path, f"has no blob of content-size-in-bytes {length} at content-offset {offset}")

    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        yield from (finding for finding in pool.map(look, present) if finding is not None)


def _wrong(where: str, message: str) -> Finding:
    return Finding(invariant="content-agrees", where=where, message=message)
