"""Snapshots and references expire as in Iceberg's own library."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from firn.model.errors import FirnError
from firn.model.metadata_changes import set_statistics
from firn.model.metadata_check import check_metadata
from firn.model.metadata_layout import remove_schemas, remove_specs
from firn.model.partitioning import PartitionSpec
from firn.model.retention import Criteria, apply_expiry, plan_expiry, unused_schema_ids, unused_spec_ids
from tests.conformance.histories import built
from tests.strategies.metadata import START_MS

CASES = json.loads((Path(__file__).parent / "data" / "expire_snapshots.json").read_text(encoding="utf-8"))


def at(seconds):
    return START_MS + int(seconds * 1000)


def expired(case):
    metadata = built(case["steps"], properties=case.get("properties"))
    for snapshot_id in case.get("statistics", ()):
        file = {"snapshot-id": snapshot_id, "statistics-path": "s3://b/s", "file-size-in-bytes": 1}
        puffin = {**file, "file-footer-size-in-bytes": 1, "blob-metadata": []}
        metadata = set_statistics(metadata, puffin, now_ms=START_MS)
        metadata = set_statistics(metadata, file, partition=True, now_ms=START_MS)
    call = case["call"]
    criteria = Criteria(
        older_than_ms=at(call["older-than"]) if "older-than" in call else None,
        retain_last=call.get("retain-last"),
        snapshot_ids=tuple(call.get("ids", ())),
    )
    now_ms = at(call.get("now", 10))
    return apply_expiry(metadata, plan_expiry(metadata, criteria, now_ms=now_ms), now_ms=now_ms)


@pytest.mark.parametrize("case", [case for case in CASES["expiries"] if "kept" in case], ids=lambda case: case["name"])
def test_what_is_kept(case):
    metadata = expired(case)
    check_metadata(metadata)
    assert [snapshot.snapshot_id for snapshot in metadata.snapshots] == case["kept"]
    if "refs" in case:
        assert sorted(metadata.refs) == case["refs"]
    if "statistics" in case:
        for listed in (metadata.statistics, metadata.partition_statistics):
            assert [item["snapshot-id"] for item in listed] == case["kept"]


@pytest.mark.parametrize("case", [case for case in CASES["expiries"] if "error" in case], ids=lambda case: case["name"])
def test_what_may_not_be_asked_for(case):
    with pytest.raises(FirnError) as caught:
        expired(case)
    assert case["error"] in str(caught.value)


@pytest.mark.parametrize("case", CASES["cleanups"], ids=lambda case: case["name"])
def test_unused_schemas_and_specs_are_cleaned_up(case):
    metadata = built(case["snapshots"])
    schema = metadata.current_schema
    metadata = msgspec.structs.replace(
        metadata,
        schemas=tuple(msgspec.structs.replace(schema, schema_id=i) for i in range(case["schemas"])),
        current_schema_id=case["schemas"] - 1,
        partition_specs=tuple(PartitionSpec(spec_id=i) for i in range(case["specs"])),
        default_spec_id=case["default-spec"],
    )
    unused_specs = unused_spec_ids(metadata, manifest_spec_ids=case["manifest-specs"])
    metadata = remove_specs(metadata, unused_specs, now_ms=START_MS)
    metadata = remove_schemas(metadata, unused_schema_ids(metadata), now_ms=START_MS)
    assert [schema.schema_id for schema in metadata.schemas] == case["schemas-kept"]
    assert [spec.spec_id for spec in metadata.partition_specs] == case["specs-kept"]
    check_metadata(metadata)
