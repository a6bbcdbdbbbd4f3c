"""Each way in which old or odd metadata could mislead an evaluator, and that it does not."""

import math
import uuid
from typing import Any

import pytest

from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.expressions.binding import bind
from firn.model.expressions.manifest_filter import manifest_may_match
from firn.model.expressions.metrics_inclusive import file_may_match
from firn.model.expressions.metrics_strict import file_must_match
from firn.model.expressions.negation import rewrite_not
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    BoundPredicate,
    Expression,
    and_,
    eq,
    gt,
    gt_eq,
    is_in,
    is_null,
    lt,
    lt_eq,
    not_,
    not_eq,
    not_null,
    or_,
    starts_with,
    transformed,
)
from firn.model.expressions.projection import partition_matches, project_inclusive, project_strict
from firn.model.expressions.residuals import Residuals
from firn.model.expressions.row_filter import matches
from firn.model.manifest import FieldSummary, ManifestFile
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import schema_from_json
from firn.model.types import DOUBLE, INT, STRING, TIMESTAMP, UUID, Type
from firn.model.values import to_bytes

SCHEMA = schema_from_json(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "x", "type": "int", "required": False},
            {"id": 2, "name": "f", "type": "double", "required": False},
            {"id": 3, "name": "u", "type": "uuid", "required": False},
            {"id": 4, "name": "ts", "type": "timestamp", "required": False},
            {"id": 5, "name": "s", "type": "string", "required": False},
            {
                "id": 6, "name": "o", "required": False,
                "type": {"type": "struct", "fields": [{"id": 7, "name": "x", "type": "int", "required": True}]},
            },
        ],
    }
)  # fmt: skip
TYPES: dict[int, Type] = {1: INT, 2: DOUBLE, 3: UUID, 4: TIMESTAMP, 5: STRING, 7: INT}


def file_of(
    column: int,
    lower: Any = None,
    upper: Any = None,
    *,
    rows: int = 10,
    value: int | None = None,
    null_value: int | None = None,
    nan_value: int | None = None,
) -> DataFile:
    def bound(value: Any) -> dict[int, bytes]:
        if value is None:
            return {}
        return {column: value if isinstance(value, bytes) else to_bytes(TYPES[column], value)}

    def count(value: int | None) -> dict[int, int] | None:
        return None if value is None else {column: value}

    return DataFile(
        file_path="f.parquet", file_format="parquet", spec_id=0, file_size_in_bytes=1, record_count=rows,
        lower_bounds=bound(lower), upper_bounds=bound(upper),
        value_counts=count(value), null_value_counts=count(null_value), nan_value_counts=count(nan_value),
    )  # fmt: skip


def may(expr: Expression, file: DataFile) -> bool:
    return file_may_match(bind(expr, SCHEMA), file)


def must(expr: Expression, file: DataFile) -> bool:
    return file_must_match(bind(expr, SCHEMA), file)


def test_rows_with_nan_are_not_deleted_by_a_file_that_counted_none_of_them():
    uncounted = file_of(2, 1.0, 5.0, value=10, null_value=0)
    assert not must(lt("f", 10), uncounted)
    assert must(lt("f", 10), file_of(2, 1.0, 5.0, value=10, null_value=0, nan_value=0))


def test_a_nan_bound_is_no_bound():
    orc = file_of(2, math.nan, math.nan, value=10, null_value=0, nan_value=1)
    assert may(eq("f", 3), orc)
    assert not must(not_eq("f", 3), orc)


def test_a_bound_that_cannot_be_decoded_is_no_bound():
    broken = file_of(1, b"\x01", b"\x01\x02\x03", value=10, null_value=0)
    assert may(eq("x", 3), broken)
    assert not must(gt("x", -5), broken)


def test_bounds_that_contradict_each_other_say_nothing():
    swapped = file_of(1, 9, 1, value=10, null_value=0)
    assert may(eq("x", 20), swapped)
    assert not must(lt("x", 100), swapped)


def test_an_unknown_number_of_rows_is_not_none():
    assert may(eq("x", 1), file_of(1, rows=-1))
    assert not must(eq("x", 1), file_of(1, rows=-1))


def test_an_empty_file_has_no_match_and_is_wholly_inside_anything():
    assert not may(TRUE, file_of(1, rows=0))
    assert must(FALSE, file_of(1, rows=0))


