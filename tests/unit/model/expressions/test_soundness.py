"""What evaluators promise, for any rows and filters: no row is lost, no row is deleted that does not match."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.datafile import DataFile
from firn.model.expressions.binding import bind
from firn.model.expressions.constants import Constant
from firn.model.expressions.expression_json import expression_from_json, expression_to_json
from firn.model.expressions.manifest_filter import manifest_may_match
from firn.model.expressions.metrics_inclusive import file_may_match
from firn.model.expressions.metrics_strict import file_must_match
from firn.model.expressions.negation import rewrite_not, simplify
from firn.model.expressions.predicates import Expression, Not, predicate, ref, transformed
from firn.model.expressions.projection import partition_matches, project_inclusive, project_strict
from firn.model.expressions.residuals import Residuals
from firn.model.expressions.row_filter import matches
from firn.model.manifest import FieldSummary, ManifestFile
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.transforms import IDENTITY, VOID, TimeTransform, UnknownTransform, parse_transform
from firn.model.types import BINARY, DATE, DOUBLE, FLOAT, STRING
from firn.model.values import to_bytes
from tests.strategies.expressions import (
    AWKWARD,
    LEAVES,
    NAMES,
    SCHEMA,
    TRANSFORMS,
    TYPES,
    expressions,
    operations,
    predicates,
    rows,
    values,
)


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


@st.composite
def files(draw):
    """A data file with its rows, and metrics as some writer might have left them: exact, truncated or missing."""
    content = draw(st.lists(rows(), min_size=1, max_size=4))
    counts_parents = draw(st.booleans())
    metrics: dict[str, dict[int, Any]] = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower", "upper")
    }
    kept = draw(st.sets(st.sampled_from(sorted(LEAVES)), min_size=len(LEAVES) // 2))
    for i in sorted(kept):
        seen = [row[i] for row in content if counts_parents or i not in (61, 62) or row[60] is not None]
        bounded = [v for v in seen if v is not None and not is_nan(v)]
        metrics["value_counts"][i] = len(seen)
        metrics["null_value_counts"][i] = sum(v is None for v in seen)
        if LEAVES[i].type in (FLOAT, DOUBLE):
            metrics["nan_value_counts"][i] = sum(map(is_nan, seen))
        if bounded:
            metrics["lower"][i] = lower_bound(LEAVES[i].type, min(bounded))
            metrics["upper"][i] = to_bytes(LEAVES[i].type, max(bounded))
        elif seen and all(map(is_nan, seen)):  # as ORC leaves them
            metrics["lower"][i] = metrics["upper"][i] = to_bytes(LEAVES[i].type, math.nan)
    present = {name: None if draw(st.integers(0, 7)) == 0 else metric for name, metric in metrics.items()}
    file = DataFile(
        file_path="f.parquet", file_format="parquet", spec_id=0, file_size_in_bytes=1, record_count=len(content),
        value_counts=present["value_counts"], null_value_counts=present["null_value_counts"],
        nan_value_counts=present["nan_value_counts"],
        lower_bounds=present["lower"], upper_bounds=present["upper"],
    )  # fmt: skip
    return file, content


def lower_bound(type, value):
    return to_bytes(type, value[:2] if type in (STRING, BINARY) else value)


@given(files(), expressions())
def test_a_file_with_a_matching_row_is_never_skipped(file_and_rows, expr):
    file, content = file_and_rows
    bound = bind(expr, SCHEMA)
    if any(matches(bound, row) for row in content):
        assert file_may_match(bound, file)


@given(files(), expressions())
def test_a_file_with_a_row_that_does_not_match_is_never_wholly_inside(file_and_rows, expr):
    file, content = file_and_rows
    bound = bind(expr, SCHEMA)
    if file_must_match(bound, file):
        assert all(matches(bound, row) for row in content)


@given(files(), expressions())
def test_a_file_is_wholly_inside_only_if_the_other_reading_of_not_agrees(file_and_rows, expr):
    file, content = file_and_rows
    sql = bind(rewrite_not(expr), SCHEMA)
    if file_must_match(bind(expr, SCHEMA), file):
        assert all(matches(sql, row) for row in content)
    if any(matches(sql, row) for row in content):
        assert file_may_match(bind(expr, SCHEMA), file)


COLUMNS = {
    transform: [i for i, field in LEAVES.items() if parse_transform(transform).can_transform(field.type)]
    for transform in TRANSFORMS
}
"""The columns that each transform fits."""


def spec_of(*fields):
    return PartitionSpec(
        spec_id=0,
        fields=tuple(
            PartitionField(source_ids=(i,), field_id=1000 + n, name=f"p{n}", transform=transform)
            for n, (i, transform) in enumerate(fields)
        ),
    )


def partition_values(spec, row, *, early=False):
    """The partition of a row; `early` as Iceberg up to 0.10 rounded times before 1970."""
    partition: list[Any] = []
    for field in spec.fields:
        transform, type = field.parsed_transform, LEAVES[field.source_id].type
        if transform == parse_transform("from_the_future"):
            partition.append("whatever")
            continue
        value = transform.apply(type, row[field.source_id])
        time = isinstance(transform, TimeTransform) and not (type == DATE and transform.unit == "day")
        partition.append(value + 1 if early and time and value is not None and value < 0 else value)
    return tuple(partition)


@pytest.mark.parametrize("transform", TRANSFORMS)
@given(data=st.data())
def test_projections_are_safe_through_every_transform(transform, data):
    column = data.draw(st.sampled_from(COLUMNS[transform]))
    spec = spec_of((column, transform))
    type = LEAVES[column].type
    row = {column: data.draw(values(type) if LEAVES[column].required else st.none() | values(type))}
    bound = bind(data.draw(expressions(predicates((column,)))), SCHEMA)
    inclusive, strict = project_inclusive(bound, spec), project_strict(bound, spec)
    for early in (False, True):
        partition = partition_values(spec, row, early=early)
        if matches(bound, row):
            assert partition_matches(inclusive, spec, partition), (str(bound), str(inclusive), partition)
        else:
            assert not partition_matches(strict, spec, partition), (str(bound), str(strict), partition)
        residual = Residuals(bound, spec).of(partition)
        assert matches(residual, row) == matches(bound, row)


def all_predicates(column, transform):
    """Every operation with every awkward constant, on the column and on the transform of it, plain and negated."""
    type = LEAVES[column].type
    constants = [value for value in AWKWARD[type] if not is_nan(value)]
    leaves: list[Expression] = []
    for term, applied in (
        (ref(NAMES[column]), IDENTITY),
        (transformed(transform, NAMES[column]), parse_transform(transform)),
    ):
        if applied == VOID or isinstance(applied, UnknownTransform):
            continue
        results = [Constant(applied.apply(type, value), applied.result_type(type)) for value in constants]
        leaves += [predicate(op, term, [c]) for op in operations(applied.result_type(type)) for c in results]
        leaves += [predicate(op, term, pair) for op in ("in", "not-in") for pair in pairwise(results)]
        leaves += [predicate("is-null", term), predicate("not-null", term)]
    return [*leaves, *map(Not, leaves)]


@pytest.mark.parametrize(
    ("transform", "column"), [(transform, i) for transform, ids in COLUMNS.items() for i in ids if i <= len(TYPES)]
)
def test_projections_are_safe_at_every_edge(transform, column):
    spec = spec_of((column, transform))
    edges = [{column: value} for value in [None, *AWKWARD[LEAVES[column].type]]]
    partitions = [[partition_values(spec, row, early=early) for row in edges] for early in (False, True)]
    for expr in all_predicates(column, transform):
        bound = bind(expr, SCHEMA)
        inclusive, strict = project_inclusive(bound, spec), project_strict(bound, spec)
        for row, exact, early in zip(edges, *partitions, strict=True):
            matched = matches(bound, row)
            for partition in {exact, early}:
                if matched:
                    assert partition_matches(inclusive, spec, partition), (str(bound), str(inclusive), partition)
                else:
                    assert not partition_matches(strict, spec, partition), (str(bound), str(strict), partition)


TWO_FIELDS = spec_of((11, "day"), (11, "hour"), (2, "bucket[4]"), (14, "truncate[3]"), (4, "identity"))


@given(st.lists(rows(), min_size=1, max_size=3), expressions(predicates((2, 4, 11, 14))), st.booleans())
def test_a_manifest_with_a_matching_row_is_never_skipped(content, expr, knows_nans):
    bound = bind(expr, SCHEMA)
    partitions = [partition_values(TWO_FIELDS, row) for row in content]
    summaries = []
    for n, field in enumerate(TWO_FIELDS.fields):
        type = field.parsed_transform.result_type(LEAVES[field.source_id].type)
        seen = [partition[n] for partition in partitions]
        bounded = [v for v in seen if v is not None and not is_nan(v)]
        summaries.append(
            FieldSummary(
                contains_null=None in seen,
                contains_nan=any(map(is_nan, seen)) if knows_nans else None,
                lower_bound=to_bytes(type, min(bounded)) if bounded else None,
                upper_bound=to_bytes(type, max(bounded)) if bounded else None,
            )
        )
    manifest = ManifestFile(
        manifest_path="m.avro", manifest_length=1, partition_spec_id=0, added_snapshot_id=1, partitions=tuple(summaries)
    )
    if any(matches(bound, row) for row in content):
        assert manifest_may_match(project_inclusive(bound, TWO_FIELDS), manifest, TWO_FIELDS)


@given(expressions(), rows())
def test_not_is_the_opposite_for_every_row(expr, row):
    assert matches(bind(Not(expr), SCHEMA), row) is not matches(bind(expr, SCHEMA), row)


@given(expressions())
def test_json_keeps_an_unbound_expression_in_both_forms(expr):
    for form in ("term", "value"):
        assert expression_from_json(expression_to_json(expr, form=form)) == simplify(expr)


@given(expressions())
def test_json_of_a_bound_expression_binds_to_the_same_again(expr):
    bound = bind(expr, SCHEMA)
    for form in ("term", "value"):
        assert bind(expression_from_json(expression_to_json(bound, form=form)), SCHEMA) == bound
