"""Which manifests are worth rewriting."""

from __future__ import annotations

from typing import Any

from firn.model.manifest import FieldSummary, ManifestFile
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import LONG, NestedField, StructType
from firn.model.values import to_bytes
from firn.pipeline.manifest_rewrite import manifests_to_rewrite

SPEC = PartitionSpec(
    spec_id=0, fields=(PartitionField(source_ids=(1,), field_id=1000, transform="identity", name="id"),)
)
METADATA = new_table_metadata(
    Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="id", type=LONG, required=False),))),
    SPEC,
    location="memory://wh/t",
    table_uuid="0b9e5cf2-6a55-4a44-8a0c-6f1ad0a4c1a5",
    now_ms=1,
    properties={"commit.manifest.target-size-bytes": "1000"},
)


def manifest(number: int, *, length: int = 900, low: int | None = None, high: int = 0, **changes):
    summary: tuple[FieldSummary, ...] = ()
    if low is not None:
        low_high = (to_bytes(LONG, low), to_bytes(LONG, high))
        summary = (FieldSummary(contains_null=False, lower_bound=low_high[0], upper_bound=low_high[1]),)
    members: dict[str, Any] = {"added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0}
    members |= {"partitions": summary}
    members |= {"manifest_path": f"m{number}", "manifest_length": length, "partition_spec_id": 0}
    return ManifestFile(added_snapshot_id=1, **members | changes)


def chosen(*manifests, **options):
    found = manifests_to_rewrite(manifests, METADATA, **options)
    return {group: sorted(one.manifest_path for one in listed) for group, listed in found.items()}


def test_small_manifests_are_put_together_and_one_alone_is_left():
    assert chosen(manifest(1, length=100), manifest(2)) == {}
    assert chosen(manifest(1, length=100), manifest(2, length=499), manifest(3, length=500)) == {
        ("data", 0): ["m1", "m2"]
    }


def test_manifests_of_overlapping_partitions_are_rewritten_and_neighbours_are_left():
    neighbours = [manifest(1, low=1, high=255), manifest(2, low=255, high=256), manifest(3, low=257, high=1000)]
    assert chosen(*neighbours) == {}
    assert chosen(*neighbours, manifest(4, low=3, high=3)) == {("data", 0): ["m1", "m4"]}
    assert chosen(*neighbours, manifest(4, low=-5, high=2000)) == {("data", 0): ["m1", "m2", "m3", "m4"]}


def test_contents_and_specs_are_apart():
    deletes = manifest(2, length=100, content="deletes")
    other = manifest(3, length=100, partition_spec_id=1)
    assert chosen(manifest(1, length=100), deletes, other) == {}
    assert set(chosen(manifest(1, length=100), deletes, other, rewrite_all=True)) == {
        ("data", 0), ("deletes", 0), ("data", 1),
    }  # fmt: skip
