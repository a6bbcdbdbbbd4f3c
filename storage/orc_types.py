"""The ORC types of data files: each type of a table as Appendix A, "ORC", has it, with ids as type attributes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput, Misconfigured, Unsupported
from firn.model.name_mapping import MappedField, NameMapping
from firn.model.types import (
    TYPE_DEPTH_MAX,
    UNKNOWN,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
)

pyorc: Any
try:
    import pyorc as _pyorc
except ImportError:  # an optional dependency: most tables have no ORC files
    pyorc = None
else:
    pyorc = _pyorc

ID: Final = "iceberg.id"
REQUIRED: Final = "iceberg.required"
BINARY_TYPE: Final = "iceberg.binary-type"
LONG_TYPE: Final = "iceberg.long-type"
LENGTH: Final = "iceberg.length"
STRUCT_TYPE: Final = "iceberg.struct-type"
TIMESTAMP_UNIT: Final = "iceberg.timestamp-unit"

_COLUMNS_MAX: Final = 100_000


def require_pyorc() -> None:
    """Raise Misconfigured where the ORC library is not installed."""
    if pyorc is None:
        raise Misconfigured("pyorc is not installed here, and ORC files need it: pip install 'firn[orc]'")


class OrcField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a file's schema, nested ones included; `kind` is ORC's name of the type in lower case."""

    name: str
    field_id: int | None
    kind: str
    attributes: dict[str, str] = {}
    precision: int = 0
    scale: int = 0
    children: tuple[OrcField, ...] = ()

    def child(self, field_id: int) -> tuple[int, OrcField] | None:
        """Position and field of the child with this id."""
        return next(((at, one) for at, one in enumerate(self.children) if one.field_id == field_id), None)


def orc_struct(struct: StructType, *, where: str = "") -> Any:
    """The ORC type of a row or struct; columns of type unknown are left out.

    Raises Unsupported for a list or map of unknown values, and for a name that the library cannot take.
    """
    require_pyorc()
    fields: dict[str, Any] = {}
    for field in struct.fields:
        if field.type == UNKNOWN:
            continue
        path = f"{where}.{field.name}".lstrip(".")
        if field.name == "self":
            raise Unsupported("the ORC library has no columns of this name", where=path)
        fields[field.name] = _typed(field, where=path)
    return pyorc.Struct(**fields)


def _typed(field: NestedField, *, where: str) -> Any:
    made, attributes = _orc_type(field.type, where=where)
    required = "true" if field.required else "false"
    made.set_attributes(attributes | {ID: str(field.field_id), REQUIRED: required})
    return made


def _orc_type(type: Type, *, where: str) -> tuple[Any, dict[str, str]]:
    match type:
        case StructType():
            return orc_struct(type, where=where), {}
        case ListType():
            return pyorc.Array(_typed(type.element_field, where=f"{where}.element")), {}
        case MapType():
            key = _typed(type.key_field, where=f"{where}.key")
            return pyorc.Map(key, _typed(type.value_field, where=f"{where}.value")), {}
        case DecimalType(precision=precision, scale=scale):
            return pyorc.Decimal(precision, scale), {}
        case FixedType(length=length):
            return pyorc.Binary(), {BINARY_TYPE: "FIXED", LENGTH: str(length)}
        case GeometryType():
            return pyorc.Binary(), {BINARY_TYPE: "GEOMETRY"}
        case GeographyType():
            return pyorc.Binary(), {BINARY_TYPE: "GEOGRAPHY"}
        case PrimitiveType(name="variant"):
            parts = pyorc.Struct(metadata=pyorc.Binary(), value=pyorc.Binary())
            return parts, {STRUCT_TYPE: "VARIANT"}
        case PrimitiveType(name="unknown"):
            raise Unsupported("values of type unknown cannot be inside a list or map in ORC", where=where)
        case PrimitiveType(name=name):
            made, attributes = _plain()[name]
            return made(), attributes


def _plain() -> dict[str, tuple[Any, dict[str, str]]]:
    return {
        "boolean": (pyorc.Boolean, {}),
        "int": (pyorc.Int, {}),
        "long": (pyorc.BigInt, {LONG_TYPE: "LONG"}),
        "time": (pyorc.BigInt, {LONG_TYPE: "TIME"}),
        "float": (pyorc.Float, {}),
        "double": (pyorc.Double, {}),
        "date": (pyorc.Date, {}),
        "timestamp": (pyorc.Timestamp, {TIMESTAMP_UNIT: "MICROS"}),
        "timestamptz": (pyorc.TimestampInstant, {TIMESTAMP_UNIT: "MICROS"}),
        "timestamp_ns": (pyorc.Timestamp, {TIMESTAMP_UNIT: "NANOS"}),
        "timestamptz_ns": (pyorc.TimestampInstant, {TIMESTAMP_UNIT: "NANOS"}),
        "string": (pyorc.String, {}),
        "uuid": (pyorc.Binary, {BINARY_TYPE: "UUID"}),
        "binary": (pyorc.Binary, {BINARY_TYPE: "BINARY"}),
    }


def orc_fields(schema: Any, *, location: str) -> OrcField:
    """A file's schema, as the library describes it; InvalidInput when it is too large or no struct."""
    counter = [0]
    root = _orc_field("root", schema, counter, depth=0, location=location)
    if root.kind != "struct":
        raise InvalidInput(f"the file holds {root.kind} values instead of rows", where=location)
    return root


def _orc_field(name: str, type: Any, counter: list[int], *, depth: int, location: str) -> OrcField:
    counter[0] += 1
    if depth > TYPE_DEPTH_MAX or counter[0] > _COLUMNS_MAX:
        raise InvalidInput(
            f"the file's schema is deeper than {TYPE_DEPTH_MAX} or has more than {_COLUMNS_MAX} fields", where=location
        )
    kind = type.kind.name.lower()
    named: list[tuple[str, Any]] = []
    if kind == "struct":
        named = list(type.fields.items())
    elif kind == "list":
        named = [("element", type.type)]
    elif kind == "map":
        named = [("key", type.key), ("value", type.value)]
    attributes = dict(type.attributes)
    text = attributes.get(ID, "")
    decimal = kind == "decimal"
    return OrcField(
        name=name,
        field_id=int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None,
        kind=kind,
        attributes=attributes,
        precision=type.precision if decimal else 0,
        scale=type.scale if decimal else 0,
        children=tuple(_orc_field(n, t, counter, depth=depth + 1, location=location) for n, t in named),
    )


def with_mapped_ids(root: OrcField, mapping: NameMapping) -> OrcField:
    """The schema with the ids that `mapping` gives its names, when it has none itself."""
    if _has_id(root):
        return root
    return msgspec.structs.replace(root, children=_mapped(root.children, mapping.fields))


def _has_id(field: OrcField) -> bool:
    return field.field_id is not None or any(_has_id(child) for child in field.children)


def _mapped(fields: tuple[OrcField, ...], mapped: tuple[MappedField, ...]) -> tuple[OrcField, ...]:
    by_name = {name: one for one in mapped for name in one.names}
    out = []
    for field in fields:
        match = by_name.get(field.name, MappedField(names=()))
        out.append(
            msgspec.structs.replace(field, field_id=match.field_id, children=_mapped(field.children, match.fields))
        )
    return tuple(out)
