"""A filter keeps the rows of a batch that it keeps one by one, in the columns that are wanted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import Expression
from firn.model.expressions.row_filter import matches
from firn.model.schema_projection import project
from firn.model.types import StructType
from firn.pipeline.filtered_batches import filtered_batches
from firn.pipeline.reads import filter_ids, with_filter_columns
from firn.storage.arrow_rows import Row, batch_of_rows, rows_of_batch
from tests.strategies.expressions import LEAVES, SCHEMA, expressions, rows


def nested(row: dict[int, Any], struct: StructType) -> Row:
    """A row with the fields of structs in them, of one that has them beside them; only the fields of `struct`."""
    found: Row = {}
    for field in struct.fields:
        is_struct = isinstance(field.type, StructType) and row[field.field_id] is not None
        found[field.field_id] = nested(row, field.type) if is_struct else row[field.field_id]  # type: ignore[arg-type]
    return found


@given(
    flat=st.lists(rows(), max_size=8),
    filter=expressions(),
    columns=st.sets(st.sampled_from(sorted({*LEAVES, 60, 70})), min_size=1, max_size=4),
)
def test_rows_are_kept_as_one_by_one(flat: list[dict[int, Any]], filter: Expression, columns: set[int]) -> None:
    bound = bind(filter, SCHEMA)
    wanted = project(SCHEMA, columns)
    wide = with_filter_columns(wanted, bound, SCHEMA)
    asked = frozenset(filter_ids(bound))
    batch = batch_of_rows([nested(row, wide.struct) for row in flat], wide)
    found = filtered_batches([batch], bound, asked=asked, given=wide, wanted=wanted)
    kept = [row for part in found for row in rows_of_batch(part, wanted)]
    assert repr(kept) == repr([nested(row, wanted.struct) for row in flat if matches(bound, row)])
