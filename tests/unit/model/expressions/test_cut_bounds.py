"""Upper bounds that other writers have cut and not rounded up, and bounds that cannot be decoded."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.datafile import DataFile
from firn.model.expressions.binding import bind
from firn.model.expressions.expression_json import expression_from_json
from firn.model.expressions.manifest_filter import manifest_may_match
from firn.model.expressions.metrics_inclusive import file_may_match
from firn.model.expressions.metrics_strict import file_must_match
from firn.model.expressions.projection import project_inclusive
from firn.model.manifest import FieldSummary, ManifestFile
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import BINARY, LONG, STRING, NestedField, StructType, Type

SPEC = PartitionSpec(
    spec_id=0, fields=(PartitionField(source_ids=(1,), field_id=1000, name="p", transform="identity"),)
)


def asked(type: Type, op: str, value: Any) -> Any:
    schema = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="c", type=type, required=False),)))
    return bind(expression_from_json({"type": op, "term": "c", "value": value}), schema)


def manifest_may(type: Type, op: str, value: Any, *, lower: bytes, upper: bytes) -> bool:
    manifest = ManifestFile(
        manifest_path="m", manifest_length=1, partition_spec_id=0, added_snapshot_id=1,
        partitions=(FieldSummary(contains_null=False, lower_bound=lower, upper_bound=upper),),
    )  # fmt: skip
    return manifest_may_match(project_inclusive(asked(type, op, value), SPEC), manifest, SPEC)


def described(*, lower: bytes, upper: bytes) -> DataFile:
    return DataFile(
        file_path="f", file_format="parquet", spec_id=0, record_count=10, file_size_in_bytes=1, value_counts={1: 10},
        null_value_counts={1: 0}, lower_bounds={1: lower}, upper_bounds={1: upper},
    )  # fmt: skip


SIXTEEN = "0123456789abcdef"

CUT = [
    (STRING, SIXTEEN, "eq", SIXTEEN + "g", True),
    (STRING, SIXTEEN, "eq", SIXTEEN + "\U0010ffff" * 4, True),
    (STRING, SIXTEEN, "gt", SIXTEEN, True),
    (STRING, SIXTEEN, "gt-eq", SIXTEEN + "x", True),
    (STRING, SIXTEEN, "starts-with", SIXTEEN + "x", True),
    (STRING, SIXTEEN, "not-eq", SIXTEEN, True),
    (STRING, SIXTEEN, "eq", "0123456789abcdf", False),
    (STRING, SIXTEEN, "gt", "0123456789abcdeh", False),
    (STRING, "\U0010ffff" * 16, "gt", "\U0010ffff" * 17, True),
    (BINARY, "30" * 16, "eq", "30" * 16 + "00", True),
    (BINARY, "ff" * 16, "eq", "ff" * 20, True),
    (BINARY, "30" * 16, "eq", "31" * 16, False),
    (STRING, "short", "eq", "short one", False),  # nobody cuts to so few
    (STRING, "short", "not-eq", "short", False),
]


@pytest.mark.parametrize(("type", "upper", "op", "value", "may"), CUT)
def test_what_a_long_upper_bound_is_the_start_of_counts_as_within_it(
    type: Type, upper: str, op: str, value: str, may: bool
) -> None:
    stored = bytes.fromhex(upper) if type == BINARY else upper.encode()
    assert manifest_may(type, op, value, lower=stored, upper=stored) is may
    assert file_may_match(asked(type, op, value), described(lower=stored, upper=stored)) is may


def test_as_a_proof_a_long_bound_is_taken_as_it_is() -> None:
    """Or no file with one long value could be deleted by it."""
    stored = SIXTEEN.encode()
    assert file_must_match(asked(STRING, "eq", SIXTEEN), described(lower=stored, upper=stored))


@pytest.mark.parametrize(
    ("type", "value", "bad"),
    [
        (STRING, "x", b"\xff"),
        (STRING, "x", b"x" * 15 + b"\xe2"),
        (LONG, 5, b""),
        (LONG, 5, b"\x01"),
        (LONG, 5, b"\x01" * 9),
    ],
)
def test_an_undecodable_bound_is_unknown(type: Type, value: Any, bad: bytes) -> None:
    assert manifest_may(type, "eq", value, lower=bad, upper=bad)
    assert file_may_match(asked(type, "eq", value), described(lower=bad, upper=bad))
    assert not file_must_match(asked(type, "eq", value), described(lower=bad, upper=bad))
