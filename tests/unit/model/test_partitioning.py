from __future__ import annotations

import json
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.partitioning import (
    PARTITION_FIELD_ID_START,
    SOURCE_IDS_MAX,
    SPEC_FIELDS_MAX,
    UNPARTITIONED,
    PartitionField,
    PartitionSpec,
    check_spec,
    check_writable,
    partition_from_json,
    partition_of,
    partition_to_json,
    partition_type,
    same_partitioning,
    spec_fields_to_json,
    spec_from_json,
    spec_to_json,
)
from firn.model.schema import Schema
from firn.model.transforms import Bucket, UnknownTransform
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    ListType,
    NestedField,
    StructType,
)
from tests.strategies.examples import examples


def column(field_id, name, type):
    return NestedField(field_id=field_id, name=name, type=type, required=False)


def field(field_id, name, transform, *source_ids):
    return PartitionField(field_id=field_id, name=name, transform=transform, source_ids=source_ids)


def spec_of(*fields, spec_id=0):
    return PartitionSpec(spec_id=spec_id, fields=fields)


SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            column(1, "id", LONG),
            column(2, "ts", TIMESTAMPTZ),
            column(3, "category", STRING),
            column(4, "place", StructType((column(5, "city", STRING), column(6, "height", DOUBLE)))),
            column(7, "tags", ListType(element_id=8, element=STRING, element_required=False)),
            column(9, "price", DecimalType(9, 2)),
            column(10, "key", UUID),
            column(11, "raw", BINARY),
        )
    ),
)

IDS = st.integers(-(2**31), 2**31 - 1)
FIELDS = st.builds(
    PartitionField,
    source_ids=st.lists(IDS, min_size=1, max_size=3).map(tuple),
    field_id=IDS,
    name=st.text(max_size=10),
    transform=st.sampled_from(["identity", "bucket[16]", "TRUNCATE[4]", "day", "void", "zorder"]),
    extra=st.dictionaries(st.sampled_from(["x", "y"]), st.integers() | st.none(), max_size=2),
)
SPECS = st.builds(
    PartitionSpec,
    spec_id=IDS,
    fields=st.lists(FIELDS, max_size=4).map(tuple),
    extra=st.dictionaries(st.just("comment"), st.text(max_size=5), max_size=1),
)


# ---------------------------------------------------------------------------------------------------------------------
# JSON


@given(SPECS)
@examples(50)
def test_a_spec_survives_json_with_members_that_are_not_known(spec):
    read = spec_from_json(json.loads(json.dumps(spec_to_json(spec))))
    assert read == spec
    assert hash(read) == hash(spec)


def test_one_source_is_written_as_source_id_and_several_as_source_ids():
    spec = spec_of(field(1000, "a", "identity", 1), field(1001, "b", "zorder", 1, 2))
    assert spec_to_json(spec) == {
        "spec-id": 0,
        "fields": [
            {"name": "a", "transform": "identity", "source-id": 1, "field-id": 1000},
            {"name": "b", "transform": "zorder", "source-ids": [1, 2], "field-id": 1001},
        ],
    }


def test_the_field_list_of_v1_is_read_as_spec_0_with_ids_by_position():
    listed = [{"name": "a", "transform": "day", "source-id": 2}, {"name": "b", "transform": "identity", "source-id": 1}]
    spec = spec_from_json(listed)
    assert spec == spec_of(field(1000, "a", "day", 2), field(1001, "b", "identity", 1))
    assert [f["field-id"] for f in spec_fields_to_json(spec)] == [1000, 1001]
    assert spec_from_json(listed, spec_id=7).spec_id == 7
    assert spec_from_json({"fields": []}, spec_id=7).spec_id == 7


def test_a_single_source_id_may_come_as_a_list_and_beside_drafts_minus_one():
    both = {"name": "a", "transform": "t", "source-id": -1, "source-ids": [3, 4], "field-id": 1000}
    assert spec_from_json([both]).fields[0].source_ids == (3, 4)
    assert spec_from_json([{**both, "source-id": 3, "source-ids": [3]}]).fields[0].source_ids == (3,)


