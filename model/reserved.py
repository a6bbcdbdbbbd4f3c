"""Reserved field ids and the metadata columns that have them (table specification, "Reserved Field IDs").

Engines add these columns to rows that they read or to delete files; no table schema may use their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from firn.model.types import BOOLEAN, INT, LONG, STRING, NestedField, StructType

TABLE_FIELD_ID_MAX: Final = 2_147_483_447
"""The greatest field id that a table may use; those above are reserved."""

FILE_ID: Final = 2_147_483_646
POS_ID: Final = 2_147_483_645
DELETED_ID: Final = 2_147_483_644
SPEC_ID_ID: Final = 2_147_483_643
PARTITION_ID: Final = 2_147_483_642
DELETE_FILE_PATH_ID: Final = 2_147_483_546
DELETE_FILE_POS_ID: Final = 2_147_483_545
DELETE_FILE_ROW_ID: Final = 2_147_483_544
CHANGE_TYPE_ID: Final = 2_147_483_543
CHANGE_ORDINAL_ID: Final = 2_147_483_542
COMMIT_SNAPSHOT_ID_ID: Final = 2_147_483_541
ROW_ID_ID: Final = 2_147_483_540
LAST_UPDATED_SEQUENCE_NUMBER_ID: Final = 2_147_483_539

FILE: Final = NestedField(
    field_id=FILE_ID, name="_file", type=STRING, required=True, doc="Path of the file in which a row is stored"
)
POS: Final = NestedField(
    field_id=POS_ID, name="_pos", type=LONG, required=True, doc="Ordinal position of a row in the source data file"
)
DELETED: Final = NestedField(
    field_id=DELETED_ID, name="_deleted", type=BOOLEAN, required=True, doc="Whether the row has been deleted"
)
SPEC_ID: Final = NestedField(
    field_id=SPEC_ID_ID, name="_spec_id", type=INT, required=True, doc="Spec ID used to track the file containing a row"
)
DELETE_FILE_PATH: Final = NestedField(
    field_id=DELETE_FILE_PATH_ID,
    name="file_path",
    type=STRING,
    required=True,
    doc="Path of a file in which a deleted row is stored",
)
DELETE_FILE_POS: Final = NestedField(
    field_id=DELETE_FILE_POS_ID,
    name="pos",
    type=LONG,
    required=True,
    doc="Ordinal position of a deleted row in the data file",
)
CHANGE_TYPE: Final = NestedField(
    field_id=CHANGE_TYPE_ID,
    name="_change_type",
    type=STRING,
    required=True,
    doc="INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER",
)
CHANGE_ORDINAL: Final = NestedField(
    field_id=CHANGE_ORDINAL_ID, name="_change_ordinal", type=INT, required=True, doc="The order of the change"
)
COMMIT_SNAPSHOT_ID: Final = NestedField(
    field_id=COMMIT_SNAPSHOT_ID_ID,
    name="_commit_snapshot_id",
    type=LONG,
    required=True,
    doc="The snapshot in which the change occurred",
)
ROW_ID: Final = NestedField(
    field_id=ROW_ID_ID, name="_row_id", type=LONG, required=False, doc="Identifies the row within its table"
)
LAST_UPDATED_SEQUENCE_NUMBER: Final = NestedField(
    field_id=LAST_UPDATED_SEQUENCE_NUMBER_ID,
    name="_last_updated_sequence_number",
    type=LONG,
    required=False,
    doc="The sequence number that last updated the row",
)

METADATA_COLUMNS: Final[Mapping[str, NestedField]] = {
    f.name: f
    for f in (
        FILE,
        POS,
        DELETED,
        SPEC_ID,
        CHANGE_TYPE,
        CHANGE_ORDINAL,
        COMMIT_SNAPSHOT_ID,
        ROW_ID,
        LAST_UPDATED_SEQUENCE_NUMBER,
    )
}
"""Metadata columns whose type is the same for every table, by name; ``_partition`` is `partition_column`."""

METADATA_COLUMN_NAMES: Final = frozenset(METADATA_COLUMNS) | {"_partition"}

POSITION_DELETES: Final = StructType((DELETE_FILE_PATH, DELETE_FILE_POS))
"""Columns of a position delete file without deleted rows; see `position_deletes_with_rows`."""


def partition_column(partition: StructType) -> NestedField:
    """The column ``_partition``: which partition a row belongs to, as the struct over all of a table's specs."""
    return NestedField(
        field_id=PARTITION_ID,
        name="_partition",
        type=partition,
        required=False,
        doc="Partition to which a row belongs",
    )


def position_deletes_with_rows(row: StructType) -> StructType:
    """Columns of a position delete file that carries the deleted rows of a table whose columns are `row`."""
    column = NestedField(field_id=DELETE_FILE_ROW_ID, name="row", type=row, required=True, doc="Deleted row values")
    return StructType((*POSITION_DELETES.fields, column))


def is_reserved_id(field_id: int) -> bool:
    """Whether no table column may have this id."""
    return field_id > TABLE_FIELD_ID_MAX
