"""Sort orders: how rows are ordered within a data file (table specification, "Sorting", Appendix C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from firn.model.amounts import plural
from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.json_members import as_object, extra_of, int_of, int_or_none, join, list_of, str_of
from firn.model.partition_update import rebind_ids
from firn.model.partitioning import (
    SPEC_FIELDS_MAX,
    source_ids_from_json,
    source_ids_to_json,
    transform_from_json,
    transform_of,
)
from firn.model.schema import Schema
from firn.model.transforms import Transform, UnknownTransform, parse_transform
from firn.model.types import DOUBLE, FLOAT, Type, is_primitive

Direction = Literal["asc", "desc"]
NullOrder = Literal["nulls-first", "nulls-last"]

_ORDER_MEMBERS: Final = frozenset({"order-id", "fields"})
_FIELD_MEMBERS: Final = frozenset({"source-id", "source-ids", "transform", "direction", "null-order"})


class SortField(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a sort order; `transform` as in a partition field."""

    source_ids: tuple[int, ...]
    transform: str
    direction: Direction = "asc"
    null_order: NullOrder = "nulls-first"
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.source_ids, self.transform, self.direction, self.null_order))

    def __str__(self) -> str:
        return f"{self.transform}({', '.join(map(str, self.source_ids))}) {self.direction} {self.null_order}"

    @property
    def source_id(self) -> int:
        """The only source column; meaningful when the transform takes one argument."""
        return self.source_ids[0]

    @property
    def parsed_transform(self) -> Transform:
        """What `transform` does, as for a partition field."""
        return transform_of(self.transform, self.source_ids)


class SortOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An identified list of sort keys; order 0 is unsorted and has none."""

    order_id: int
    fields: tuple[SortField, ...] = ()
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.order_id, self.fields))

    @property
    def is_sorted(self) -> bool:
        """Whether there is any key."""
        return bool(self.fields)

    def is_satisfied_by(self, other: SortOrder, schema: Schema | None = None) -> bool:
        """Whether rows sorted by `other` are in this order too.

        With `schema`, truncated numbers are told from truncated strings (see `Truncate.satisfies_order_of`).
        """
        if len(self.fields) > len(other.fields):
            return False
        return all(
            _is_key_satisfied(wanted, given, schema)
            # A coarser key leaves its ties in the order of what it was made from, not in that of the next key.
            and (i == len(self.fields) - 1 or wanted.parsed_transform == given.parsed_transform)
            for i, (wanted, given) in enumerate(zip(self.fields, other.fields, strict=False))
        )


UNSORTED: Final = SortOrder(order_id=0)


def _is_key_satisfied(wanted: SortField, given: SortField, schema: Schema | None) -> bool:
    theirs = (given.source_ids, given.direction, given.null_order)
    if (wanted.source_ids, wanted.direction, wanted.null_order) != theirs:
        return False
    column = None if schema is None else schema.field_by_id(given.source_id)
    source_type = None if column is None else column.type
    return wanted.parsed_transform == given.parsed_transform or given.parsed_transform.satisfies_order_of(
        wanted.parsed_transform, source_type
    )


def same_order(order: SortOrder, other: SortOrder) -> bool:
    """Whether both sort by the same keys, whatever their ids."""
    return len(order.fields) == len(other.fields) and all(
        (mine.source_ids, mine.parsed_transform, mine.direction, mine.null_order)
        == (theirs.source_ids, theirs.parsed_transform, theirs.direction, theirs.null_order)
        for mine, theirs in zip(order.fields, other.fields, strict=True)
    )


def check_order(order: SortOrder, schema: Schema, *, format_version: int, where: str = "sort-order") -> None:
    """Raise InvalidMetadata unless `order` may be added to a table with this current schema."""
    if (order.order_id == 0) != (not order.fields):
        raise InvalidMetadata("order id 0 is the unsorted order, and no other is unsorted", where=f"{where}.order-id")
    for i, field in enumerate(order.fields):
        path = f"{where}.fields[{i}]"
        if len(field.source_ids) != 1 and format_version < 3:
            raise InvalidMetadata("several source columns need format version 3", where=f"{path}.source-ids")
        for source_id in field.source_ids:
            column = schema.field_by_id(source_id)
            if column is None:
                raise InvalidMetadata(f"the schema has no column {source_id}, source of {field}", where=path)
            if not is_primitive(column.type):
                raise InvalidMetadata(f"cannot sort by {column.name!r}: it is not of a primitive type", where=path)
            if not field.parsed_transform.can_transform(column.type):
                raise InvalidMetadata(f"{field.transform} does not take columns of type {column.type}", where=path)


# ---------------------------------------------------------------------------------------------------------------------
# Comparing rows


def sort_key(order: SortOrder, schema: Schema) -> Callable[[Mapping[int, Any]], tuple[Any, ...]]:
    """A key function for `sorted`: rows are internal values by field id, absent columns are null.

    Floats are in the specification's order, -NaN < -Infinity < -0 < 0 < Infinity < NaN. Raises Unsupported for a
    transform that is not known; the key function raises InvalidInput for a value that is not of its column's type.
    """
    keys = tuple(_key_of(field, schema) for field in order.fields)

    def key(row: Mapping[int, Any]) -> tuple[Any, ...]:
        return tuple(part(row) for part in keys)

    return key


def _key_of(field: SortField, schema: Schema) -> Callable[[Mapping[int, Any]], tuple[int, Any]]:
    transform = field.parsed_transform
    if isinstance(transform, UnknownTransform):
        raise Unsupported(f"cannot sort by the unknown transform {field.transform!r}")
    column = schema.field_by_id(field.source_id)
    if column is None:
        raise InvalidMetadata(f"the schema has no column {field.source_id}, source of {field}")
    source_type: Type = column.type
    source_id, is_float = field.source_id, transform.result_type(source_type) in {FLOAT, DOUBLE}
    null_rank = 0 if field.null_order == "nulls-first" else 2
    is_descending = field.direction == "desc"

    def key(row: Mapping[int, Any]) -> tuple[int, Any]:
        value = transform.apply(source_type, row.get(source_id))
        if value is None:
            return null_rank, 0
        if is_float:
            value = float_key(value)
        return 1, _Descending(value) if is_descending else value

    return key


def float_key(value: float) -> tuple[int, float, float]:
    """What sorts as the specification orders floats; all NaNs of one sign are equal."""
    sign = math.copysign(1.0, value)
    return (int(sign), 0.0, sign) if math.isnan(value) else (0, value, sign)


class _Descending:
    """A value that compares the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