GOOD = {"name": "a", "transform": "day", "source-id": 2, "field-id": 1000}


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        (3, "partition-spec"),
        (None, "partition-spec"),
        ({"fields": []}, "partition-spec.spec-id"),
        ({"spec-id": "0", "fields": []}, "partition-spec.spec-id"),
        ({"spec-id": True, "fields": []}, "partition-spec.spec-id"),
        ({"spec-id": 2**31, "fields": []}, "partition-spec.spec-id"),
        ({"spec-id": 0}, "partition-spec.fields"),
        ({"spec-id": 0, "fields": {}}, "partition-spec.fields"),
        ([3], "partition-spec.fields[0]"),
        ([GOOD, {**GOOD, "field-id": "1"}], "partition-spec.fields[1].field-id"),
        ([{**GOOD, "name": None}], "partition-spec.fields[0].name"),
        ([{**GOOD, "transform": 3}], "partition-spec.fields[0].transform"),
        ([{**GOOD, "transform": "bucket[0]"}], "partition-spec.fields[0].transform"),
        ([{**GOOD, "source-id": None}], "partition-spec.fields[0].source-id"),
        ([{**GOOD, "source-ids": []}], "partition-spec.fields[0].source-ids"),
        ([{**GOOD, "source-ids": ["1"]}], "partition-spec.fields[0].source-ids[0]"),
        ([{**GOOD, "source-ids": [2, None]}], "partition-spec.fields[0].source-ids[1]"),
        ([{**GOOD, "source-ids": [2, 2**31]}], "partition-spec.fields[0].source-ids"),
        ([{**GOOD, "source-ids": [3]}], "partition-spec.fields[0].source-ids"),
        ([{**GOOD, "source-ids": [2] * (SOURCE_IDS_MAX + 1)}], "partition-spec.fields[0].source-ids"),
        ([GOOD, {"name": "b", "transform": "day", "source-id": 2}], "partition-spec.fields"),
        ([GOOD] * (SPEC_FIELDS_MAX + 1), "partition-spec.fields"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_wrong_member_is_named_by_its_path(obj, where):
    with pytest.raises(InvalidMetadata) as refused:
        spec_from_json(obj)
    assert refused.value.where == where


# ---------------------------------------------------------------------------------------------------------------------
# What a spec says


def test_a_spec_of_void_fields_only_is_unpartitioned():
    assert not UNPARTITIONED.is_partitioned
    assert not spec_of(field(1000, "a", "void", 1)).is_partitioned
    assert spec_of(field(1000, "a", "void", 1), field(1001, "b", "other", 1)).is_partitioned


def test_ids_of_a_spec():
    assert UNPARTITIONED.last_field_id == PARTITION_FIELD_ID_START - 1
    assert UNPARTITIONED.has_sequential_ids
    assert spec_of(field(1005, "a", "day", 2), field(1001, "b", "day", 2)).last_field_id == 1005
    assert not spec_of(field(1001, "a", "day", 2)).has_sequential_ids
    assert spec_of(field(1000, "a", "day", 2), field(1001, "b", "day", 2)).has_sequential_ids


def test_a_transform_of_several_columns_is_unknown_even_when_it_looks_known():
    assert field(1000, "a", "bucket[4]", 1).parsed_transform == Bucket(4)
    assert field(1000, "a", "bucket[4]", 1, 2).parsed_transform == UnknownTransform("bucket[4]")
    assert spec_of(field(1000, "a", "bucket[4]", 1, 2)).has_unknown_transform
    assert not spec_of(field(1000, "a", "bucket[4]", 1)).has_unknown_transform


def test_specs_are_equivalent_by_source_transform_and_name_only():
    spec = spec_of(field(1000, "a", "bucket[16]", 1))
    assert same_partitioning(spec, spec_of(field(1007, "a", "Bucket[016]", 1), spec_id=9))
    assert not same_partitioning(spec, spec_of(field(1000, "b", "bucket[16]", 1)))
    assert not same_partitioning(spec, spec_of(field(1000, "a", "bucket[17]", 1)))
    assert not same_partitioning(spec, spec_of(field(1000, "a", "bucket[16]", 3)))
    assert not same_partitioning(spec, UNPARTITIONED)


def test_the_partition_type_has_the_partition_fields_ids_and_result_types():
    spec = spec_of(
        field(1000, "ts_day", "day", 2),
        field(1001, "id_bucket", "bucket[4]", 1),
        field(1002, "city", "identity", 5),
        field(1003, "price_trunc", "truncate[10]", 9),
        field(1004, "old", "void", 10),
        field(1005, "new", "spiral", 1),
    )
    assert partition_type(spec, SCHEMA) == StructType(
        (
            column(1000, "ts_day", DATE),
            column(1001, "id_bucket", INT),
            column(1002, "city", STRING),
            column(1003, "price_trunc", DecimalType(9, 2)),
            column(1004, "old", UUID),
            column(1005, "new", STRING),
        )
    )


def test_fields_of_a_dropped_column_keep_fixed_results_and_else_are_unknown_or_as_older_schemas_say():
    spec = spec_of(
        field(1000, "a", "identity", 99),
        field(1001, "b", "bucket[4]", 99),
        field(1002, "c", "day", 99),
        field(1003, "d", "void", 99),
    )
    assert [f.type for f in partition_type(spec, SCHEMA).fields] == [UNKNOWN, INT, DATE, UNKNOWN]
    newer, oldest = (
        Schema(schema_id=i, struct=StructType((column(99, "gone", type),))) for i, type in enumerate((LONG, INT))
    )
    assert [f.type for f in partition_type(spec, SCHEMA, older=(newer, oldest)).fields] == [LONG, INT, DATE, LONG]


def test_all_that_have_a_spec_and_a_schema_share_one_type():
    spec = spec_of(field(1000, "d", "day", 2))
    shared = partition_type(spec, SCHEMA)
    assert partition_type(spec_of(field(1000, "d", "day", 2)), SCHEMA, older=(SCHEMA,)) is shared
    assert partition_type(spec_of(field(1001, "d", "day", 2)), SCHEMA) != shared
    other = Schema(schema_id=1, struct=StructType((column(2, "d", LONG),)))
    assert partition_type(spec_of(field(1000, "d", "identity", 2)), other) == StructType((column(1000, "d", LONG),))


def test_a_rows_partition():
    spec = spec_of(field(1000, "d", "day", 2), field(1001, "c", "truncate[2]", 5), field(1002, "v", "void", 1))
    assert partition_of(spec, SCHEMA, {2: -1, 5: "Bern", 1: 7}) == (-1, "Be", None)
    assert partition_of(spec, SCHEMA, {}) == (None, None, None)
    with pytest.raises(InvalidInput):
        partition_of(spec, SCHEMA, {2: "yesterday"})
    with pytest.raises(Unsupported):
        partition_of(spec_of(field(1000, "d", "spiral", 2)), SCHEMA, {2: 0})


# ---------------------------------------------------------------------------------------------------------------------
# Validation


def refusal(spec, *, format_version=2, new_table=False):
    with pytest.raises(InvalidMetadata) as refused:
        check_spec(spec, SCHEMA, format_version=format_version, new_table=new_table)
    return refused.value.where


def test_sources_may_be_any_primitive_column_nested_in_structs():
    fields = (
        field(1000, "city", "truncate[2]", 5),
        field(1001, "category", "identity", 3),
        field(1002, "ts_day", "day", 2),
        field(1003, "ts_hour", "hour", 2),
    )
    for version in (1, 2, 3):
        check_spec(spec_of(*fields), SCHEMA, format_version=version)


@pytest.mark.parametrize(
    "wrong",
    [
        field(1000, "a", "identity", 99),
        field(1000, "a", "identity", 4),
        field(1000, "a", "identity", 7),
        field(1000, "a", "identity", 8),
        field(1000, "a", "day", 1),
        field(1000, "a", "bucket[4]", 6),
        field(1000, "a", "spiral", 99),
    ],
    ids=str,
)
def test_a_source_that_is_gone_nested_in_a_list_or_of_a_wrong_type_is_refused(wrong):
    assert refusal(spec_of(wrong)) == "partition-spec.fields[0]"


def test_a_variant_is_no_source_not_even_of_an_unknown_transform():
    schema = Schema(schema_id=0, struct=StructType((column(1, "v", VARIANT),)))
    with pytest.raises(InvalidMetadata, match="not of a primitive type"):
        check_spec(spec_of(field(1000, "p", "spiral", 1)), schema, format_version=3)


def test_a_void_field_may_be_of_a_dropped_column():
    check_spec(spec_of(field(1000, "gone", "void", 99), field(1001, "place", "void", 4)), SCHEMA, format_version=1)


def test_names_are_unique_not_empty_and_not_those_of_other_columns():
    assert refusal(spec_of(field(1000, "", "day", 2))) == "partition-spec.fields[0].name"
    twice = spec_of(field(1000, "a", "day", 2), field(1001, "a", "identity", 1))
    assert refusal(twice) == "partition-spec.fields[1].name"
    assert refusal(spec_of(field(1000, "category", "day", 2))) == "partition-spec.fields[0].name"
    assert refusal(spec_of(field(1000, "place.city", "day", 2))) == "partition-spec.fields[0].name"
    check_spec(spec_of(field(1000, "category", "bucket[4]", 3)), SCHEMA, format_version=2)
    check_spec(spec_of(field(1000, "category", "void", 99)), SCHEMA, format_version=2)


def test_field_ids_are_unique_and_in_v1_sequential():
    assert refusal(spec_of(field(1000, "a", "day", 2), field(1000, "b", "identity", 1))).endswith("[1].field-id")
    gap = spec_of(field(1001, "a", "day", 2))
    check_spec(gap, SCHEMA, format_version=2)
    assert refusal(gap, format_version=1) == "partition-spec"


def test_several_source_columns_need_v3():
    spec = spec_of(field(1000, "a", "zorder", 1, 2))
    check_spec(spec, SCHEMA, format_version=3)
    assert refusal(spec, format_version=2) == "partition-spec.fields[0].source-ids"


def test_a_new_table_must_not_have_two_time_fields_or_identities_of_one_column():
    for pair in (("day", "hour"), ("identity", "identity"), ("year", "year")):
        spec = spec_of(field(1000, "a", pair[0], 2), field(1001, "b", pair[1], 2))
        check_spec(spec, SCHEMA, format_version=2)
        assert refusal(spec, new_table=True) == "partition-spec.fields[1]"
    for pair in (("day", "identity"), ("bucket[4]", "bucket[8]")):
        spec = spec_of(field(1000, "a", pair[0], 2), field(1001, "b", pair[1], 2))
        check_spec(spec, SCHEMA, format_version=2, new_table=True)


# ---------------------------------------------------------------------------------------------------------------------
# Partition tuples as JSON

TUPLE = partition_type(
    spec_of(
        field(1000, "day", "day", 2),
        field(1001, "category", "identity", 3),
        field(1002, "price", "identity", 9),
        field(1003, "key", "identity", 10),
        field(1004, "raw", "identity", 11),
    ),
    SCHEMA,
)
VALUES = (17501, "a", Decimal("1.50"), uuid.UUID(int=5), b"\x01\xff")
AS_JSON = ["2017-12-01", "a", "1.50", "00000000-0000-0000-0000-000000000005", "01ff"]


def test_a_partition_is_a_list_of_single_values():
    assert partition_to_json(TUPLE, VALUES) == AS_JSON
    assert partition_from_json(TUPLE, AS_JSON) == VALUES
    assert partition_from_json(TUPLE, [None] * 5) == (None,) * 5
    assert partition_from_json(StructType(()), []) == ()


def test_days_may_be_integers():
    assert partition_from_json(TUPLE, [17501, *AS_JSON[1:]]) == VALUES


def test_a_partition_may_be_an_object_by_name_or_by_id():
    names = [f.name for f in TUPLE.fields]
    by_id = {str(f.field_id): value for f, value in zip(TUPLE.fields, AS_JSON, strict=True)}
    assert partition_from_json(TUPLE, dict(zip(names, AS_JSON, strict=True))) == VALUES
    assert partition_from_json(TUPLE, dict(reversed(by_id.items()))) == VALUES


def test_a_name_goes_before_an_id_that_looks_the_same():
    type = StructType((column(1000, "1001", INT), column(1001, "b", INT)))
    assert partition_from_json(type, {"1001": 1, "b": 2}) == (1, 2)


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        ("x", "partition"),
        (None, "partition"),
        (AS_JSON[:-1], "partition"),
        ([*AS_JSON, 1], "partition"),
        (["2017-13-01", *AS_JSON[1:]], "partition[0]"),
        ([17501, 3, *AS_JSON[2:]], "partition[1]"),
        ({"day": 1}, "partition.category"),
        ({"moon": 1}, "partition"),
        ({"day": 1, "1000": 1}, "partition"),
    ],
)
def test_a_wrong_partition_is_refused_where_it_is_wrong(obj, where):
    with pytest.raises(InvalidInput) as refused:
        partition_from_json(TUPLE, obj)
    assert refused.value.where == where


