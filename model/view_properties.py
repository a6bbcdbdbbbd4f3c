"""The standard properties of views: their names, defaults and types, as on Iceberg's configuration page for views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from firn.model.json_members import INT_MAX
from firn.model.table_properties import BoolProperty, ChoiceProperty, IntProperty

VERSION_HISTORY_ENTRIES: Final = IntProperty("version.history.num-entries", 10, 1, INT_MAX)
"""How many versions a view keeps."""

DROP_DIALECT_ALLOWED: Final = BoolProperty("replace.drop-dialect.allowed", default=False)

VIEW_METADATA_COMPRESSION: Final = ChoiceProperty("write.metadata.compression-codec", "gzip", ("none", "gzip"))
"""As for tables, but with another default."""


def check_view_properties(properties: Mapping[str, str]) -> None:
    """Refuse values that would make every later commit fail; for properties that are being set, not stored ones."""
    VERSION_HISTORY_ENTRIES.of(properties)
    VIEW_METADATA_COMPRESSION.of(properties)
