"""Iceberg's own facts on skipping manifests by their partition summaries."""

import pytest

from firn.model.expressions.binding import bind
from firn.model.expressions.manifest_filter import manifest_may_match
from firn.model.expressions.projection import project_inclusive
from firn.model.manifest import FieldSummary, ManifestFile
from firn.model.partitioning import PartitionField, PartitionSpec
from tests.conformance.expression_cases import expression_of, load, schema_of

CASES = load("manifest_evaluator.json")


def manifest_of(summaries):
    return ManifestFile(
        manifest_path="file:///t/m.avro",
        manifest_length=1,
        partition_spec_id=0,
        added_snapshot_id=1,
        partitions=None if summaries is None else tuple(map(summary_of, summaries)),
    )


def summary_of(summary):
    bounds = {
        side: None if summary[f"{side}_hex"] is None else bytes.fromhex(summary[f"{side}_hex"])
        for side in ("lower_bound", "upper_bound")
    }
    return FieldSummary(contains_null=summary["contains_null"], contains_nan=summary["contains_nan"], **bounds)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["id"])
def test_a_manifest_is_skipped_exactly_where_iceberg_skips_it(case):
    schema = schema_of(CASES["schemas"][case["schema"]])
    spec = PartitionSpec(
        spec_id=0,
        fields=tuple(
            PartitionField(source_ids=(f.field_id,), field_id=1000 + i, name=f.name, transform="identity")
            for i, f in enumerate(schema.struct.fields)
        ),
    )
    bound = bind(expression_of(case["expr"]), schema, case_sensitive=case["case_sensitive"])
    manifest = manifest_of(CASES["files"][case["file"]])
    assert manifest_may_match(project_inclusive(bound, spec), manifest, spec) is case["expected"]
