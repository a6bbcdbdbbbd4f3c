from __future__ import annotations

from firn.model.reserved import (
    METADATA_COLUMN_NAMES,
    METADATA_COLUMNS,
    POSITION_DELETES,
    TABLE_FIELD_ID_MAX,
    is_reserved_id,
    partition_column,
    position_deletes_with_rows,
)
from firn.model.types import INT, LONG, STRING, NestedField, StructType

ROW = StructType((NestedField(field_id=1, name="id", type=INT, required=True),))


def test_reserved_columns_have_the_ids_of_the_specification():
    assert {f.name: (f.field_id, str(f.type)) for f in METADATA_COLUMNS.values()} == {
        "_file": (2147483646, "string"),
        "_pos": (2147483645, "long"),
        "_deleted": (2147483644, "boolean"),
        "_spec_id": (2147483643, "int"),
        "_change_type": (2147483543, "string"),
        "_change_ordinal": (2147483542, "int"),
        "_commit_snapshot_id": (2147483541, "long"),
        "_row_id": (2147483540, "long"),
        "_last_updated_sequence_number": (2147483539, "long"),
    }
    assert partition_column(ROW).field_id == 2147483642
    assert partition_column(ROW).name in METADATA_COLUMN_NAMES


def test_position_delete_files_have_their_own_reserved_columns():
    assert [(f.field_id, f.name, f.type) for f in POSITION_DELETES.fields] == [
        (2147483546, "file_path", STRING),
        (2147483545, "pos", LONG),
    ]
    with_rows = position_deletes_with_rows(ROW)
    assert [(f.field_id, f.name, f.type) for f in with_rows.fields][2] == (2147483544, "row", ROW)


def test_no_table_column_has_a_reserved_id():
    assert TABLE_FIELD_ID_MAX == 2**31 - 1 - 200
    assert not is_reserved_id(TABLE_FIELD_ID_MAX)
    assert all(is_reserved_id(f.field_id) for f in (*METADATA_COLUMNS.values(), *POSITION_DELETES.fields))
