"""Transforms against the results of Iceberg's own libraries."""

from __future__ import annotations

import json
import re
import uuid
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from firn.model.errors import InvalidInput
from firn.model.murmur import hash32
from firn.model.partition_path import partition_path
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.transforms import parse_transform
from firn.model.types import (
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    NestedField,
    PrimitiveType,
    StructType,
)

CASES = json.loads((Path(__file__).parent / "data" / "transforms.json").read_text(encoding="utf-8"))["cases"]


def type_of(text: str):
    if found := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", text):
        return DecimalType(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"fixed\[(\d+)\]", text):
        return FixedType(int(found[1]))
    return {"geometry": GeometryType(), "geography": GeographyType()}.get(text, PrimitiveType(text))


def value_of(type, value):
    if value is None:
        return None
    match type:
        case DecimalType():
            return Decimal(value)
        case PrimitiveType(name="float" | "double"):
            return float(value)
        case PrimitiveType(name="uuid"):
            return uuid.UUID(value)
        case PrimitiveType(name="binary") | FixedType():
            return bytes.fromhex(value)
    return value


def of_kind(kind: str):
    cases = [case for case in CASES if case["kind"] == kind]
    assert cases
    return pytest.mark.parametrize("case", cases, ids=lambda case: case["id"])


def test_every_case_is_of_a_kind_that_is_tested():
    kinds = {"hash32", "apply", "human_string", "invalid", "result_type", "satisfies_order_of", "partition_path"}
    assert {case["kind"] for case in CASES} == kinds


@of_kind("hash32")
def test_hashes_are_those_of_the_specification(case):
    type = type_of(case["type"])
    assert hash32(type, value_of(type, case["value"])) == case["expected"]


@of_kind("apply")
def test_values_are_transformed_as_by_the_other_libraries(case):
    type = type_of(case["type"])
    transform = parse_transform(case["transform"])
    expected = value_of(transform.result_type(type), case["expected"])
    assert transform.apply(type, value_of(type, case["value"])) == expected


@of_kind("human_string")
def test_transformed_values_read_as_in_the_other_libraries(case):
    transform = parse_transform(case["transform"])
    result_type = transform.result_type(type_of(case["type"]))
    assert transform.human(result_type, value_of(result_type, case["value"])) == case["expected"]


@of_kind("invalid")
def test_what_cannot_be_is_refused(case):
    text, _, type_text = case["input"].partition(" on ")
    if not type_text:
        with pytest.raises(InvalidInput):
            parse_transform(text)
        return
    transform = parse_transform(text)
    assert not transform.can_transform(type_of(type_text))
    with pytest.raises(InvalidInput):
        transform.apply(type_of(type_text), 0)


@of_kind("result_type")
def test_result_types_are_those_of_the_specification(case):
    assert str(parse_transform(case["transform"]).result_type(type_of(case["type"]))) == case["expected"]


@of_kind("satisfies_order_of")
def test_orders_satisfy_coarser_orders(case):
    transform, other = parse_transform(case["transform"]), parse_transform(case["other"])
    assert transform.satisfies_order_of(other) == case["expected"]


@of_kind("partition_path")
def test_partitions_have_the_paths_that_other_libraries_give_them(case):
    columns = (("id", LONG), ("ts", TIMESTAMP), ('"esc"#1', STRING))
    typed = (NestedField(field_id=i, name=name, type=t, required=False) for i, (name, t) in enumerate(columns, start=1))
    schema = Schema(schema_id=0, struct=StructType(tuple(typed)))
    if "hour" in case["spec"]:
        fields = (
            PartitionField(source_ids=(2,), field_id=1000, name="ts_hour", transform="hour"),
            PartitionField(source_ids=(1,), field_id=1001, name="id_bucket", transform="bucket[10]"),
        )
        bucket = parse_transform("bucket[10]").apply(LONG, 1)
        hour = parse_transform("hour").apply(TIMESTAMP, 1512123175038194)
        expected = case["expected"].replace("<bucket10(1)>", str(bucket))
        assert partition_path(PartitionSpec(spec_id=0, fields=fields), schema, (hour, bucket)) == expected
    else:
        named = (PartitionField(source_ids=(3,), field_id=1000, name='"esc"#1', transform="identity"),)
        path = partition_path(PartitionSpec(spec_id=0, fields=named), schema, case["values"])
        assert path == case["expected"] == f"{quote_plus(named[0].name)}={quote_plus(case['values'][0])}"