def test_files_must_not_be_added_with_unknown_transforms_or_values_in_void_fields():
    spec = spec_of(field(1000, "a", "identity", 1), field(1001, "b", "void", 1))
    schema = Schema(schema_id=0, struct=StructType((column(1, "a", LONG),)))
    check_writable(spec, (1, None), schema=schema)
    with pytest.raises(InvalidInput) as refused:
        check_writable(spec, (1, 2), schema=schema)
    assert refused.value.where == "partition[1]"
    with pytest.raises(Unsupported):
        check_writable(spec_of(field(1000, "a", "spiral", 1)), (None,), schema=schema)


MILLENNIUM = DecimalType(7, 3)


@pytest.mark.parametrize(
    ("type", "transform", "possible", "impossible"),
    [
        (INT, "bucket[16]", (0, 15, None), (-1, 16, 2**31 - 1, 2**31)),
        (INT, "truncate[10]", (0, -10, 2147483640, 2147483646, None), (1, -11, 2147483647)),
        (LONG, "truncate[10]", (0, 2**63 - 8, 2**63 - 2), (1, 2**63 - 1, 2**63)),
        (STRING, "truncate[2]", ("", "ab", "äö", "\U0001f600b"), ("abc", "äöü", "\ud800")),
        (BINARY, "truncate[2]", (b"", b"ab"), (b"abc",)),
        (MILLENNIUM, "truncate[10]", (Decimal("1.230"),), (Decimal("1.234"), Decimal("10000.000"))),
        (DATE, "year", (-5879611, 5879610), (-5879612, 5879611)),
        (TIMESTAMPTZ, "year", (-292278, 292277), (-292279, 292278)),
        (TIMESTAMPTZ, "month", (-3507325, 3507324), (3507325,)),
        (TIMESTAMPTZ, "day", (-106751992, 106751991), (-106751993, 106751992)),
        (TIMESTAMPTZ, "hour", (-(2**31), 2**31 - 1), (2**31,)),
        (TIMESTAMP_NS, "hour", (-2562048, 2562047), (-2562049, 2562048)),
        (INT, "identity", (-(2**31), 2**31 - 1), (2**31, -(2**31) - 1, True, 1.0)),
        (TIME, "identity", (0, 86_399_999_999), (-1, 86_400_000_000)),
        (FixedType(2), "identity", (b"ab",), (b"a", b"abc")),
        (MILLENNIUM, "identity", (Decimal("9999.999"),), (Decimal("10000.000"), Decimal("0.0001"))),
        (DOUBLE, "identity", (float("nan"), float("inf"), -0.0), ("1",)),
        (UUID, "identity", (uuid.UUID(int=1),), (b"1" * 16, "1")),
    ],
)
def test_a_partition_value_is_one_that_some_row_can_have(type, transform, possible, impossible):
    spec, schema = (
        spec_of(field(1000, "p", transform, 1)),
        Schema(schema_id=0, struct=StructType((column(1, "a", type),))),
    )
    for value in possible:
        check_writable(spec, (value,), schema=schema)
    for value in impossible:
        with pytest.raises(InvalidInput) as refused:
            check_writable(spec, (value,), schema=schema)
        assert str(refused.value).startswith("partition[0]: ")


@examples(300)
@given(value=st.integers(-(2**63), 2**63 - 1), width=st.integers(1, 2**31 - 1))
def test_every_transformed_value_may_be_a_partition_value(value, width):
    schema = Schema(schema_id=0, struct=StructType((column(1, "a", LONG), column(2, "t", TIMESTAMPTZ))))
    names = [(f"truncate[{width}]", 1), (f"bucket[{width}]", 1), ("day", 2), ("month", 2), ("year", 2)]
    spec = spec_of(*(field(1000 + i, f"p{i}", name, source) for i, (name, source) in enumerate(names)))
    check_writable(spec, partition_of(spec, schema, {1: value, 2: value}), schema=schema)


def test_booleans_are_no_integers_in_partitions():
    with pytest.raises(InvalidInput):
        partition_from_json(StructType((column(1000, "n", INT),)), [True])
    assert partition_from_json(StructType((column(1000, "b", BOOLEAN),)), [True]) == (True,)
