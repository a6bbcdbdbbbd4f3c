"""The live rows of one data file: read by field id, with its deletes applied (table specification, "Scan Planning").

Which delete files apply to a data file is planned elsewhere; here they are read and applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from firn.model.amounts import plural
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector, from_blob
from firn.model.errors import CorruptFile, Unsupported
from firn.model.name_mapping import NameMapping
from firn.model.partitioning import PartitionSpec
from firn.model.reserved import (
    FILE_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
    POS_ID,
    ROW_ID_ID,
    SPEC_ID_ID,
    is_reserved_id,
)
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.transforms import Identity
from firn.model.types import NestedField, StructType, Type
from firn.storage.arrow_rows import Row
from firn.storage.data_files import DATA_FILE_BYTES_MAX, decode_rows
from firn.storage.equality_deletes import EqualityDeletes, decode_equality_deletes, delete_paths
from firn.storage.files import FileStore
from firn.storage.position_deletes import decode_position_deletes

_COMPUTED: Final = frozenset({FILE_ID, POS_ID, SPEC_ID_ID})
_PROVIDED: Final = _COMPUTED | {ROW_ID_ID, LAST_UPDATED_SEQUENCE_NUMBER_ID}


class RowReader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads data files of one table.

    `schema` are the columns wanted, metadata columns of `firn.model.reserved` among them if asked for; `table_schema`
    has every column that deletes may name, dropped ones included. `specs` are the table's partition specs by id.
    """

    files: FileStore
    schema: Schema
    table_schema: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None = None

    def rows(
        self, data_file: DataFile, *, deletes: Sequence[DataFile] = (), data_sequence_number: int | None = None
    ) -> Iterator[list[Row]]:
        """The live rows of `data_file`, some at a time, in its order.

        `deletes` are the delete files that apply to it; where a deletion vector is among them, position delete files
        are ignored, because it has absorbed them. `data_sequence_number` is that of the data file's entry, which rows
        inherit as the one that last updated them. Raises CorruptFile for damaged files.
        """
        for field in self.schema.fields:
            if is_reserved_id(field.field_id) and field.field_id not in _PROVIDED:
                raise Unsupported(f"metadata column {field.name!r} is not read here", where=data_file.file_path)
        vector = self.deleted_positions(data_file, deletes)
        equality = self._equality_deletes(deletes)
        needed = self._needed(equality)
        data = self.files.read(data_file.file_path, bytes_max=DATA_FILE_BYTES_MAX)
        if len(data) != data_file.file_size_in_bytes:
            raise CorruptFile(
                data_file.file_path, f"has {len(data)} bytes, its entry says {data_file.file_size_in_bytes}"
            )
        parts = decode_rows(
            data,
            file_format=data_file.file_format,
            location=data_file.file_path,
            schema=needed,
            constants=self._constants(data_file),
            name_mapping=self.name_mapping,
        )
        wanted = [
            (field.field_id, field.type if needed.field_by_id(field.field_id) != field else None)
            for field in self.schema.fields
        ]
        start = 0
        for part in parts:
            lineage = _Lineage(data_file, start=start, sequence_number=data_sequence_number)
            dead = set(vector.positions_in(start=start, stop=start + len(part)))
            live = [
                {field_id: _trimmed(lineage.value(row, field_id, at), type) for field_id, type in wanted}
                for at, row in enumerate(part)
                if start + at not in dead and not any(one.deletes(row) for one in equality)
            ]
            start += len(part)
            if live:
                yield live
        if start != data_file.record_count:
            raise CorruptFile(
                data_file.file_path, f"has {plural(start, 'row')}, its entry says {data_file.record_count}"
            )

    def deleted_positions(self, data_file: DataFile, deletes: Iterable[DataFile]) -> DeletionVector:
        """The positions that deletion vectors or position delete files among `deletes` delete from `data_file`."""
        files = [one for one in deletes if one.content == "position-deletes"]
        vectors = [one for one in files if one.is_deletion_vector]
        if len(vectors) > 1:
            raise CorruptFile(data_file.file_path, f"has {len(vectors)} deletion vectors")
        if vectors:
            return self._deletion_vector(vectors[0], data_file)
        found = [
            decode_position_deletes(
                self.files.read(one.file_path, bytes_max=DATA_FILE_BYTES_MAX),
                file_format=one.file_format,
                location=one.file_path,
                data_file=data_file.file_path,
            )
            for one in files
        ]
        return DeletionVector.of(()).union(*(vector for by_path in found for vector in by_path.values()))

    def _deletion_vector(self, entry: DataFile, data_file: DataFile) -> DeletionVector:
        if entry.content_offset is None or entry.content_size_in_bytes is None:
            raise CorruptFile(entry.file_path, "the entry of a deletion vector does not say where it is")
        if entry.referenced_data_file != data_file.file_path:
            raise CorruptFile(entry.file_path, f"the deletion vector is not that of {data_file.file_path}")
        blob = self.files.read_range(entry.file_path, offset=entry.content_offset, length=entry.content_size_in_bytes)
        return from_blob(blob, location=entry.file_path, cardinality=entry.record_count)

    def _equality_deletes(self, deletes: Iterable[DataFile]) -> list[EqualityDeletes]:
        """The equality deletes, one set for each choice of delete columns."""
        by_ids: dict[tuple[int, ...], EqualityDeletes] = {}
        for one in deletes:
            if one.content != "equality-deletes":
                continue
            ids = tuple(sorted(one.equality_ids or ()))
            if not ids:
                raise CorruptFile(one.file_path, "the entry of an equality delete file names no columns")
            found = decode_equality_deletes(
                self.files.read(one.file_path, bytes_max=DATA_FILE_BYTES_MAX),
                file_format=one.file_format,
                location=one.file_path,
                schema=self.table_schema,
                equality_ids=ids,
                name_mapping=self.name_mapping,
            )
            by_ids[ids] = by_ids[ids].union(found) if ids in by_ids else found
        return list(by_ids.values())

    def _needed(self, equality: Sequence[EqualityDeletes]) -> Schema:
        """The wanted columns and those that equality deletes compare; computed ones are left out."""
        fields = {field.field_id: field for field in self.schema.fields if field.field_id not in _COMPUTED}
        for one in equality:
            for path in delete_paths(self.table_schema, one.equality_ids):
                column = project(self.table_schema, {path[-1]}).fields[0]
                present = fields.get(path[0])
                fields[path[0]] = column if present is None else _merged(present, column)
        return Schema(schema_id=self.schema.schema_id, struct=StructType(tuple(fields.values())))

    def _constants(self, data_file: DataFile) -> dict[int, Any]:
        """Values that a file's partition gives for columns that it does not have, as migrated Hive tables need."""
        spec = self.specs.get(data_file.spec_id)
        if spec is None:
            raise Unsupported(f"partition spec {data_file.spec_id} is not the table's", where=data_file.file_path)
        if len(spec.fields) != len(data_file.partition):
            raise CorruptFile(
                data_file.file_path, f"its entry has {plural(len(data_file.partition), 'partition value')}"
            )
        return {
            field.source_id: value
            for field, value in zip(spec.fields, data_file.partition, strict=True)
            if isinstance(field.parsed_transform, Identity)
        }


