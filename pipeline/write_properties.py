"""The table properties that say how data is written; names and defaults are those of Iceberg's configuration page."""

from __future__ import annotations

from typing import Final

from firn.model.table_properties import BoolProperty, ChoiceProperty, IntProperty, TextProperty

ROW_GROUP_BYTES: Final = IntProperty("write.parquet.row-group-size-bytes", 128 * 1024 * 1024, 1)

DISTRIBUTION_MODE: Final = TextProperty("write.distribution-mode")
"""Unset means ``range`` for a table with a sort order, ``hash`` for a partitioned one, else ``none``."""

DISTRIBUTION_MODES: Final = ("none", "hash", "range")

OBJECT_STORAGE: Final = BoolProperty("write.object-storage.enabled", default=False)
OBJECT_STORAGE_PARTITIONED: Final = BoolProperty("write.object-storage.partitioned-paths", default=True)
FOLDER_STORAGE_PATH: Final = TextProperty("write.folder-storage.path")
"""What `write.data.path` was called once; still read."""
OBJECT_STORAGE_PATH: Final = TextProperty("write.object-storage.path")
"""As `FOLDER_STORAGE_PATH`, for object storage."""

_MODES: Final = ("copy-on-write", "merge-on-read")
DELETE_MODE: Final = ChoiceProperty("write.delete.mode", "copy-on-write", _MODES)
UPDATE_MODE: Final = ChoiceProperty("write.update.mode", "copy-on-write", _MODES)
MERGE_MODE: Final = ChoiceProperty("write.merge.mode", "copy-on-write", _MODES)

_ISOLATION: Final = ("serializable", "snapshot")
DELETE_ISOLATION: Final = ChoiceProperty("write.delete.isolation-level", "serializable", _ISOLATION)
UPDATE_ISOLATION: Final = ChoiceProperty("write.update.isolation-level", "serializable", _ISOLATION)
MERGE_ISOLATION: Final = ChoiceProperty("write.merge.isolation-level", "serializable", _ISOLATION)