@pytest.mark.parametrize("lower_first", [True, False])
def test_uuid_bounds_may_be_in_javas_signed_order(lower_first):
    small, large = uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)  # the other way round when signed
    wanted = uuid.UUID(int=2**127 + 5)
    java = file_of(3, large, small, value=10, null_value=0)
    spec = file_of(3, small, large, value=10, null_value=0)
    file = spec if lower_first else java
    assert may(eq("u", str(uuid.UUID(int=0))), java)
    assert may(eq("u", str(wanted)), file)
    assert not must(not_eq("u", str(wanted)), file)


def test_signed_and_unsigned_order_agree_for_one_value():
    one = uuid.UUID(int=2**127)
    file = file_of(3, one, one, value=10, null_value=0)
    assert must(eq("u", str(one)), file)
    assert not may(not_eq("u", str(one)), file)
    assert not may(eq("u", str(uuid.UUID(int=5))), file)


def test_nulls_of_a_null_struct_need_not_have_been_counted():
    orc = file_of(7, 1, 5, rows=10, value=8, null_value=0)
    assert may(is_null("o.x"), orc)
    parquet = file_of(7, 1, 5, rows=10, value=10, null_value=0)
    assert not may(is_null("o.x"), parquet)
    for file in (orc, parquet):
        assert not must(not_null("o.x"), file)
        assert not must(lt("o.x", 10), file)


def test_a_negated_ordering_keeps_and_drops_only_what_both_readings_allow():
    all_null = file_of(1, rows=10, value=10, null_value=10)
    assert may(not_(lt("x", 5)), all_null)
    assert not must(not_(lt("x", 5)), all_null)
    assert matches(bind(not_(lt("x", 5)), SCHEMA), {1: None})
    assert not matches(bind(rewrite_not(not_(lt("x", 5))), SCHEMA), {1: None})
    assert rewrite_not(not_(and_(lt("x", 5), or_(is_null("x"), not_eq("x", 1))))) == or_(
        gt_eq("x", 5), and_(not_null("x"), eq("x", 1))
    )


def test_a_constant_beyond_the_type_does_not_delete_nulls():
    some_null = file_of(1, 1, 5, value=10, null_value=1)
    assert not must(lt("x", 2**40), some_null)
    assert must(lt("x", 2**40), file_of(1, 1, 5, value=10, null_value=0))


def test_a_transform_that_keeps_order_uses_the_columns_bounds():
    day = 86_400_000_000
    file = file_of(4, 5 * day, 6 * day + 1, value=10, null_value=0)
    assert not may(eq(transformed("day", "ts"), 4), file)
    assert may(eq(transformed("day", "ts"), 6), file)
    assert must(is_null("x") | gt_eq(transformed("day", "ts"), 5), file)
    assert may(eq(transformed("bucket[4]", "ts"), 1), file)


def test_a_lower_bound_that_truncation_wraps_around_is_no_bound():
    anything = file_of(1, -(2**31), 2**31 - 1, value=10, null_value=0)
    assert may(eq(transformed("truncate[3]", "x"), 3), anything)
    assert may(eq(transformed("truncate[2147483647]", "x"), 0), anything)  # the smallest int becomes 2


def test_an_hour_that_does_not_fit_projects_to_nothing_known():
    spec = spec_of("hour", 4)
    far = bind(lt("ts", 2**63 - 1), SCHEMA)
    assert project_inclusive(far, spec) == TRUE
    assert project_strict(far, spec) == FALSE


def spec_of(transform: str, source_id: int, *more: int) -> PartitionSpec:
    field = PartitionField(source_ids=(source_id, *more), field_id=1000, name="p", transform=transform)
    return PartitionSpec(spec_id=0, fields=(field,))


def test_a_filter_on_the_partitions_own_value_carries_over():
    spec = spec_of("bucket[16]", 1)
    same = bind(is_in(transformed("bucket[16]", "x"), [3, 4]), SCHEMA)
    assert partition_matches(project_strict(same, spec), spec, (3,))
    assert not partition_matches(project_inclusive(same, spec), spec, (5,))
    other = bind(eq(transformed("bucket[8]", "x"), 3), SCHEMA)
    assert project_inclusive(other, spec) == TRUE
    assert project_strict(other, spec) == FALSE


