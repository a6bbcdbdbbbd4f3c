"""A table schema: an identified struct type with name and id lookups (table specification, "Schemas")."""

from __future__ import annotations

from typing import Any

import msgspec

from firn.model.types import StructType


class Schema(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The columns of a table at one time.

    `identifier_field_ids` name the columns that identify a row; `extra` keeps JSON members that firn does not know.
    """

    schema_id: int
    struct: StructType
    identifier_field_ids: tuple[int, ...] = ()
    extra: dict[str, Any] = {}
