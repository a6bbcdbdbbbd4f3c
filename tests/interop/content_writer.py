"""Content files of a table that is being built: data, position deletes, deletion vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from firn.model.datafile import DataFile, FileFormat
from firn.model.deletion_vector import DeletionVector
from firn.model.metadata import TableMetadata
from firn.model.partition_path import partition_path
from firn.model.partitioning import partition_of
from firn.model.sorting import sort_key
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.local_files import LocalFiles
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin
from tests.interop.live_rows import LiveFile, Row

FILES: Final = LocalFiles(fsync=lambda _: None)
NewLocation = Callable[..., str]
"""Makes a new location of a kind of file, with an extension, in a folder."""


def write_data(
    rows: Sequence[Row], metadata: TableMetadata, new_location: NewLocation, *, file_format: FileFormat
) -> list[LiveFile]:
    """One data file for each partition that the rows fall into."""
    schema = metadata.current_schema
    spec, order = metadata.default_spec, metadata.default_order
    groups: dict[str, tuple[tuple[Any, ...], list[Row]]] = {}
    for row in rows:
        values = partition_of(spec, schema, row)
        groups.setdefault(repr(values), (values, []))[1].append(row)
    written = []
    for values, group in groups.values():
        if order.is_sorted:
            group.sort(key=sort_key(order, schema))
        folder = partition_path(spec, schema, values)
        new = NewFile(
            location=new_location("data", file_format, folder),
            file_format=file_format,
            spec=spec,
            partition=values,
            sort_order_id=order.order_id,
            properties=metadata.properties,
        )
        data, entry = encode_rows(group, schema, new)
        FILES.create(new.location, data)
        written.append(LiveFile(file=entry, rows=list(group), schema=schema))
    return written


def write_positions(
    hits: Mapping[str, list[int]],
    live: Mapping[str, LiveFile],
    metadata: TableMetadata,
    new_location: NewLocation,
    *,
    by_file: bool,
    file_format: FileFormat,
    with_rows: bool,
) -> list[DataFile]:
    """A position delete file for each data file, or for each partition; `hits` are positions by data file."""
    groups: dict[str, list[str]] = {}
    for path in hits:
        file = live[path].file
        groups.setdefault(path if by_file else repr((file.spec_id, file.partition)), []).append(path)
    entries = []
    for paths in groups.values():
        file = live[paths[0]].file
        spec = metadata.spec_by_id(file.spec_id)
        assert spec is not None
        new = NewFile(
            location=new_location("pos-deletes", file_format),
            file_format=file_format,
            spec=spec,
            partition=file.partition,
        )
        data, entry = encode_position_deletes(
            {path: DeletionVector.of(hits[path]) for path in paths},
            new,
            row_schema=metadata.current_schema if with_rows else None,
            rows={(path, at): live[path].rows[at] or {} for path in paths for at in hits[path]},
        )
        FILES.create(new.location, data)
        entries.append(entry)
    return entries


def write_vectors(
    hits: Mapping[str, list[int]], live: Mapping[str, LiveFile], location: str
) -> tuple[list[DataFile], list[str]]:
    """One Puffin file with the new vector of each data file, and what names the vectors that they replace."""
    vectors, removed = {}, []
    for path, positions in hits.items():
        dead = [at for at, row in enumerate(live[path].rows) if row is None]
        vectors[path] = DeletionVector.of([*dead, *positions])
        old = live[path].vector
        if old is not None:
            removed.append(identity(old))
    data, footer = encode_puffin([deletion_vector_blob(vector, data_file=path) for path, vector in vectors.items()])
    FILES.create(location, data)
    entries = []
    for (path, vector), blob in zip(vectors.items(), footer.blobs, strict=True):
        one = live[path]
        one.vector = DataFile(
            content="position-deletes",
            file_path=location,
            file_format="puffin",
            spec_id=one.file.spec_id,
            partition=one.file.partition,
            record_count=vector.cardinality,
            file_size_in_bytes=len(data),
            referenced_data_file=path,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        entries.append(one.vector)
    return entries, removed


def identity(file: DataFile) -> str:
    """What names a content file: several deletion vectors share a Puffin file."""
    return f"{file.file_path}#{file.content_offset}" if file.is_deletion_vector else file.file_path
