"""Sort orders: how rows are ordered within a data file (table specification, "Sorting", Appendix C)."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from firn.model.errors import InvalidMetadata
from firn.model.json_members import as_object, extra_of, int_of, int_or_none, join, list_of, str_of
from firn.model.partitioning import (
    SPEC_FIELDS_MAX,
    source_ids_from_json,
    source_ids_to_json,
    transform_from_json,
    transform_of,
)
from firn.model.transforms import Transform

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


UNSORTED = SortOrder(order_id=0)


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
        raise InvalidMetadata(f"{len(listed)} fields, the limit is {SPEC_FIELDS_MAX}", where=path)
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
