"""Any value of any type falls into the partition that Iceberg's Java library puts it into, under the same path."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.partition_path import LEVEL_BYTES_MAX, partition_path
from firn.model.partitioning import PartitionField, PartitionSpec, partition_of
from firn.model.schema import Schema
from firn.model.transforms import parse_transform
from firn.model.types import DOUBLE, FLOAT, StructType
from tests.interop.java_library import JavaLibrary
from tests.strategies.examples import examples
from tests.strategies.manifests import SCHEMA as ALL_TYPES
from tests.strategies.schemas import values

HOUR_MICROS: Final = 3600 * 10**6
SCHEMA: Final = Schema(
    schema_id=0,
    # Floats are partitioned by their identity only, which Java before 19 does not spell with the fewest digits.
    struct=StructType(tuple(field for field in ALL_TYPES.fields if field.type not in (FLOAT, DOUBLE))),
)
TRANSFORMS: Final = (
    "identity", "bucket[1]", "bucket[16]", "bucket[1000]", "bucket[2147483647]", "truncate[1]", "truncate[7]",
    "truncate[10]", "truncate[1000000]", "year", "month", "day", "hour", "void",
)  # fmt: skip
MICROS: Final = (
    -1, -HOUR_MICROS, -HOUR_MICROS - 1, -24 * HOUR_MICROS, -24 * HOUR_MICROS - 1, -62_135_596_800_000_000,
    -62_167_219_200_000_001, 253_402_300_799_999_999, 253_402_300_800_000_000,
)  # fmt: skip
NANOS: Final = (-1, -(10**9), -3600 * 10**9 - 1, -(2**63), 2**63 - 1)
EDGES: Final[dict[str, tuple[Any, ...]]] = {
    "int": (-(2**31), -(2**31) + 9, 2**31 - 1, -1),
    "long": (-(2**63), -(2**63) + 3, 2**63 - 1, -1),
    "date": (-1, -365, -366, -719_162, -719_163, -719_529, 2_932_896, 2_932_897),
    "timestamp": MICROS, "timestamptz": MICROS, "timestamp_ns": NANOS, "timestamptz_ns": NANOS,
    "string": ("", "\U0010ffff" * 8, "\ud7ff\ue000abc", "a\u0300bcdef", "/=%& +~*", "\x00"),
}  # fmt: skip
HOURS_MAX: Final = 2**31 * HOUR_MICROS - 1
"""Later and, below zero, earlier moments have hours that no int holds: Java cuts them off, firn refuses them."""


def column_values(field: Any) -> st.SearchStrategy[Any]:
    found = values(field.type)
    if str(field.type) in ("timestamp", "timestamptz"):
        found = st.integers(-HOURS_MAX, HOURS_MAX)
    edges = EDGES.get(str(field.type))
    return st.none() | found | st.sampled_from(edges) if edges else st.none() | found


def spec_of(spec_id: int, *transforms: str) -> PartitionSpec:
    pairs = [(f, t) for f in SCHEMA.fields for t in transforms if parse_transform(t).can_transform(f.type)]
    return PartitionSpec(
        spec_id=spec_id,
        fields=tuple(
            PartitionField(source_ids=(f.field_id,), field_id=1000 + i, name=f"{f.type} {t}", transform=t)
            for i, (f, t) in enumerate(pairs)
        ),
    )


IDENTITY: Final = spec_of(0, "identity")
SPEC: Final = spec_of(1, *TRANSFORMS)


@pytest.fixture(scope="module")
def specs(java: JavaLibrary) -> tuple[Any, Any]:
    return java.spec(IDENTITY, SCHEMA), java.spec(SPEC, SCHEMA)


@examples(150)
@given(row=st.tuples(*map(column_values, SCHEMA.fields)))
def test_a_row_is_in_the_partition_that_java_puts_it_into(
    java: JavaLibrary, specs: tuple[Any, Any], row: tuple[Any, ...]
) -> None:
    partition = partition_of(SPEC, SCHEMA, {f.field_id: value for f, value in zip(SCHEMA.fields, row, strict=True)})
    path = java.partition_path(row, SCHEMA, *specs)
    for level, reference in zip(partition_path(SPEC, SCHEMA, partition).split("/"), path.split("/"), strict=True):
        assert level == reference or (cannot_be_a_folder(reference) and level.endswith(hash_of(reference)))


def cannot_be_a_folder(level: str) -> bool:
    """Whether it is too long, or leads to another folder where a reader decodes it, which Java does not look at."""
    decoded = [level, unquote(level), unquote(unquote(level)), unquote(unquote(unquote(level)))]
    steps = {step for text in decoded for step in text.replace("\\", "/").split("/")}
    return len(level) > LEVEL_BYTES_MAX or not steps.isdisjoint({".", ".."}) or any("\0" in text for text in decoded)


def hash_of(level: str) -> str:
    return sha256(level.encode()).hexdigest()[:16]
