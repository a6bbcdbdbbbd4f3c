"""Sort orders: how rows are ordered within a data file (table specification, "Sorting")."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class SortField(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a sort order; `transform` as in a partition field."""

    source_ids: tuple[int, ...]
    transform: str
    direction: Literal["asc", "desc"] = "asc"
    null_order: Literal["nulls-first", "nulls-last"] = "nulls-first"
    extra: dict[str, Any] = {}

    @property
    def source_id(self) -> int:
        """The only source column; meaningful when the transform takes one argument."""
        return self.source_ids[0]


class SortOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An identified list of sort keys; order 0 is unsorted and has none."""

    order_id: int
    fields: tuple[SortField, ...] = ()
    extra: dict[str, Any] = {}


UNSORTED = SortOrder(order_id=0)