# ---------------------------------------------------------------------------------------------------------------------
# Replacing an order


class SortBy(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True):
    """One key of a wanted order, by the column's dotted name. Nulls go first in ascending, last in descending order."""

    source: str
    transform: str = "identity"
    direction: Direction = "asc"
    null_order: NullOrder | None = None


def sort_by_from_json(obj: Any, *, where: str = "sort-by") -> tuple[SortBy, ...]:
    """Keys from a JSON list such as ``[{"source": "ts", "transform": "day", "direction": "desc"}]``.

    An empty list means unsorted. Raises InvalidInput naming the member.
    """
    if isinstance(obj, list) and len(obj) > SPEC_FIELDS_MAX:
        raise InvalidInput(f"{plural(len(obj), 'key')}, the limit is {SPEC_FIELDS_MAX}", where=where)
    try:
        return msgspec.convert(obj, tuple[SortBy, ...])
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise InvalidInput(message, where=where + path.rstrip("`")) from None


def sort_by_to_json(keys: Iterable[SortBy]) -> list[dict[str, Any]]:
    """The JSON form of `keys`."""
    return [msgspec.to_builtins(key) for key in keys]


def replace_order(
    keys: Iterable[SortBy],
    schema: Schema,
    *,
    orders: Iterable[SortOrder],
    format_version: int,
    where: str = "sort-by",
) -> SortOrder:
    """The order that sorts by `keys`, as one of the table's `orders` where it has it and else with the next free id.

    Raises InvalidInput for a column or transform that does not exist, InvalidMetadata for one that cannot be sorted by.
    """
    fields = []
    for i, key in enumerate(keys):
        column = schema.find_field(key.source)
        if column is None:
            raise InvalidInput(f"the schema has no column {key.source!r}", where=f"{where}[{i}].source")
        try:
            transform = parse_transform(key.transform)
        except InvalidInput as error:
            raise InvalidInput(error.message, where=f"{where}[{i}].transform") from None
        if isinstance(transform, UnknownTransform):
            raise Unsupported(
                f"cannot sort by the unknown transform {key.transform!r}", where=f"{where}[{i}].transform"
            )
        default: NullOrder = "nulls-first" if key.direction == "asc" else "nulls-last"
        fields.append(
            SortField(
                source_ids=(column.field_id,),
                transform=str(transform),
                direction=key.direction,
                null_order=key.null_order or default,
            )
        )
    order = SortOrder(order_id=int(bool(fields)), fields=tuple(fields))
    check_order(order, schema, format_version=format_version)
    return add_order(order, orders)


