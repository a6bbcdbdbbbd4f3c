"""Partition specs: how a row becomes a partition tuple (table specification, "Partitioning", Appendix C)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from firn.model.amounts import plural
from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.internal_values import check_value
from firn.model.json_members import (
    INT_MAX,
    INT_MIN,
    as_object,
    describe,
    extra_of,
    int_of,
    int_or_none,
    join,
    list_of,
    longs_of,
    str_of,
)
from firn.model.schema import Schema
from firn.model.transforms import (
    Identity,
    TimeTransform,
    Transform,
    UnknownTransform,
    Void,
    parse_transform,
)
from firn.model.types import UNKNOWN, NestedField, StructType, Type, is_primitive
from firn.model.values import value_from_json, value_to_json

PARTITION_FIELD_ID_START: Final = 1000
"""First id given to a partition field."""

SPEC_FIELDS_MAX: Final = 10_000
"""Fields in the longest partition spec or sort order that is accepted."""

SOURCE_IDS_MAX: Final = 1_000
"""Source columns of one field."""

_SPEC_MEMBERS: Final = frozenset({"spec-id", "fields"})
_FIELD_MEMBERS: Final = frozenset({"source-id", "source-ids", "field-id", "name", "transform"})


class PartitionField(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the partition tuple.

    `transform` is the text of the specification (``bucket[16]``, ``day``, or one that firn does not know, which is
    kept as it is). `source_ids` has one id for v1 and v2 tables; v3 allows several.
    """

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: str
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.source_ids, self.field_id, self.name, self.transform))

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({', '.join(map(str, self.source_ids))})"

    @property
    def source_id(self) -> int:
        """The only source column; meaningful when the transform takes one argument."""
        return self.source_ids[0]

    @property
    def parsed_transform(self) -> Transform:
        """What `transform` does; unknown too where it takes several columns, since the specification has none such."""
        return transform_of(self.transform, self.source_ids)


class PartitionSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An identified tuple of partition fields; an empty one is unpartitioned."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.spec_id, self.fields))

    @property
    def is_partitioned(self) -> bool:
        """Whether any field can be other than null."""
        return any(not isinstance(f.parsed_transform, Void) for f in self.fields)

    @property
    def last_field_id(self) -> int:
        """The highest id of a partition field, 999 when there is none."""
        return max((f.field_id for f in self.fields), default=PARTITION_FIELD_ID_START - 1)

    @property
    def has_sequential_ids(self) -> bool:
        """Whether the field ids are 1000, 1001, …, which is all that v1 readers know."""
        return all(f.field_id == PARTITION_FIELD_ID_START + i for i, f in enumerate(self.fields))

    @property
    def fields_of_unknown_transforms(self) -> frozenset[int]:
        """Ids of the fields whose results are of a type that nobody here knows."""
        return frozenset(f.field_id for f in self.fields if isinstance(f.parsed_transform, UnknownTransform))

    @property
    def has_unknown_transform(self) -> bool:
        """Whether files of this spec can be read but not written."""
        return bool(self.fields_of_unknown_transforms)


UNPARTITIONED: Final = PartitionSpec(spec_id=0)


def transform_of(text: str, source_ids: tuple[int, ...]) -> Transform:
    """The transform of a partition or sort field with these sources; see `PartitionField.parsed_transform`."""
    return parse_transform(text) if len(source_ids) == 1 else UnknownTransform(text)


def same_partitioning(spec: PartitionSpec, other: PartitionSpec) -> bool:
    """Whether both have equal sources, transforms and names, field by field; ids of specs and fields do not matter.

    These are the specification's equivalent specs, of which a table must not have two.
    """
    return len(spec.fields) == len(other.fields) and all(
        mine.source_ids == theirs.source_ids
        and mine.parsed_transform == theirs.parsed_transform
        and mine.name == theirs.name
        for mine, theirs in zip(spec.fields, other.fields, strict=True)
    )


def partition_type(spec: PartitionSpec, schema: Schema, *, older: Iterable[Schema] = ()) -> StructType:
    """The struct of partition tuples: optional fields with the partition fields' ids and the transforms' results.

    A source column that `schema` no longer has is looked for in the `older` schemas, in the order given. Where none
    has it, its type counts as ``unknown``, as in the Java library: ``bucket``, ``year``, ``month``, ``day`` and
    ``hour`` keep their results, while ``identity``, ``truncate`` and ``void`` become ``unknown``, whose only value is
    null. Of one schema it is made once: all manifests of a spec share it.
    """
    known = schema.partition_types.get(spec)
    if known is not None:
        return known
    made = _partition_type(spec, schema, tuple(older))
    if all(field.source_id in schema.fields_by_id for field in spec.fields):
        schema.partition_types[spec] = made  # whatever the older schemas are
    return made


