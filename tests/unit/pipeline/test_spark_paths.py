"""Spark's spellings of a path are one location."""

import pytest

from firn.model.errors import Unsupported
from firn.model.types import DATE, DOUBLE, FLOAT, INT, LONG, STRING, TIMESTAMP, TIMESTAMPTZ, UUID, DecimalType, ListType
from firn.pipeline.spark_paths import plain_location, spellings
from firn.pipeline.sql_literals import sql_literal


@pytest.mark.parametrize(
    ("spelled", "location"),
    [
        ("file:/wh/t/region=e%252Fu%20*%7Bx%7D/f%201.parquet", "/wh/t/region=e%2Fu *{x}/f 1.parquet"),
        ("file:///wh/t/a+b.parquet", "/wh/t/a+b.parquet"),
        ("file:/wh/t/h%C3%A9.parquet", "/wh/t/hé.parquet"),
        ("file:/wh/t/hé.parquet", "/wh/t/hé.parquet"),
        ("s3a://bucket/t/a%20b.parquet", "s3://bucket/t/a b.parquet"),
        ("/wh/t/f.parquet", "/wh/t/f.parquet"),
    ],
)
def test_a_spelling_is_read_as_the_location_that_it_means(spelled: str, location: str) -> None:
    assert plain_location(spelled) == location


def test_a_file_is_found_by_the_listing_s_spelling_and_by_a_row_s() -> None:
    found = spellings(["file:///wh/a%20b"])
    assert found["file:/wh/a%20b"] == found["file:///wh/a%20b"] == "/wh/a b"


def test_constants_are_sql_of_their_columns_types() -> None:
    cases = [
        (INT, 1, "CAST(1 AS int)"),
        (LONG, -(2**63), "(-9223372036854775807L - 1L)"),
        (STRING, "it's \\ so", "'it\\'s \\\\ so'"),
        (DATE, 0, "DATE '1970-01-01'"),
        (TIMESTAMP, 1, "TIMESTAMP_NTZ '1970-01-01T00:00:00.000001'"),
        (TIMESTAMPTZ, 1, "TIMESTAMP '1970-01-01T00:00:00.000001+00:00'"),
        (DOUBLE, float("nan"), "CAST('NaN' AS double)"),
        (FLOAT, 1.5, "CAST('1.5' AS float)"),
    ]
    for type, value, text in cases:
        assert sql_literal(type, value) == text
    assert sql_literal(UUID, None) == "NULL"
    assert sql_literal(DecimalType(9, 2), 1) == "CAST(1 AS decimal(9, 2))"
    with pytest.raises(Unsupported):
        sql_literal(ListType(element_id=1, element=INT, element_required=True), (1,))
