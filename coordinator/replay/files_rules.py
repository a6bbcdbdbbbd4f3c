"""Rules about files that several operations share. Each says which corruption it prevents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from firn.coordinator.replay import rules
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.window import remover_of
from firn.coordinator.replay.working import Working
from firn.model.amounts import agreeing, plural
from firn.model.content_file import bind_content_file, bind_partition, with_bytes
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.intent import ContentFile
from firn.model.metadata import TableMetadata
from firn.storage.encoded_metrics import with_metrics
from firn.storage.fitting_metrics import forms_of, require_fitting, require_readable
from firn.storage.locations import canonical, folder_of, is_plain, normalize
from firn.storage.wire_metrics import EncodedFile, encode_wire_metrics, in_plain_form

WRITE_DATA_PATH = "write.data.path"


def bind_added(
    working: Working, files: Sequence[ContentFile], *, where: str, only_to_list: bool = False
) -> list[DataFile]:
    """Data files of the wire, bound to the table.

    With `only_to_list` their metrics are bytes for a manifest (`DataFile.encoded`), as they came or made here: for
    operations that look at nothing else of them.

    Prevents: entries that no reader can decode (spec, partition tuple), and files outside the table, which another
    table's cleanup could delete or which the writer had no right to (`location-not-allowed`).
    """
    metadata = working.metadata
    assert metadata is not None
    bind = _bind_bytes if only_to_list and metadata.format_version > 1 else bind_file
    bound: list[DataFile] = []
    for position, file in enumerate(files):
        here = f"{where}[{position}]"
        if file.content != "data" or file.file_format == "puffin":
            rules.NOT_A_DATA_FILE.refuse(
                f"{here}: {file.content} in {file.file_format} is not a data file", files=(file.file_path,)
            )
        require_allowed(working, file.file_path, where=f"{here}.file-path")
        try:
            bound.append(bind(file, metadata, here))
        except InvalidIntent as error:
            rules.RULES[error.rule].refuse(str(error), files=(file.file_path,))
    require_named_once([file.file_path for file in files], where=where)
    return bound


def bind_file(file: ContentFile, metadata: TableMetadata, where: str) -> DataFile:
    """Bind a file of any content to the table, with its metrics decoded.

    Raises InvalidIntent. Prevents: metrics that readers fail on as soon as a query filters by the column.
    """
    bound = bind_content_file(file, metadata, where=where)
    try:
        bound = with_metrics(bound)
    except InvalidInput as error:
        raise _unreadable(error, where) from error
    require_readable(bound, forms_of(metadata), where=where)
    return bound


def _bind_bytes(file: ContentFile, metadata: TableMetadata, where: str) -> DataFile:
    partition = bind_partition(file, metadata, where=where)
    if file.encoded is None:
        encoded = encode_wire_metrics(file, where=where)
    elif isinstance(file, EncodedFile):
        encoded = file.encoded
    else:
        try:
            encoded = in_plain_form(file.encoded)
        except InvalidInput as error:
            raise _unreadable(error, where) from error
    require_fitting(encoded, forms_of(metadata), where=where)
    return with_bytes(DataFile, file, encoded, partition)


def _unreadable(error: InvalidInput, where: str) -> InvalidIntent:
    """Of metrics that came as bytes. Prevents: a manifest that no reader can decode."""
    return InvalidIntent(
        f"{error.message} in the metrics that came encoded", rule="invalid-field", where=f"{where}.encoded"
    )


def require_allowed(working: Working, location: str, *, where: str) -> None:
    """Refuse a file that is not inside the table's location (or `write.data.path`), now or before it moved.

    Refuses also what has been found to be no regular file (`Placement.unusable`), and files in places that the table
    should not have (`Placement.foreign`).
    """
    metadata = working.metadata
    assert metadata is not None
    try:
        normal = normalize(location)
        working.new_files.append(location)
        reason = working.placement.unusable.get(normal)
        if reason is None:
            if normal.startswith(folder_of(metadata.location)):
                return
            found = [root for root in places_of(working) if normal.startswith(folder_of(root))]
            foreign = working.placement.foreign.get(working.table, {})
            if any(canonical(root) not in foreign for root in found):
                return
            reason = f"is outside the table's location {metadata.location}"
            if found:
                reason = f"is in {found[0]}, which {foreign[canonical(found[0])]}"
    except InvalidInput as error:
        reason = error.message
    rules.LOCATION_NOT_ALLOWED.refuse(f"{where}: {location[:300]!r} {reason}", files=(location,))


def places_of(working: Working) -> tuple[str, ...]:
    """Where the table may have files beside its location."""
    assert working.metadata is not None
    data_path = working.metadata.properties.get(WRITE_DATA_PATH)
    return (*working.also_at, data_path) if data_path else working.also_at


def is_plainly_within(root: str, locations: Iterable[str]) -> bool:
    """Whether all are spelled in their one way and inside `root`; others may be too: `require_allowed` looks closer."""
    folder = folder_of(root)
    return all(location.startswith(folder) and is_plain(location) for location in locations)


def require_named_once(locations: Sequence[str], *, where: str) -> None:
    """Refuse a file that is named twice, whatever the spelling. Prevents: the same rows counted twice."""
    names = list(map(canonical, locations))
    if len(set(names)) == len(names):
        return
    counts = Counter(names)
    twice = [location for location, name in zip(locations, names, strict=True) if counts[name] > 1]
    files = sum(count > 1 for count in counts.values())
    rules.DUPLICATE_FILE.refuse(
        f"{where}: {plural(files, 'file')} {agreeing(files)} named twice, first {twice[0]} and {twice[1]}", files=twice
    )


def require_not_live(head: Head, files: Sequence[DataFile]) -> None:
    """Refuse a file that is live already. Prevents: the same rows counted twice."""
    twice = [f.file_path for f in files if f.file_path in head.live]
    if twice:
        rules.DUPLICATE_FILE.refuse(
            f"{len(twice):,} of {plural(len(files), 'file')} {agreeing(len(twice))} live in the table already, first "
            f"{twice[0]}",
            files=twice,
        )


def require_live(working: Working, branch: str, locations: Sequence[str], *, base_snapshot_id: int | None) -> None:
    """Refuse when a file to be removed is not live.

    Prevents: a rewrite that brings back rows which somebody deleted in the meantime, and deletes that silently do
    nothing.
    """
    head = working.head(branch)
    missing = [location for location in locations if location not in head.live]
    if not missing:
        return
    winner = remover_of(working, branch, set(missing), since=base_snapshot_id)
    by = "" if winner is None else f"; snapshot {winner.snapshot_id} ({winner.operation}) removed it"
    rules.MISSING_FILE.refuse(
        f"{len(missing):,} of {plural(len(locations), 'file')} {agreeing(len(missing))} not live on {branch!r} any "
        f"more, first {missing[0]}{by}",
        files=missing,
        winner=winner,
        base=base_snapshot_id,
    )