def _partition_type(spec: PartitionSpec, schema: Schema, older: tuple[Schema, ...]) -> StructType:
    return StructType(
        tuple(
            NestedField(
                field_id=field.field_id,
                name=field.name,
                type=field.parsed_transform.result_type(_source_type(field.source_id, schema, older)),
                required=False,
            )
            for field in spec.fields
        )
    )


def _source_type(source_id: int, schema: Schema, older: tuple[Schema, ...]) -> Type:
    for known in (schema, *older):
        column = known.field_by_id(source_id)
        if column is not None:
            return column.type
    return UNKNOWN


def partition_of(spec: PartitionSpec, schema: Schema, row: Mapping[int, Any]) -> tuple[Any, ...]:
    """The partition tuple of a row, given as internal values by field id; columns that are absent are null.

    Raises InvalidInput for a value that is not of its column's type, Unsupported for a transform that is not known.
    """
    return tuple(
        field.parsed_transform.apply(_source_type(field.source_id, schema, ()), row.get(field.source_id))
        for field in spec.fields
    )


# ---------------------------------------------------------------------------------------------------------------------
# Validation


def check_spec(
    spec: PartitionSpec, schema: Schema, *, format_version: int, new_table: bool = False, where: str = "partition-spec"
) -> None:
    """Raise InvalidMetadata unless `spec` may be added to a table with this current schema.

    `new_table` also refuses a second time-based field of one column, which a table may only grow into.
    """
    names: set[str] = set()
    ids: set[int] = set()
    for i, field in enumerate(spec.fields):
        path = f"{where}.fields[{i}]"
        if not field.name:
            raise InvalidMetadata("a partition field must have a name", where=f"{path}.name")
        if field.name in names:
            raise InvalidMetadata(f"two partition fields are called {field.name!r}", where=f"{path}.name")
        if field.field_id in ids:
            raise InvalidMetadata(f"partition field id {field.field_id} is used twice", where=f"{path}.field-id")
        if len(field.source_ids) != 1 and format_version < 3:
            raise InvalidMetadata("several source columns need format version 3", where=f"{path}.source-ids")
        names.add(field.name)
        ids.add(field.field_id)
        _check_name(field, schema, path)
        _check_sources(field, schema, path)
    if format_version < 2 and not spec.has_sequential_ids:
        raise InvalidMetadata("a v1 table needs the field ids 1000, 1001, … in this order", where=where)
    if new_table:
        _check_redundancy(spec, where)


def misfit(field: PartitionField, schema: Schema) -> str | None:
    """What speaks against a table that has the field, in whichever of its specs, and the schema: Java does not open it.

    None for a field whose source is gone: Java passes that over.
    """
    if _is_named_like_another(field, schema):
        return f"{field.name!r} is the name of a column that the field is not made of"
    sources = (schema.field_by_id(source_id) for source_id in field.source_ids)
    wrong = next(
        (one for one in sources if one is not None and not field.parsed_transform.can_transform(one.type)), None
    )
    return (
        None if wrong is None else f"{field.transform} does not take columns like {wrong.name!r}, of type {wrong.type}"
    )


def _is_named_like_another(field: PartitionField, schema: Schema) -> bool:
    """Whether the schema has a column of the field's name that is not its source, although it has that too.

    Such a partition would answer for the column in path-based readers.
    """
    column = schema.find_field(field.name)
    if column is None or column.field_id in field.source_ids:
        return False
    return any(schema.field_by_id(source_id) is not None for source_id in field.source_ids)


def _check_name(field: PartitionField, schema: Schema, path: str) -> None:
    if _is_named_like_another(field, schema):
        raise InvalidMetadata(
            f"the schema has a column {field.name!r}, which is not the source of this field",
            where=f"{path}.name",
        )


def _check_sources(field: PartitionField, schema: Schema, path: str) -> None:
    """A source that is gone, nested in a list or of a wrong type would leave files without a partition value."""
    transform = field.parsed_transform
    if isinstance(transform, Void):
        return
    for source_id in field.source_ids:
        column = schema.field_by_id(source_id)
        if column is None:
            raise InvalidMetadata(f"the schema has no column {source_id}, source of {field}", where=path)
        if not is_primitive(column.type):
            raise InvalidMetadata(f"cannot partition by {column.name!r}: it is not of a primitive type", where=path)
        if not transform.can_transform(column.type):
            raise InvalidMetadata(f"{transform} does not take columns of type {column.type}", where=path)
        parent_id = schema.parent_id(source_id)
        while parent_id is not None:
            parent = schema.field_by_id(parent_id)
            if parent is None or not isinstance(parent.type, StructType):
                raise InvalidMetadata(f"cannot partition by {column.name!r} inside a list or map", where=path)
            parent_id = schema.parent_id(parent_id)


