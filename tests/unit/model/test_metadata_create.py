"""A new table starts with fresh ids, bound to what its creator meant, and nothing that it could not keep up."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given

from firn.model.errors import InvalidInput, InvalidMetadata, InvalidSchema, Unsupported
from firn.model.metadata_create import new_table_metadata
from firn.model.metadata_json import metadata_from_json, metadata_to_json
from firn.model.metadata_replace import replace_table
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.sorting import SortField, SortOrder
from firn.model.types import LONG, STRING, TIMESTAMP, TIMESTAMP_NS, ListType, NestedField, StructType
from tests.strategies.examples import examples
from tests.strategies.metadata import BY_BUCKET, BY_DATA, LOCATION, START_MS, UUID, appended, table
from tests.strategies.schemas import schemas

NOW = START_MS + 10**6


def field(field_id, name, type=LONG):
    return NestedField(field_id=field_id, name=name, type=type, required=False)


NESTED = Schema(
    schema_id=9,
    struct=StructType(
        (
            field(70, "place", StructType((field(80, "x"), field(60, "y")))),
            field(50, "tags", ListType(element_id=51, element=STRING, element_required=False)),
            field(30, "at", TIMESTAMP),
        )
    ),
)


def test_columns_and_partition_fields_get_fresh_ids_and_keep_their_meaning():
    spec = PartitionSpec(
        spec_id=4,
        fields=(
            PartitionField(source_ids=(60,), field_id=7, name="y", transform="identity"),
            PartitionField(source_ids=(30,), field_id=3, name="at_day", transform="day"),
        ),
    )
    order = SortOrder(order_id=8, fields=(SortField(source_ids=(80,), transform="bucket[4]", direction="desc"),))
    metadata = table(spec, order, schema=NESTED)
    assert metadata.last_column_id == 6
    names = {name: field_id for field_id, name in metadata.current_schema.names_by_id.items()}
    assert names == {"place": 1, "tags": 2, "at": 3, "place.x": 4, "place.y": 5, "tags.element": 6}
    assert [(part.source_id, part.field_id) for part in metadata.default_spec.fields] == [(5, 1000), (3, 1001)]
    assert (metadata.default_spec_id, metadata.last_partition_id) == (0, 1001)
    assert metadata.default_order == SortOrder(
        order_id=1, fields=(SortField(source_ids=(4,), transform="bucket[4]", direction="desc"),)
    )
    assert metadata.current_schema_id == 0


@given(schemas())
@examples(30, suppress_health_check=[HealthCheck.too_slow])
def test_a_table_of_any_schema_reads_back(schema):
    metadata = table(schema=schema, format_version=3)
    assert metadata_from_json(metadata_to_json(metadata)) == metadata
    assert sorted(metadata.current_schema.fields_by_id) == list(range(1, metadata.last_column_id + 1))


def test_an_unpartitioned_unsorted_table_is_minimal():
    metadata = table(format_version=3, properties={"a": "b"})
    assert metadata.default_spec.fields == ()
    assert (metadata.last_partition_id, metadata.default_sort_order_id) == (999, 0)
    assert (metadata.next_row_id, metadata.last_sequence_number) == (0, 0)
    assert metadata.properties == {"write.parquet.compression-codec": "zstd", "a": "b"}
    assert metadata.last_updated_ms == START_MS


def test_what_the_creator_says_of_compression_wins():
    codec = {"write.parquet.compression-codec": "snappy"}
    assert table(properties=codec).properties == codec


@pytest.mark.parametrize(
    ("settings_", "error", "complaint"),
    [
        ({"format_version": 4}, Unsupported, "v4"),
        ({"format_version": 0}, Unsupported, "v0"),
        ({"table_uuid": ""}, InvalidMetadata, "table-uuid"),
        ({"table_uuid": "table-1"}, InvalidMetadata, "must be a UUID"),
        ({"location": "/"}, None, ""),
        ({"location": ""}, InvalidMetadata, "location"),
        ({"properties": {"format-version": "1"}}, InvalidMetadata, "should not contain reserved properties"),
        ({"properties": {"encryption.key-id": "k"}}, Unsupported, "encryption is not implemented"),
        ({"properties": {"commit.retry.num-retries": "x"}}, InvalidMetadata, "commit.retry.num-retries"),
        ({"properties": {"commit.retry.num-retries": "-1"}}, InvalidMetadata, "commit.retry.num-retries"),
        ({"properties": {"write.metadata.metrics.column.data": "full"}}, None, ""),
        ({"properties": {"write.metadata.metrics.column.nope": "full"}}, InvalidMetadata, "column.nope"),
        ({"properties": {"write.metadata.metrics.default": "some"}}, InvalidMetadata, "metrics.default"),
        ({"properties": {"write.metadata.metrics.column.data": "truncate(0)"}}, InvalidMetadata, "column.data"),
        ({"spec": PartitionSpec(spec_id=0, fields=(BY_BUCKET.fields[0],) * 2)}, InvalidMetadata, "id_bucket"),
        ({"order": SortOrder(order_id=1, fields=(SortField(source_ids=(9,), transform="identity"),))},
         InvalidMetadata, "cannot find source column 9"),
        ({"schema": Schema(schema_id=0, struct=StructType((field(1, "t", TIMESTAMP_NS),)))}, InvalidSchema, "3"),
        ({"schema": Schema(schema_id=0, struct=StructType((field(1, "a"), field(1, "b"))))}, InvalidSchema, "id 1"),
        ({"schema": Schema(schema_id=0, struct=StructType((field(1, "a"), field(2, "a"))))}, InvalidSchema, "a"),
    ],
)  # fmt: skip
def test_a_table_that_could_not_be_kept_up_is_not_made(settings_, error, complaint):
    if error is None:
        assert table(**settings_).table_uuid == UUID
        return
    with pytest.raises(error) as caught:
        table(**settings_)
    assert complaint in str(caught.value)


def test_locations_have_no_trailing_slash():
    assert table(location="s3://b/t//").location == "s3://b/t"


def test_a_replaced_table_is_empty_and_keeps_its_history():
    base = appended(table(BY_BUCKET, BY_DATA, properties={"kept": "1"}), 1, 2)
    schema = Schema(schema_id=0, struct=StructType((field(1, "data", STRING), field(2, "new"), field(3, "id"))))
    spec = PartitionSpec(
        spec_id=0,
        fields=(
            PartitionField(source_ids=(2,), field_id=1000, name="new", transform="identity"),
            PartitionField(source_ids=(3,), field_id=1001, name="b", transform="bucket[16]"),
        ),
    )
    metadata = replace_table(base, schema, spec, location="s3://b/other", properties={"a": "b"}, now_ms=NOW)
    assert metadata.current_snapshot is None
    assert metadata.snapshots == base.snapshots
    assert metadata.snapshot_log == base.snapshot_log
    assert metadata.current_schema.names_by_id == {2: "data", 3: "new", 1: "id"}
    assert metadata.last_column_id == 3
    assert [(part.source_id, part.field_id) for part in metadata.default_spec.fields] == [(3, 1001), (1, 1000)]
    assert metadata.last_partition_id == 1001
    assert metadata.default_order.fields == ()
    assert metadata.location == "s3://b/other"
    assert metadata.properties == {"write.parquet.compression-codec": "zstd", "kept": "1", "a": "b"}
    assert metadata.table_uuid == base.table_uuid
    assert metadata_from_json(metadata_to_json(metadata)) == metadata
    after = appended(metadata, 3)
    assert after.current_snapshot_id == 3
    assert after.last_sequence_number == 3
    assert after.snapshots[-1].parent_snapshot_id is None


def test_replacing_with_the_same_reuses_schema_spec_and_order():
    base = appended(table(BY_BUCKET, BY_DATA), 1)
    metadata = replace_table(base, base.current_schema, base.default_spec, base.default_order, now_ms=NOW)
    assert metadata.schemas == base.schemas
    assert metadata.partition_specs == base.partition_specs
    assert metadata.sort_orders == base.sort_orders


def test_a_replacement_may_upgrade_and_v1_keeps_its_partition_positions():
    base = table(BY_BUCKET, format_version=1)
    unpartitioned = replace_table(base, base.current_schema, now_ms=NOW)
    assert [(part.field_id, part.transform) for part in unpartitioned.default_spec.fields] == [(1000, "void")]
    assert replace_table(base, base.current_schema, format_version=3, now_ms=NOW).next_row_id == 0
    with pytest.raises(InvalidInput, match="reserved"):
        replace_table(base, base.current_schema, properties={"uuid": "x"}, now_ms=NOW)


def test_ids_in_the_creators_schema_do_not_matter():
    one = new_table_metadata(NESTED, location=LOCATION, table_uuid=UUID, now_ms=START_MS)
    other = new_table_metadata(one.current_schema, location=LOCATION, table_uuid=UUID, now_ms=START_MS)
    assert one == other
