"""Rules about delete files that several operations share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NoReturn

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.files_rules import bind_file, require_allowed
from firn.coordinator.replay.live_deletes import DeleteKey, LiveDeletes, delete_key, named_key
from firn.coordinator.replay.window import deletes_remover_of
from firn.coordinator.replay.working import Working
from firn.model.amounts import agreeing, plural
from firn.model.datafile import DataFile
from firn.model.delete_index import PartitionKey, equality_scope, partition_key, referenced_data_file
from firn.model.errors import InvalidIntent
from firn.model.intent import ContentFile
from firn.model.metadata import TableMetadata
from firn.model.operations.files import DeleteFileRef
from firn.model.partitioning import PartitionSpec
from firn.storage.locations import canonical


def bind_deletes(working: Working, files: Sequence[ContentFile], *, where: str) -> list[DataFile]:
    """Delete files of the wire, bound to the table.

    Prevents: deletes that no reader of the table's format version can apply, or would ignore, and files that are not
    the table's own.
    """
    assert working.metadata is not None
    bound: list[DataFile] = []
    for position, file in enumerate(files):
        here = f"{where}[{position}]"
        _check_form(working.metadata, file, where=here)
        require_allowed(working, file.file_path, where=f"{here}.file-path")
        try:
            bound.append(bind_file(file, working.metadata, where=here))
        except InvalidIntent as error:
            rules.RULES[error.rule].refuse(str(error), files=(file.file_path,))
    keys = Counter(map(delete_key, bound))
    twice = [file.file_path for file in bound if keys[delete_key(file)] > 1]
    if twice:
        rules.DUPLICATE_FILE.refuse(f"{where}: a delete file is named twice, as {twice[0]} and {twice[1]}", files=twice)
    return bound


def _check_form(metadata: TableMetadata, file: ContentFile, *, where: str) -> None:
    version, names = metadata.format_version, (file.file_path,)
    if file.content == "data":
        rules.INVALID_DELETE_FILE.refuse(f"{where}: is a data file", files=names)
    if version < 2:
        rules.DELETE_FORMAT.refuse(f"{where}: tables of format v1 have no delete files", files=names)
    if file.content == "equality-deletes":
        _check_equality(metadata, file, where=where)
    elif file.file_format == "puffin":
        if version < 3:
            rules.DELETE_FORMAT.refuse(
                f"{where}: deletion vectors need format v3, the table has v{version}", files=names
            )
        pointers = (file.referenced_data_file, file.content_offset, file.content_size_in_bytes)
        if None in pointers:
            rules.INVALID_DELETE_FILE.refuse(
                f"{where}: a deletion vector needs referenced-data-file, content-offset and content-size-in-bytes",
                files=names,
            )
    elif version > 2:
        rules.DELETE_FORMAT.refuse(
            f"{where}: position deletes of a v3 table are deletion vectors; it may have been upgraded", files=names
        )


def _check_equality(metadata: TableMetadata, file: ContentFile, *, where: str) -> None:
    names = (file.file_path,)
    if file.file_format == "puffin":
        rules.INVALID_DELETE_FILE.refuse(f"{where}: equality deletes are rows, which Puffin has not", files=names)
    ids = file.equality_ids or ()
    if not ids or len(set(ids)) != len(ids):
        rules.INVALID_DELETE_FILE.refuse(f"{where}.equality-ids: must name each delete column once", files=names)
    unknown = [i for i in ids if all(schema.field_by_id(i) is None for schema in metadata.schemas)]
    if unknown:
        rules.INVALID_DELETE_FILE.refuse(f"{where}.equality-ids: no column has id {unknown[0]}", files=names)


def require_columns(metadata: TableMetadata, deletes: Iterable[DataFile]) -> None:
    """Refuse new equality deletes by columns that were dropped.

    Files that were written since do not have them, nor have those that a rewrite has written since. Prevents: rows that
    are deleted by null in a column that they do not have, or that live on because they were rewritten without it.
    """
    columns = metadata.current_schema.fields_by_id
    for file in deletes:
        dropped = [field_id for field_id in file.equality_ids or () if field_id not in columns]
        if dropped:
            rules.INVALID_DELETE_FILE.refuse(
                f"{file.file_path} deletes rows by column {dropped[0]}, which was dropped",
                files=(file.file_path,),
                hint="replan",
            )


def require_deletes_not_live(index: LiveDeletes, files: Iterable[DataFile]) -> None:
    """Refuse a delete file that is live already. Prevents: a vector listed twice, which no reader accepts."""
    twice = [file.file_path for file in files if delete_key(file) in index]
    if twice:
        rules.DUPLICATE_FILE.refuse(
            f"{plural(len(twice), 'delete file')} {agreeing(len(twice))} live in the table already, first {twice[0]}",
            files=twice,
        )


def require_deletes_live(
    working: Working,
    branch: str,
    named: Iterable[DeleteFileRef],
    *,
    superseded: Collection[DeleteKey] = (),
    base: int | None,
) -> set[DeleteKey]:
    """The named delete files; refuses when one is not live, unless it is among `superseded`.

    Prevents: a rewrite of deletes that takes deletes back which somebody added to them meanwhile.
    """
    index, keys = working.deletes(branch), {named_key(file): file.file_path for file in named}
    missing = {key: path for key, path in keys.items() if key not in index and key not in superseded}
    if missing:
        winner = deletes_remover_of(working, branch, missing, since=base)
        by = "" if winner is None else f"; snapshot {winner.snapshot_id} ({winner.operation}) removed it"
        paths = sorted(missing.values())
        rules.MISSING_FILE.refuse(
            f"{len(missing):,} of {plural(len(keys), 'delete file')} {agreeing(len(missing))} not live on {branch!r} "
            f"any more, first {paths[0]}{by}",
            files=paths,
            winner=winner,
            base=base,
        )
    return {key for key in keys if key in index}


def require_same_partition(deletes: Iterable[DataFile], data: Iterable[DataFile]) -> None:
    """Refuse deletes that name a data file of another partition, or in another spelling than the table has it in.

    Prevents: a data file that no reader will open; deletes that readers, who compare names as text, do not apply.
    """
    by_name = {canonical(file.file_path): file for file in data}
    for delete in deletes:
        named = referenced_data_file(delete)
        file = None if named is None else by_name.get(canonical(named))
        if file is None:
            continue
        if named != file.file_path:
            refuse_spelling(delete, named or "", stored=file.file_path)
        if partition_key(delete.spec_id, delete.partition) != partition_key(file.spec_id, file.partition):
            rules.INVALID_PARTITION.refuse(
                f"{delete.file_path} is of spec {delete.spec_id}, partition {delete.partition}, the data file that it "
                f"names, {file.file_path}, of spec {file.spec_id}, partition {file.partition}",
                files=(delete.file_path, file.file_path),
            )


def refuse_spelling(delete: DataFile, named: str, *, stored: str) -> NoReturn:
    """Refuse deletes because they name a data file in another spelling than the table has it in."""
    rules.INVALID_DELETE_FILE.refuse(
        f"{delete.file_path} is for {named}, which the table has as {stored}: readers compare these names as text and "
        f"would not apply it. Write it for {stored}",
        files=(delete.file_path, stored),
    )


def may_apply(delete: DataFile, data: DataFile) -> bool:
    """Whether position deletes newer than the data file can be for it (scope only, not sequence numbers)."""
    path = referenced_data_file(delete)
    if path is not None:
        return path == data.file_path
    return partition_key(delete.spec_id, delete.partition) == partition_key(data.spec_id, data.partition)


def stands_for(added: DataFile, removed: DataFile) -> bool:
    """Return whether added deletes can have the rows of position deletes that are removed (scope only)."""
    if added.content != "position-deletes":
        return False
    path = referenced_data_file(removed)
    if path is None:
        return partition_key(added.spec_id, added.partition) == partition_key(removed.spec_id, removed.partition)
    return may_apply(added, msgspec.structs.replace(removed, file_path=path))


def is_for(delete: DataFile, data: DataFile, specs: Mapping[int, PartitionSpec]) -> bool:
    """As `may_apply`, of deletes of any kind."""
    if delete.content != "equality-deletes":
        return may_apply(delete, data)
    return equality_scope(delete, specs) in {None, partition_key(data.spec_id, data.partition)}


def delete_scope(delete: DataFile, specs: Mapping[int, PartitionSpec]) -> PartitionKey | None:
    """The partition that a delete file is for; None for equality deletes of the whole table."""
    if delete.content == "equality-deletes":
        return equality_scope(delete, specs)
    return partition_key(delete.spec_id, delete.partition)