def test_days_before_1970_may_have_been_written_one_too_large():
    spec = spec_of("day", 4)
    same = bind(eq(transformed("day", "ts"), -1), SCHEMA)
    assert partition_matches(project_inclusive(same, spec), spec, (0,))
    assert project_strict(same, spec) == FALSE
    before = bind(lt(transformed("day", "ts"), 0), SCHEMA)
    assert partition_matches(project_inclusive(before, spec), spec, (0,))
    later = bind(eq(transformed("day", "ts"), 20_000), SCHEMA)
    assert partition_matches(project_strict(later, spec), spec, (20_000,))


@pytest.mark.parametrize("spec", [spec_of("void", 1), spec_of("zorder[4]", 1), spec_of("bucket[4]", 1, 2)])
def test_fields_that_say_nothing_rule_nothing_out(spec):
    bound = bind(is_null("x") | eq("x", 1), SCHEMA)
    assert project_inclusive(bound, spec) == TRUE
    assert project_strict(bound, spec) == FALSE
    assert Residuals(bound, spec).of((None,)) == bound


def test_a_manifest_whose_summaries_do_not_fit_the_spec_is_read():
    spec = spec_of("identity", 1)
    projected = project_inclusive(bind(eq("x", 99), SCHEMA), spec)
    summary = FieldSummary(contains_null=False, lower_bound=to_bytes(INT, 1), upper_bound=to_bytes(INT, 2))

    def manifest(*summaries: FieldSummary) -> ManifestFile:
        return ManifestFile(
            manifest_path="m", manifest_length=1, partition_spec_id=0, added_snapshot_id=1, partitions=summaries
        )

    assert not manifest_may_match(projected, manifest(summary), spec)
    assert manifest_may_match(projected, manifest(summary, summary), spec)
    assert manifest_may_match(projected, manifest(FieldSummary(contains_null=False)), spec)
    assert not manifest_may_match(projected, manifest(FieldSummary(contains_null=True)), spec)
    unsummarised = ManifestFile(manifest_path="m", manifest_length=1, partition_spec_id=0, added_snapshot_id=1)
    assert manifest_may_match(projected, unsummarised, spec)
    assert not manifest_may_match(FALSE, unsummarised, spec)


def test_a_residual_keeps_what_the_partition_leaves_open():
    spec = spec_of("truncate[2]", 5)
    bound = bind(and_(starts_with("s", "a"), eq("s", "abc")), SCHEMA)
    residuals = Residuals(bound, spec)
    assert residuals.of(("ab",)) == bind(eq("s", "abc"), SCHEMA)
    assert residuals.of(("xx",)) == FALSE
    assert Residuals(bind(lt_eq("x", 5), SCHEMA), spec_of("identity", 1)).of((3,)) == TRUE
    assert Residuals(bound, PartitionSpec(spec_id=0)).of(()) == bound


def test_expressions_that_are_not_bound_are_refused_by_every_evaluator():
    loose = eq("x", 1)
    spec = spec_of("identity", 1)
    for ask in (
        lambda: matches(loose, {}),
        lambda: file_may_match(loose, file_of(1)),
        lambda: file_must_match(loose, file_of(1)),
        lambda: project_inclusive(loose, spec),
        lambda: project_strict(loose, spec),
        lambda: Residuals(loose, spec),
    ):
        with pytest.raises(InvalidInput, match="not bound: x = 1"):
            ask()


def test_projections_are_bound_to_the_partition_fields():
    projected = project_inclusive(bind(eq("x", 1), SCHEMA), spec_of("identity", 1))
    assert isinstance(projected, BoundPredicate)
    assert projected.term.reference.field_id == 1000


def test_a_filter_along_the_edges_of_partitions_is_decided_by_them():
    """A delete of one day drops that day's files, without a look at any metrics."""
    spec = spec_of("day", 4)
    one_day = bind(gt_eq("ts", "2026-01-02") & lt("ts", "2026-01-03"), SCHEMA)
    day = 20_455
    assert [d for d in range(day - 3, day + 4) if partition_matches(project_strict(one_day, spec), spec, (d,))] == [day]
    assert [d for d in range(day - 3, day + 4) if partition_matches(project_inclusive(one_day, spec), spec, (d,))] == [
        day
    ]
    residuals = Residuals(one_day, spec)
    assert [residuals.of((d,)) for d in (day - 1, day, day + 1)] == [FALSE, TRUE, FALSE]
