"""May a manifest list matching files? The evaluator of partition summaries (table specification, "Manifest Lists").

Asked with the inclusive projection of a row filter (see `projection`) through the manifest's partition spec. No means
that the manifest need not be read.
"""

from __future__ import annotations

from firn.model.expressions.column_facts import ColumnFacts, decode_bound, decode_upper
from firn.model.expressions.metrics_inclusive import any_may_match
from firn.model.expressions.predicates import BoundReference, Expression
from firn.model.manifest import FieldSummary, ManifestFile
from firn.model.partitioning import PartitionSpec


def manifest_may_match(partition_filter: Expression, manifest: ManifestFile, spec: PartitionSpec) -> bool:
    """Whether some file of `manifest`, which `spec` partitioned, may match the bound `partition_filter`.

    Manifests without summaries, or with another number of them than `spec` has fields, may match whatever is asked.
    Raises InvalidInput for a filter that is not bound to the partition fields of `spec`.
    """
    summaries = manifest.partitions
    if summaries is None or len(summaries) != len(spec.fields):
        return any_may_match(partition_filter, lambda _: ColumnFacts())
    by_id = {field.field_id: summary for field, summary in zip(spec.fields, summaries, strict=True)}
    return any_may_match(partition_filter, lambda column: _facts(column, by_id.get(column.field_id)))


def _facts(column: BoundReference, summary: FieldSummary | None) -> ColumnFacts:
    if summary is None:
        return ColumnFacts()
    # Without bounds all values are null or NaN, says the specification; if it has neither, the summary says nothing.
    unbounded = summary.lower_bound is None and summary.upper_bound is None
    only_nulls_and_nans = unbounded and (summary.contains_null or summary.contains_nan is True)
    return ColumnFacts(
        may_be_null=summary.contains_null,
        may_be_nan=column.floating and summary.contains_nan is not False,
        may_be_value=not only_nulls_and_nans,
        lower=decode_bound(column.type, summary.lower_bound),
        upper=decode_upper(column.type, summary.upper_bound),
    )