def _merged(present: NestedField, column: NestedField) -> NestedField:
    """The field with what both select of it; both have the table's types."""
    if not isinstance(present.type, StructType) or not isinstance(column.type, StructType):
        return present
    inside = {field.field_id: field for field in present.type.fields}
    for field in column.type.fields:
        known = inside.get(field.field_id)
        inside[field.field_id] = field if known is None else _merged(known, field)
    return msgspec.structs.replace(present, type=StructType(tuple(inside.values())))


def _trimmed(value: Any, type: Type | None) -> Any:
    """A struct without the fields that were read for the deletes only; `type` None leaves any value as it is."""
    if value is None or not isinstance(type, StructType):
        return value
    return {field.field_id: _trimmed(value[field.field_id], field.type) for field in type.fields}


class _Lineage:
    """Values of metadata columns: computed, or inherited where a row has none of its own."""

    def __init__(self, data_file: DataFile, *, start: int, sequence_number: int | None) -> None:
        self._file = data_file
        self._start = start
        self._sequence_number = sequence_number

    def value(self, row: Row, field_id: int, at: int) -> Any:
        if field_id == FILE_ID:
            return self._file.file_path
        if field_id == POS_ID:
            return self._start + at
        if field_id == SPEC_ID_ID:
            return self._file.spec_id
        value = row[field_id]
        if value is not None or self._file.first_row_id is None:
            return value
        if field_id == ROW_ID_ID:
            return self._file.first_row_id + self._start + at
        return self._sequence_number if field_id == LAST_UPDATED_SEQUENCE_NUMBER_ID else None
