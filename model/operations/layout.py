"""Operations on schema, partition spec and sort order. Changes name columns; ids are assigned when they are applied."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from firn.model.operations.common import FieldId, Operation

Changes = Annotated[tuple[dict[str, Any], ...], msgspec.Meta(min_length=1, max_length=1_000)]


class UpdateSchema(Operation, frozen=True, kw_only=True, tag="update-schema"):
    """Evolve the schema; `changes` as in `firn.model.schema_change`, planned on the schema `base_schema_id`.

    `allow_incompatible` permits what breaks rows that are there, as in `firn.model.schema_update.apply_changes`.
    """

    base_schema_id: FieldId
    changes: Changes
    allow_incompatible: bool = False
    case_sensitive: bool = True


class UpdateSpec(Operation, frozen=True, kw_only=True, tag="update-spec"):
    """Evolve the default partition spec; `changes` as in `firn.model.partition_update`."""

    base_schema_id: FieldId
    base_spec_id: FieldId
    changes: Changes


class UpdateSortOrder(Operation, frozen=True, kw_only=True, tag="update-sort-order"):
    """Replace the default sort order; `sort_by` as in `firn.model.sorting`, an empty list means unsorted."""

    base_schema_id: FieldId
    base_sort_order_id: FieldId
    sort_by: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=1_000)]


LayoutOperation = UpdateSchema | UpdateSpec | UpdateSortOrder
