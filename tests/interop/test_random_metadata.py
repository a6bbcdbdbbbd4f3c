"""Metadata of any life is the same table to Iceberg's Java library and to PyIceberg, and so is what they write."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import HealthCheck, assume, given
from pyiceberg.table.metadata import TableMetadataUtil

from firn.model.metadata import TableMetadata
from firn.model.metadata_json import metadata_from_json, metadata_to_json
from tests.interop.java_library import JavaLibrary
from tests.strategies.evolved_metadata import evolved_tables
from tests.strategies.examples import examples

ANY_PACE: Final = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@examples(150, suppress_health_check=ANY_PACE)
@given(metadata=evolved_tables())
def test_java_reads_the_table_that_firn_wrote_and_firn_what_java_writes_of_it(
    java: JavaLibrary, metadata: TableMetadata
) -> None:
    text = json.dumps(metadata_to_json(metadata))
    assert metadata_from_json(java.rewritten_metadata(text)) == metadata


@pytest.mark.long
@examples(2_000, suppress_health_check=ANY_PACE)
@given(metadata=evolved_tables(changes_max=40))
def test_java_reads_tables_of_long_lives(java: JavaLibrary, metadata: TableMetadata) -> None:
    text = json.dumps(metadata_to_json(metadata))
    assert metadata_from_json(java.rewritten_metadata(text)) == metadata


@examples(60, suppress_health_check=ANY_PACE)
@given(metadata=evolved_tables(versions=(1, 2)))
def test_pyiceberg_reads_the_table_that_firn_wrote_and_firn_what_pyiceberg_writes_of_it(
    metadata: TableMetadata,
) -> None:
    """Up to v2: it writes no v3, and reads v3 without geospatial types, variants and defaults of nanoseconds.

    Of blobs of statistics it knows two types, and refuses a table that has others.
    """
    assume("of-tomorrow" not in str(metadata.statistics))
    theirs = TableMetadataUtil.parse_raw(json.dumps(metadata_to_json(metadata)))
    assert metadata_from_json(json.loads(theirs.model_dump_json())) == metadata
