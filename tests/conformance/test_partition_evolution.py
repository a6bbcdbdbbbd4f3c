"""Partition evolution against what Iceberg's Java library makes of the same updates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from firn.model.errors import InvalidInput
from firn.model.partition_update import add_spec, changes_from_json, evolve_spec, reassign_field_ids
from firn.model.partitioning import PartitionField, PartitionSpec, check_spec
from firn.model.schema import Schema
from firn.model.types import NestedField, PrimitiveType, StructType

DATA = json.loads((Path(__file__).parent / "data" / "partition_evolution.json").read_text(encoding="utf-8"))


def schema_of(name: str) -> Schema:
    columns = DATA["schemas"][name].items()
    return Schema(
        schema_id=0,
        struct=StructType(
            tuple(
                NestedField(field_id=i, name=column, type=PrimitiveType(type), required=False)
                for i, (column, type) in enumerate(columns, start=1)
            )
        ),
    )


def fields_of(lines: list[str]) -> tuple[PartitionField, ...]:
    fields = []
    for line in lines:
        found = re.fullmatch(r"(\d+) (\S+) (.+)\((\d+)\)", line)
        assert found is not None, line
        fields.append(
            PartitionField(field_id=int(found[1]), name=found[2], transform=found[3], source_ids=(int(found[4]),))
        )
    return tuple(fields)


def updated(case, format_version: int) -> tuple[PartitionSpec, int]:
    """The spec after all steps of a case, and the table's last partition id."""
    schema = schema_of(case["schema"])
    spec = PartitionSpec(spec_id=0, fields=fields_of(case["start"]))
    specs, last_id = [spec], spec.last_field_id
    if "set" in case:
        check_spec(PartitionSpec(spec_id=1, fields=fields_of(case["set"])), schema, format_version=format_version)
    if "replace" in case:
        spec = reassign_field_ids(
            PartitionSpec(spec_id=0, fields=fields_of(case["replace"])),
            current=spec,
            specs=specs,
            format_version=format_version,
            last_partition_id=last_id,
        )
        return add_spec(spec, specs), last_id
    for step in case["steps"]:
        spec = evolve_spec(
            spec,
            schema,
            changes_from_json(step),
            format_version=format_version,
            specs=specs,
            last_partition_id=last_id,
        )
        last_id = max(last_id, spec.last_field_id)
        if spec not in specs:
            specs.append(spec)
    return spec, last_id


RUNS = [(case, version) for case in DATA["cases"] for version in case.get("versions", [1, 2, 3])]


@pytest.mark.parametrize(
    ("case", "format_version"), RUNS, ids=lambda part: part["id"] if isinstance(part, dict) else None
)
def test_a_spec_evolves_as_in_java(case, format_version):
    if "refused_at" in case:
        with pytest.raises(InvalidInput) as refused:
            updated(case, format_version)
        assert refused.value.where == case["refused_at"]
        return
    spec, last_id = updated(case, format_version)
    assert spec.fields == fields_of(case["expected_v1" if format_version == 1 else "expected_v2"])
    assert spec.spec_id == case.get("expected_spec_id", spec.spec_id)
    assert last_id == case.get("expected_last_partition_id", last_id)
