"""Which metrics a table keeps for which column: the ``write.metadata.metrics.*`` properties, by field id."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from firn.model.bounds import TRUNCATE_LENGTH_DEFAULT
from firn.model.schema import Schema
from firn.model.sorting import SortOrder
from firn.model.table_properties import METRICS_COLUMN_PREFIX, METRICS_DEFAULT, METRICS_INFERRED_COLUMNS_MAX
from firn.model.types import VARIANT, NestedField, Type, child_fields, is_primitive

_TRUNCATE: Final = re.compile(r"truncate\(([0-9]{1,9})\)")


class MetricsMode(msgspec.Struct, frozen=True):
    """How much is kept of one column; `length` is that of ``truncate`` bounds, in code points or bytes."""

    kind: Literal["none", "counts", "truncate", "full"]
    length: int = 0

    @property
    def has_counts(self) -> bool:
        """Whether sizes and counts are kept."""
        return self.kind != "none"

    @property
    def has_bounds(self) -> bool:
        """Whether bounds are kept."""
        return self.kind in ("truncate", "full")


NONE: Final = MetricsMode("none")
COUNTS: Final = MetricsMode("counts")
FULL: Final = MetricsMode("full")
DEFAULT: Final = MetricsMode("truncate", TRUNCATE_LENGTH_DEFAULT)


class MetricsModes(msgspec.Struct, frozen=True):
    """The mode of every column: `by_id`, and `default` for the others."""

    default: MetricsMode
    by_id: dict[int, MetricsMode] = {}

    def of(self, field_id: int) -> MetricsMode:
        """The mode of the column with this id."""
        return self.by_id.get(field_id, self.default)


def parse_mode(text: str) -> MetricsMode | None:
    """The mode that a property's value names, in any case; None if it names none."""
    lowered = text.strip().lower()
    match lowered:
        case "none":
            return NONE
        case "counts":
            return COUNTS
        case "full":
            return FULL
    found = _TRUNCATE.fullmatch(lowered)
    return MetricsMode("truncate", int(found[1])) if found and int(found[1]) > 0 else None


def metrics_modes(
    properties: Mapping[str, str], schema: Schema, *, sort_order: SortOrder | None = None
) -> MetricsModes:
    """The modes that a table's `properties` ask for.

    As in the Java library: an unreadable mode falls back to the default; without a default of its own a table keeps
    bounds for its first 100 columns (`METRICS_INFERRED_COLUMNS_MAX`), those of an outer struct first; columns that
    files are sorted by keep bounds even where the default keeps none.
    """
    by_id: dict[int, MetricsMode] = {}
    configured = properties.get(METRICS_DEFAULT)
    default = DEFAULT if configured is None else parse_mode(configured) or DEFAULT
    if configured is None:
        limit = METRICS_INFERRED_COLUMNS_MAX.sane(properties)
        inferred = list(_leaves_outermost_first(schema))
        if len(inferred) > limit:
            by_id = dict.fromkeys(inferred[:limit], DEFAULT)
            default = NONE
    for field_id in _sorted_columns(sort_order):
        by_id[field_id] = default if default.has_bounds else DEFAULT
    for name, text in properties.items():
        if name.startswith(METRICS_COLUMN_PREFIX):
            field = schema.find_field(name.removeprefix(METRICS_COLUMN_PREFIX))
            if field is not None:
                by_id[field.field_id] = parse_mode(text) or default
    return MetricsModes(default, by_id)


def _sorted_columns(sort_order: SortOrder | None) -> list[int]:
    if sort_order is None:
        return []
    return [field.source_id for field in sort_order.fields if field.parsed_transform.preserves_order]


def _leaves_outermost_first(schema: Schema) -> Iterator[int]:
    """Ids of the columns that can have metrics: those of a struct before those inside its fields."""
    yield from _leaves(schema.fields)


def _leaves(fields: tuple[NestedField, ...]) -> Iterator[int]:
    for field in fields:
        if _has_metrics(field.type):
            yield field.field_id
    for field in fields:
        yield from _leaves(child_fields(field.type))


def _has_metrics(type: Type) -> bool:
    return is_primitive(type) or type == VARIANT
