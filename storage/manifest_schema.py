"""The Avro schemas of manifests and manifest lists that firn writes, for format versions 1 to 3.

Field ids, order and optionality are those of the tables in the specification's "Manifests" and "Manifest Lists";
record names are those that other implementations use. Readers find fields by id, so names are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from firn.model.errors import Unsupported
from firn.model.internal_values import decimal_width
from firn.model.types import DecimalType, FixedType, PrimitiveType, StructType, Type

FORMAT_VERSIONS: Final = (1, 2, 3)

BLOCK_SIZE_DEFAULT: Final = 64 * 1024 * 1024
"""What v1 requires in `block_size_in_bytes` (field 105) and nobody reads."""

_UNITS: Final = {"timestamp": "micros", "timestamptz": "micros", "timestamp_ns": "nanos", "timestamptz_ns": "nanos"}
_PLAIN: Final = {
    "boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double",
    "string": "string", "binary": "bytes", "unknown": "null",
}  # fmt: skip


def _required(field_id: int, name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "field-id": field_id}


def _optional(field_id: int, name: str, type: Any) -> dict[str, Any]:
    if type == "null":
        return {"name": name, "type": "null", "default": None, "field-id": field_id}
    return {"name": name, "type": ["null", type], "default": None, "field-id": field_id}


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    name = f"k{key_id}_v{value_id}"
    fields = [_required(key_id, "key", "int"), _required(value_id, "value", value)]
    return {"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": fields}}


def _list(element_id: int, element: Any) -> dict[str, Any]:
    return {"type": "array", "element-id": element_id, "items": element}


_METRICS: Final = (
    _optional(108, "column_sizes", _map(117, 118, "long")),
    _optional(109, "value_counts", _map(119, 120, "long")),
    _optional(110, "null_value_counts", _map(121, 122, "long")),
    _optional(137, "nan_value_counts", _map(138, 139, "long")),
    _optional(125, "lower_bounds", _map(126, 127, "bytes")),
    _optional(128, "upper_bounds", _map(129, 130, "bytes")),
    _optional(131, "key_metadata", "bytes"),
    _optional(132, "split_offsets", _list(133, "long")),
)
_EQUALITY_IDS: Final = _optional(135, "equality_ids", _list(136, "int"))
_SORT_ORDER_ID: Final = _optional(140, "sort_order_id", "int")
_REFERENCED_DATA_FILE: Final = _optional(143, "referenced_data_file", "string")

METRICS_FIELDS: Final = (*_METRICS, _EQUALITY_IDS, _SORT_ORDER_ID)
"""What follows `file_size_in_bytes` in v2 and v3 alike, and depends on neither the table's schema nor a spec."""

_AFTER_SIZE: Final[Mapping[int, tuple[dict[str, Any], ...]]] = {
    1: (_required(105, "block_size_in_bytes", "long"), *_METRICS, _SORT_ORDER_ID),
    2: (*METRICS_FIELDS, _REFERENCED_DATA_FILE),
    3: (
        *METRICS_FIELDS,
        _optional(142, "first_row_id", "long"),
        _REFERENCED_DATA_FILE,
        _optional(144, "content_offset", "long"),
        _optional(145, "content_size_in_bytes", "long"),
    ),
}
"""What follows `file_size_in_bytes` in a data file."""

_FIELD_SUMMARY: Final = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}
_MANIFEST: Final = (
    _required(500, "manifest_path", "string"),
    _required(501, "manifest_length", "long"),
    _required(502, "partition_spec_id", "int"),
)
_PARTITIONS: Final = _optional(507, "partitions", _list(508, _FIELD_SUMMARY))
_KEY_METADATA: Final = _optional(519, "key_metadata", "bytes")
_V2_MANIFEST: Final = (
    *_MANIFEST,
    _required(517, "content", "int"),
    _required(515, "sequence_number", "long"),
    _required(516, "min_sequence_number", "long"),
    _required(503, "added_snapshot_id", "long"),
    _required(504, "added_files_count", "int"),
    _required(505, "existing_files_count", "int"),
    _required(506, "deleted_files_count", "int"),
    _required(512, "added_rows_count", "long"),
    _required(513, "existing_rows_count", "long"),
    _required(514, "deleted_rows_count", "long"),
    _PARTITIONS,
    _KEY_METADATA,
)
_MANIFEST_FILE: Final[Mapping[int, tuple[dict[str, Any], ...]]] = {
    1: (
        *_MANIFEST,
        _required(503, "added_snapshot_id", "long"),
        _optional(504, "added_files_count", "int"),
        _optional(505, "existing_files_count", "int"),
        _optional(506, "deleted_files_count", "int"),
        _PARTITIONS,
        _optional(512, "added_rows_count", "long"),
        _optional(513, "existing_rows_count", "long"),
        _optional(514, "deleted_rows_count", "long"),
        _KEY_METADATA,
    ),
    2: _V2_MANIFEST,
    3: (*_V2_MANIFEST, _optional(520, "first_row_id", "long")),
}