def add_order(order: SortOrder, orders: Iterable[SortOrder]) -> SortOrder:
    """The equivalent of `order` in a table with `orders`: the one it has, else `order` with the next free id."""
    if not order.fields:
        return UNSORTED
    next_id = 1
    for existing in orders:
        if same_order(existing, order):
            return existing
        next_id = max(next_id, existing.order_id + 1)
    return msgspec.structs.replace(order, order_id=next_id)


def rebind_order(order: SortOrder, *, planned_on: Schema, schema: Schema) -> SortOrder:
    """`order` with the source ids that its columns' names have in `schema`; InvalidMetadata when one is not there."""
    fields = tuple(
        msgspec.structs.replace(field, source_ids=rebind_ids(field.source_ids, planned_on=planned_on, schema=schema))
        for field in order.fields
    )
    return msgspec.structs.replace(order, fields=fields)


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def order_from_json(obj: Any, *, where: str = "sort-order", order_id: int | None = None) -> SortOrder:
    """A sort order from its JSON form; `order_id` stands in for a missing ``order-id``, which is an error otherwise.

    Unknown members are kept. Raises InvalidMetadata naming the member.
    """
    members = as_object(obj, where=where)
    found_id = int_or_none(members, "order-id", where=where)
    if found_id is None:
        found_id = int_of(members, "order-id", where=where) if order_id is None else order_id
    listed = list_of(members, "fields", where=where)
    path = join(where, "fields")
    if len(listed) > SPEC_FIELDS_MAX:
        raise InvalidMetadata(f"{plural(len(listed), 'field')}, the limit is {SPEC_FIELDS_MAX}", where=path)
    return SortOrder(
        order_id=found_id,
        fields=tuple(_field_from_json(field, where=f"{path}[{i}]") for i, field in enumerate(listed)),
        extra=extra_of(members, _ORDER_MEMBERS),
    )


def _field_from_json(obj: Any, *, where: str) -> SortField:
    members = as_object(obj, where=where)
    return SortField(
        source_ids=source_ids_from_json(members, where=where),
        transform=transform_from_json(members, where=where),
        direction=_direction(str_of(members, "direction", where=where), join(where, "direction")),
        null_order=_null_order(str_of(members, "null-order", where=where), join(where, "null-order")),
        extra=extra_of(members, _FIELD_MEMBERS),
    )


def _direction(text: str, where: str) -> Direction:
    match text.lower():
        case "asc":
            return "asc"
        case "desc":
            return "desc"
    raise InvalidMetadata(f"must be asc or desc, not {text[:40]!r}", where=where)


def _null_order(text: str, where: str) -> NullOrder:
    match text.lower():
        case "nulls-first":
            return "nulls-first"
        case "nulls-last":
            return "nulls-last"
    raise InvalidMetadata(f"must be nulls-first or nulls-last, not {text[:40]!r}", where=where)


def order_to_json(order: SortOrder) -> dict[str, Any]:
    """The JSON form of a sort order."""
    fields = [
        {
            "transform": field.transform,
            **source_ids_to_json(field.source_ids),
            "direction": field.direction,
            "null-order": field.null_order,
            **field.extra,
        }
        for field in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields, **order.extra}