def _check_redundancy(spec: PartitionSpec, where: str) -> None:
    """Day and hour of one column, or a column twice, split files without telling rows apart any better."""
    seen: dict[tuple[tuple[int, ...], str], PartitionField] = {}
    for i, field in enumerate(spec.fields):
        transform = field.parsed_transform
        if isinstance(transform, (Identity, TimeTransform)):
            first = seen.setdefault((field.source_ids, transform.dedup_name), field)
            if first is not field:
                raise InvalidMetadata(
                    f"{field.name!r} is redundant beside {first.name!r}",
                    where=f"{where}.fields[{i}]",
                )


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def spec_from_json(obj: Any, *, where: str = "partition-spec", spec_id: int | None = None) -> PartitionSpec:
    """A spec from its object form, or from the bare field list of v1's ``partition-spec`` (then with id 0).

    `spec_id` stands in for a missing ``spec-id``, which is an error otherwise. Field ids may be missing in all fields
    (v1): they are 1000, 1001, … then. Unknown members are kept. Raises InvalidMetadata naming the member.
    """
    if isinstance(obj, list):
        obj = {"spec-id": 0 if spec_id is None else spec_id, "fields": obj}
    members = as_object(obj, where=where)
    found_id = int_or_none(members, "spec-id", where=where)
    if found_id is None:
        found_id = int_of(members, "spec-id", where=where) if spec_id is None else spec_id
    listed = list_of(members, "fields", where=where)
    fields_path = join(where, "fields")
    if len(listed) > SPEC_FIELDS_MAX:
        raise InvalidMetadata(f"{plural(len(listed), 'field')}, the limit is {SPEC_FIELDS_MAX}", where=fields_path)
    fields = tuple(_field_from_json(f, i, where=f"{fields_path}[{i}]") for i, f in enumerate(listed))
    with_ids = sum(f.get("field-id") is not None for f in listed)
    if with_ids not in {0, len(listed)}:
        raise InvalidMetadata(f"field-id is missing in {len(listed) - with_ids} of {len(listed)}", where=fields_path)
    return PartitionSpec(spec_id=found_id, fields=fields, extra=extra_of(members, _SPEC_MEMBERS))


def spec_to_json(spec: PartitionSpec) -> dict[str, Any]:
    """The object form of a spec."""
    return {"spec-id": spec.spec_id, "fields": spec_fields_to_json(spec), **spec.extra}


def spec_fields_to_json(spec: PartitionSpec) -> list[dict[str, Any]]:
    """The bare field list, as v1's ``partition-spec`` holds it."""
    return [
        {
            "name": field.name,
            "transform": field.transform,
            **source_ids_to_json(field.source_ids),
            "field-id": field.field_id,
            **field.extra,
        }
        for field in spec.fields
    ]


def _field_from_json(obj: Any, position: int, *, where: str) -> PartitionField:
    members = as_object(obj, where=where)
    field_id = int_or_none(members, "field-id", where=where)
    return PartitionField(
        source_ids=source_ids_from_json(members, where=where),
        field_id=PARTITION_FIELD_ID_START + position if field_id is None else field_id,
        name=str_of(members, "name", where=where),
        transform=transform_from_json(members, where=where),
        extra=extra_of(members, _FIELD_MEMBERS),
    )


def source_ids_from_json(members: dict[str, Any], *, where: str) -> tuple[int, ...]:
    """The source columns of a partition or sort field: ``source-ids`` (v3) or ``source-id``.

    Where both are given they must agree, but for the -1 that drafts of v3 put beside several ids.
    """
    source_id = int_or_none(members, "source-id", where=where)
    if members.get("source-ids") is None:
        return (int_of(members, "source-id", where=where) if source_id is None else source_id,)
    path = join(where, "source-ids")
    ids = longs_of(members, "source-ids", where=where)
    if not 1 <= len(ids) <= SOURCE_IDS_MAX:
        raise InvalidMetadata(f"must have 1 … {SOURCE_IDS_MAX} ids, this has {len(ids)}", where=path)
    if min(ids) < INT_MIN or max(ids) > INT_MAX:
        raise InvalidMetadata(f"ids are within {INT_MIN} … {INT_MAX}", where=path)
    if source_id not in {None, -1, ids[0]}:
        raise InvalidMetadata(f"source-id {source_id} contradicts source-ids {list(ids)}", where=path)
    return ids


