"""Manifest entries as records for a general Avro encoder: slow, and plainly what the schema says.

What firn writes by hand (`firn.storage.manifest_bytes`) must decode to the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.model.datafile import CONTENT_CODES
from firn.model.errors import InvalidInput
from firn.model.internal_values import check_value, decimal_width, unscaled_of
from firn.model.manifest import MANIFEST_CONTENT_CODES, FieldSummary, ManifestEntry, ManifestFile
from firn.model.types import DecimalType, PrimitiveType, StructType, Type
from firn.storage.manifest_schema import BLOCK_SIZE_DEFAULT

_KINDS = {
    "int": "int", "date": "int", "long": "long", "time": "long",
    "timestamp": "long", "timestamptz": "long", "timestamp_ns": "long", "timestamptz_ns": "long",
    "boolean": "boolean", "float": "float", "double": "double", "string": "string", "binary": "bytes",
}  # fmt: skip


class PartitionEncoder:
    """Turns partition tuples of one type into the records that `firn.storage.avro.encode_block` takes."""

    def __init__(self, partition_type: StructType) -> None:
        self._fields = [
            (f"f{field.field_id}", field.type, f"partition.{field.name}") for field in partition_type.fields
        ]
        floating = {"float", "double"}
        cacheable = not any(isinstance(t, PrimitiveType) and t.name in floating for _, t, _ in self._fields)
        self._cache: dict[tuple[Any, ...], dict[str, Any]] | None = {} if cacheable else None

    def encode(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The record of one tuple. Raises InvalidInput for values that are not of the fields' types."""
        if self._cache is not None and (known := self._cache.get(values)) is not None:
            return known
        if len(values) != len(self._fields):
            raise InvalidInput(f"{len(values)} values for {len(self._fields)} fields", where="partition")
        record = {
            name: None if value is None else _to_avro(type_, value, where)
            for (name, type_, where), value in zip(self._fields, values, strict=True)
        }
        if self._cache is not None:
            self._cache[values] = record
        return record


def _to_avro(type: Type, value: Any, where: str) -> Any:
    value = check_value(type, value, where=where)
    match type:
        case PrimitiveType(name="uuid"):
            return value.bytes
        case DecimalType():
            return unscaled_of(type, value, where).to_bytes(decimal_width(type.precision), "big", signed=True)
        case PrimitiveType(name=name):
            return _KINDS[name], value
    return value


class RowEncoder:
    """Makes records of entries for one format version and partition type."""

    def __init__(self, partition_type: StructType, *, format_version: int) -> None:
        self._partition = PartitionEncoder(partition_type)
        self._version = format_version

    def encode(self, entry: ManifestEntry) -> dict[str, Any]:
        """The record of one entry, whose numbers are as they are to be stored (None where they are inherited)."""
        file = entry.data_file
        stored: dict[str, Any] = {
            "f100": file.file_path,
            "f101": file.file_format.upper(),  # as Java spells it; PyIceberg compares the text
            "f102": self._partition.encode(file.partition),
            "f103": file.record_count,
            "f104": file.file_size_in_bytes,
            "f108": _map(file.column_sizes),
            "f109": _map(file.value_counts),
            "f110": _map(file.null_value_counts),
            "f137": _map(file.nan_value_counts),
            "f125": _map(file.lower_bounds),
            "f128": _map(file.upper_bounds),
            "f131": _optional("bytes", file.key_metadata),
            "f132": None if file.split_offsets is None else ("array", file.split_offsets),
            "f140": _optional("int", file.sort_order_id),
        }
        if self._version == 1:
            stored["f105"] = BLOCK_SIZE_DEFAULT
            return {"f0": int(entry.status), "f1": entry.snapshot_id, "f2": stored}
        stored["f134"] = CONTENT_CODES[file.content]
        stored["f135"] = None if file.equality_ids is None else ("array", file.equality_ids)
        stored["f143"] = _optional("string", file.referenced_data_file)
        if self._version > 2:
            stored["f142"] = _optional("long", file.first_row_id)
            stored["f144"] = _optional("long", file.content_offset)
            stored["f145"] = _optional("long", file.content_size_in_bytes)
        return {
            "f0": int(entry.status),
            "f1": _optional("long", entry.snapshot_id),
            "f3": _optional("long", entry.sequence_number),
            "f4": _optional("long", entry.file_sequence_number),
            "f2": stored,
        }


def _optional(kind: str, value: Any) -> tuple[str, Any] | None:
    """Naming the branch saves fastavro from trying each: twice the entries per second."""
    return None if value is None else (kind, value)


def _map(values: Mapping[int, Any] | None) -> tuple[str, list[dict[str, Any]]] | None:
    return None if values is None else ("array", [{"key": key, "value": value} for key, value in values.items()])


_COUNTS = {
    504: "added_files_count", 505: "existing_files_count", 506: "deleted_files_count",
    512: "added_rows_count", 513: "existing_rows_count", 514: "deleted_rows_count",
}  # fmt: skip


def list_row(manifest: ManifestFile, format_version: int) -> dict[str, Any]:
    counts = {field_id: getattr(manifest, name) for field_id, name in _COUNTS.items()}
    partitions = None if manifest.partitions is None else ("array", [_summary_row(s) for s in manifest.partitions])
    row = {
        "f500": manifest.manifest_path,
        "f501": manifest.manifest_length,
        "f502": manifest.partition_spec_id,
        "f503": manifest.added_snapshot_id,
        "f507": partitions,
        "f519": manifest.key_metadata,
    }
    if format_version == 1:
        return {**row, **{f"f{field_id}": count for field_id, count in counts.items()}}
    row |= {f"f{field_id}": count for field_id, count in counts.items()}
    row |= {
        "f517": MANIFEST_CONTENT_CODES[manifest.content],
        "f515": manifest.sequence_number,
        "f516": manifest.min_sequence_number,
    }
    if format_version > 2:
        row["f520"] = manifest.first_row_id
    return row


def _summary_row(summary: FieldSummary) -> dict[str, Any]:
    return {
        "f509": summary.contains_null,
        "f518": summary.contains_nan,
        "f510": summary.lower_bound,
        "f511": summary.upper_bound,
    }