@lru_cache(maxsize=8)
def manifest_list_schema(format_version: int) -> bytes:
    """JSON of the schema of a manifest list."""
    return msgspec.json.encode(
        {"type": "record", "name": "manifest_file", "fields": list(_MANIFEST_FILE[format_version])}
    )


def metrics_schema() -> bytes:
    """JSON of the schema of `METRICS_FIELDS` alone."""
    return msgspec.json.encode({"type": "record", "name": "metrics", "fields": list(METRICS_FIELDS)})


@lru_cache(maxsize=256)
def manifest_schema(partition_type: StructType, format_version: int) -> bytes:
    """JSON of the schema of a manifest whose files have partition tuples of `partition_type`.

    Raises Unsupported for a partition field of a type that has no place in Avro partition data.
    """
    data_file = {
        "type": "record",
        "name": "r2",
        "fields": [*_start(partition_type, format_version), *_AFTER_SIZE[format_version]],
    }
    snapshot_id = (_required if format_version == 1 else _optional)(1, "snapshot_id", "long")
    numbers = (_optional(3, "sequence_number", "long"), _optional(4, "file_sequence_number", "long"))
    fields = [
        _required(0, "status", "int"),
        snapshot_id,
        *(() if format_version == 1 else numbers),
        _required(2, "data_file", data_file),
    ]
    return msgspec.json.encode({"type": "record", "name": "manifest_entry", "fields": fields})


def file_start_schema(partition_type: StructType, format_version: int) -> bytes:
    """JSON of the schema of what a file's record begins with: its content, location, format, partition, rows, size."""
    return msgspec.json.encode({"type": "record", "name": "r2", "fields": _start(partition_type, format_version)})


def _start(partition_type: StructType, format_version: int) -> list[dict[str, Any]]:
    return [
        *(() if format_version == 1 else (_required(134, "content", "int"),)),
        _required(100, "file_path", "string"),
        _required(101, "file_format", "string"),
        _required(102, "partition", _partition(partition_type)),
        _required(103, "record_count", "long"),
        _required(104, "file_size_in_bytes", "long"),
    ]


def _partition(partition_type: StructType) -> dict[str, Any]:
    fields = []
    names: set[str] = set()
    type_names: set[str] = set()
    for field in partition_type.fields:
        name = avro_name(field.name)
        if name in names:  # two names that differ only in what Avro cannot spell
            name = f"{name}_{field.field_id}"
        names.add(name)
        avro = _optional(field.field_id, name, _avro_type(field.type, field_id=field.field_id, type_names=type_names))
        fields.append(avro if name == field.name else {**avro, "iceberg-field-name": field.name})
    return {"type": "record", "name": "r102", "fields": fields}


def _avro_type(type: Type, *, field_id: int, type_names: set[str]) -> Any:
    match type:
        case PrimitiveType(name=name) if name in _PLAIN:
            return _PLAIN[name]
        case PrimitiveType(name="date"):
            return {"type": "int", "logicalType": "date"}
        case PrimitiveType(name="time"):
            return {"type": "long", "logicalType": "time-micros"}
        case PrimitiveType(name=name) if name in _UNITS:
            zoned = name.startswith("timestamptz")
            return {"type": "long", "logicalType": f"timestamp-{_UNITS[name]}", "adjust-to-utc": zoned}
        case PrimitiveType(name="uuid"):
            return {**_fixed("uuid_fixed", 16, field_id, type_names), "logicalType": "uuid"}
        case FixedType(length=length):
            return _fixed(f"fixed_{length}", length, field_id, type_names)
        case DecimalType(precision=precision, scale=scale):
            fixed = _fixed(f"decimal_{precision}_{scale}", decimal_width(precision), field_id, type_names)
            return {**fixed, "logicalType": "decimal", "precision": precision, "scale": scale}
    raise Unsupported(f"a partition field of type {type}", where=f"partition.{field_id}")


def _fixed(name: str, size: int, field_id: int, type_names: set[str]) -> dict[str, Any]:
    if name in type_names:  # Avro defines a name once; not every reader resolves references, so each gets its own
        name = f"{name}_{field_id}"
    type_names.add(name)
    return {"type": "fixed", "name": name, "size": size}


def avro_name(name: str) -> str:
    """`name` with whatever Avro's names cannot have written as ``_x`` and hexadecimal UTF-16, as Java does.

    Letters beyond ASCII are escaped as well: the specification of Avro does not allow them and not all readers do.
    """
    out = []
    for index, char in enumerate(name):
        if char == "_" or (char.isascii() and (char.isalpha() or (index > 0 and char.isdigit()))):
            out.append(char)
        elif char.isascii() and char.isdigit():
            out.append(f"_{char}")
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"_x{int.from_bytes(units[at : at + 2], 'big'):X}" for at in range(0, len(units), 2)]
    return "".join(out) or "_"