def source_ids_to_json(source_ids: tuple[int, ...]) -> dict[str, Any]:
    """``source-id`` for one column, ``source-ids`` for several, never both."""
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def transform_from_json(members: dict[str, Any], *, where: str) -> str:
    """The ``transform`` text of a partition or sort field, checked but kept as it is written."""
    text = str_of(members, "transform", where=where)
    try:
        parse_transform(text)
    except InvalidInput as error:
        raise InvalidMetadata(error.message, where=join(where, "transform")) from None
    return text


def partition_from_json(type: StructType, obj: Any, *, where: str = "partition") -> tuple[Any, ...]:
    """A partition tuple of `type` (see `partition_type`) from JSON single values.

    `obj` is a list with one value per field (REST specification), or an object that has every field by its name or
    by its id. Dates and times may be integers. Raises InvalidInput naming the value.
    """
    if isinstance(obj, dict):
        obj = _values_in_order(type, obj, where)
    elif not isinstance(obj, list):
        raise InvalidInput(f"must be an array or an object, not {describe(obj)}", where=where)
    if len(obj) != len(type.fields):
        raise InvalidInput(
            f"{plural(len(obj), 'partition value')}, the spec has {plural(len(type.fields), 'field')}", where=where
        )
    return tuple(
        value_from_json(field.type, value, where=f"{where}[{i}]", lenient=True)
        for i, (field, value) in enumerate(zip(type.fields, obj, strict=True))
    )


def _values_in_order(type: StructType, obj: dict[str, Any], where: str) -> list[Any]:
    """Absent is not null here: a file in the wrong partition is lost to every query that prunes."""
    names = {f.name for f in type.fields}
    by_name = {f.name: f for f in type.fields} | {
        str(f.field_id): f for f in type.fields if str(f.field_id) not in names
    }
    found: dict[int, Any] = {}
    for key, value in obj.items():
        field = by_name.get(key)
        if field is None:
            raise InvalidInput(f"{key[:100]!r} is no field of the partition {sorted(names)}", where=where)
        if field.field_id in found:
            raise InvalidInput(f"{field.name!r} is given twice, by name and by id", where=where)
        found[field.field_id] = value
    for field in type.fields:
        if field.field_id not in found:
            raise InvalidInput("missing, but required (null is a value)", where=join(where, field.name))
    return [found[f.field_id] for f in type.fields]


def partition_to_json(type: StructType, values: tuple[Any, ...]) -> list[Any]:
    """The list form of a partition tuple of `type`."""
    assert len(values) == len(type.fields)
    return [value_to_json(f.type, v, where=f.name) for f, v in zip(type.fields, values, strict=True)]


def check_writable(
    spec: PartitionSpec,
    values: tuple[Any, ...],
    *,
    schema: Schema,
    older: Iterable[Schema] = (),
    where: str = "partition",
) -> None:
    """Raise unless a file with this partition tuple may be added.

    Unsupported for a spec with an unknown transform; InvalidInput for a value that is not of its field's type, that no
    value of the source column is transformed to, or that is in a void field. All of them would put a file where its
    rows do not belong.
    """
    for i, (field, value) in enumerate(zip(spec.fields, values, strict=True)):
        at = f"{where}[{i}]"
        transform = field.parsed_transform
        if isinstance(transform, UnknownTransform):
            raise Unsupported(f"cannot write with the unknown transform {field.transform!r}", where=at)
        if isinstance(transform, Void) and value is not None:
            raise InvalidInput(f"partition field {field.name!r} is void: its value must be null", where=at)
    reason = next(impossible_values(spec, values, schema=schema, older=older, where=where), None)
    if reason is not None:
        raise InvalidInput(reason)


def impossible_values(
    spec: PartitionSpec,
    values: tuple[Any, ...],
    *,
    schema: Schema,
    older: Iterable[Schema] = (),
    where: str = "partition",
) -> Iterator[str]:
    """Yield why no row can have a value of this partition tuple, for each such value."""
    known = tuple(older)
    type_ = partition_type(spec, schema, older=known)
    for i, (field, result, value) in enumerate(zip(spec.fields, type_.fields, values, strict=True)):
        reason = _impossible(field, result.type, value, source=_source_type(field.source_id, schema, known))
        if reason is not None:
            yield f"{where}[{i}]: partition field {field.name!r}: {reason}"


def _impossible(field: PartitionField, result: Type, value: Any, *, source: Type) -> str | None:
    """Return why a partition field of type `result`, made of a column of type `source`, never has `value`."""
    if value is None or result == UNKNOWN or isinstance(field.parsed_transform, UnknownTransform):
        return None
    try:
        check_value(result, value)
    except InvalidInput as error:
        return error.message
    if field.parsed_transform.may_yield(source, value):
        return None
    return f"{field.transform} of a column of type {source} is never {value!r:.80}"
