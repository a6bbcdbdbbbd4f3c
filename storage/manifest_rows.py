"""Manifest entries from the records of a manifest's Avro blocks, whose fields are named ``f<field id>``.

Ids are those of the specification's "Manifest Entry Fields" and "Data File Fields".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from firn.model.datafile import CONTENT_NAMES, Content, DataFile, FileFormat
from firn.model.errors import InvalidInput
from firn.model.manifest import ManifestEntry, Status
from firn.model.types import StructType
from firn.storage.avro_schema import AvroType
from firn.storage.partition_data import PartitionDecoder

FILE_FORMATS: Final[Mapping[str, FileFormat]] = {"avro": "avro", "orc": "orc", "parquet": "parquet", "puffin": "puffin"}
_STATUSES: Final = (Status.EXISTING, Status.ADDED, Status.DELETED)

_INTEGER: Final = frozenset({"int", "long"})
_STRING: Final = frozenset({"string"})
_BYTES: Final = frozenset({"bytes", "fixed"})
_ENTRY_KINDS: Final = {0: _INTEGER, 1: _INTEGER, 2: frozenset({"record"}), 3: _INTEGER, 4: _INTEGER}
_FILE_KINDS: Final = {
    100: _STRING, 101: _STRING, 102: frozenset({"record"}), 103: _INTEGER, 104: _INTEGER, 131: _BYTES,
    134: _INTEGER, 140: _INTEGER, 142: _INTEGER, 143: _STRING, 144: _INTEGER, 145: _INTEGER,
}  # fmt: skip
_MAP_KINDS: Final = {108: _INTEGER, 109: _INTEGER, 110: _INTEGER, 137: _INTEGER, 125: _BYTES, 128: _BYTES}
_LISTS: Final = (132, 135)
_REQUIRED: Final = (100, 101, 103, 104)


class RowDecoder:
    """Makes entries of records that were written under `written`, without inheriting anything yet.

    Texts of the records that are no UTF-8 are to be decoded with ``surrogateescape``; `assumed` is as
    `PartitionDecoder` has it.
    Raises InvalidInput when the written schema lacks what an entry needs or has it with other types.
    """

    def __init__(
        self,
        written: AvroType,
        *,
        partition_type: StructType,
        spec_id: int,
        assumed: Collection[int] = frozenset(),
    ) -> None:
        data_file = check_entry_schema(written)
        self._partition = PartitionDecoder(partition_type, data_file.field(102), assumed=assumed)
        self._spec_id = spec_id

    def decode(self, record: Mapping[str, Any]) -> ManifestEntry:
        """The entry of one record. Raises InvalidInput for values that no entry has."""
        status = record["f0"]
        stored = record["f2"]
        if status is None or not 0 <= status <= 2 or stored is None:
            raise InvalidInput(f"status {status}", where="manifest_entry")
        code = stored.get("f134")
        content: Content | None = "data" if code is None else CONTENT_NAMES.get(code)
        format_name = stored["f101"]
        file_format = FILE_FORMATS.get(format_name.lower()) if format_name is not None else None
        path, rows, size = stored["f100"], stored["f103"], stored["f104"]
        if content is None or file_format is None or not path or rows is None or size is None or rows < 0 or size < 0:
            raise InvalidInput(
                f"content {code}, format {format_name!r:.40}, rows {rows}, bytes {size}",
                where=f"{path!r:.200}",
            )
        referenced = stored.get("f143")
        if not path.isascii() or not (referenced or "").isascii():
            _require_text(path, referenced)
        split_offsets, equality_ids = stored.get("f132"), stored.get("f135")
        return ManifestEntry(
            status=_STATUSES[status],
            snapshot_id=record.get("f1"),
            sequence_number=record.get("f3"),
            file_sequence_number=record.get("f4"),
            data_file=DataFile(
                content=content,
                file_path=path,
                file_format=file_format,
                spec_id=self._spec_id,
                partition=self._partition.decode(stored.get("f102") or {}),
                record_count=rows,
                file_size_in_bytes=size,
                column_sizes=_dict(stored.get("f108")),
                value_counts=_dict(stored.get("f109")),
                null_value_counts=_dict(stored.get("f110")),
                nan_value_counts=_dict(stored.get("f137")),
                lower_bounds=_dict(stored.get("f125")),
                upper_bounds=_dict(stored.get("f128")),
                key_metadata=stored.get("f131"),
                split_offsets=None if split_offsets is None else tuple(split_offsets),
                equality_ids=None if equality_ids is None else tuple(equality_ids),
                sort_order_id=stored.get("f140"),
                # Row ids are for data files; whatever a delete file has there is to be read as null.
                first_row_id=stored.get("f142") if content == "data" else None,
                referenced_data_file=referenced,
                content_offset=stored.get("f144"),
                content_size_in_bytes=stored.get("f145"),
            ),
        )


def check_entry_schema(written: AvroType) -> AvroType:
    """The type of the data files in entries of this schema.

    Raises InvalidInput when it lacks what an entry needs or has it with other types.
    """
    data_file = written.field(2)
    if data_file is None or written.field(0) is None:
        raise InvalidInput("no status or no data_file", where="manifest_entry")
    _check_kinds(written, _ENTRY_KINDS, where="manifest_entry")
    _check_kinds(data_file, _FILE_KINDS, where="data_file")
    for field_id, kinds in _MAP_KINDS.items():
        _check_map(data_file.field(field_id), kinds, where=f"data_file.{field_id}")
    for field_id in _LISTS:
        found = data_file.field(field_id)
        if found is not None and (found.kind != "array" or found.items is None or found.items.kind not in _INTEGER):
            raise InvalidInput(f"a {found.kind} instead of a list of integers", where=f"data_file.{field_id}")
    for field_id in _REQUIRED:
        if data_file.field(field_id) is None:
            raise InvalidInput("missing, but required", where=f"data_file.{field_id}")
    return data_file


def _require_text(*texts: str | None) -> None:
    """Raise InvalidInput for a text whose bytes are no UTF-8, which only partition values may be."""
    for text in texts:
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise InvalidInput("a location that is not UTF-8", where=f"{text!r:.200}") from None


def _dict(pairs: list[dict[str, Any]] | None) -> dict[int, Any] | None:
    if pairs is None:
        return None
    return {pair["key"]: pair["value"] for pair in pairs if pair["value"] is not None}


def _check_kinds(record: AvroType, kinds: Mapping[int, frozenset[str]], *, where: str) -> None:
    for field_id, _, found in record.fields:
        expected = kinds.get(field_id) if field_id is not None else None
        if expected is not None and found.kind not in expected:
            raise InvalidInput(f"a {found.kind} instead of {'/'.join(sorted(expected))}", where=f"{where}.{field_id}")


def _check_map(found: AvroType | None, kinds: frozenset[str], *, where: str) -> None:
    if found is None:
        return
    if found.kind != "map-array" or found.items is None:
        raise InvalidInput(f"a {found.kind} instead of a map", where=where)
    (_, _, key), (_, _, value) = found.items.fields
    if key.kind not in _INTEGER or key.nullable or value.kind not in kinds:
        raise InvalidInput(f"a map of {key.kind} to {value.kind}", where=where)
