"""Projection: a filter over rows becomes one over partition tuples (table specification, "Scan Planning").

The *inclusive* projection is true of every partition that may hold a matching row, the *strict* one only of partitions
whose rows all match. Both are bound to the partition fields of a spec, by their field ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from firn.model.errors import InvalidInput
from firn.model.expressions.negation import certain_negation, possible_negation
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Expression,
    Not,
    Or,
    Truth,
    and_,
    or_,
)
from firn.model.expressions.projected_values import (
    project_bucket,
    project_ordered_inclusive,
    project_ordered_strict,
    project_prefix,
)
from firn.model.expressions.row_filter import matches
from firn.model.expressions.time_repair import tightened, widened
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.transforms import Bucket, Identity, TimeTransform, Transform, Truncate, UnknownTransform, Void
from firn.model.types import DATE


def project_inclusive(expr: Expression, spec: PartitionSpec) -> Expression:
    """What holds of the partition of every row that the bound `expr` matches; true where nothing is known.

    Raises InvalidInput if `expr` is not bound.
    """
    match expr:
        case Truth():
            return expr
        case And(children):
            return and_(*(project_inclusive(child, spec) for child in children))
        case Or(children):
            return or_(*(project_inclusive(child, spec) for child in children))
        case Not(BoundPredicate() as predicate):
            return project_inclusive(possible_negation(predicate), spec)
        case BoundPredicate():
            return and_(*(_inclusive(expr, field) for field in _fields_of(expr, spec)))
    raise InvalidInput(f"the expression is not bound: {expr}")


def project_strict(expr: Expression, spec: PartitionSpec) -> Expression:
    """What holds only of partitions whose every row the bound `expr` matches; false where nothing is known.

    Raises InvalidInput if `expr` is not bound.
    """
    match expr:
        case Truth():
            return expr
        case And(children):
            return and_(*(project_strict(child, spec) for child in children))
        case Or(children):
            return or_(*(project_strict(child, spec) for child in children))
        case Not(BoundPredicate() as predicate):
            return project_strict(certain_negation(predicate), spec)
        case BoundPredicate():
            return or_(*(_strict(expr, field) for field in _fields_of(expr, spec)))
    raise InvalidInput(f"the expression is not bound: {expr}")


def partition_row(spec: PartitionSpec, partition: tuple[Any, ...]) -> Mapping[int, Any]:
    """A partition tuple as a row to ask `row_filter.matches` about; a tuple of another length is our own mistake."""
    return {field.field_id: value for field, value in zip(spec.fields, partition, strict=True)}


def partition_matches(projected: Expression, spec: PartitionSpec, partition: tuple[Any, ...]) -> bool:
    """Whether an inclusive projection may be true of one partition tuple of `spec`."""
    return matches(projected, partition_row(spec, partition), if_foreign=True)


def _fields_of(predicate: BoundPredicate, spec: PartitionSpec) -> Iterable[PartitionField]:
    column = predicate.term.reference.field_id
    return (field for field in spec.fields if field.source_ids == (column,))


def _partition_term(predicate: BoundPredicate, field: PartitionField, transform: Transform) -> BoundReference:
    type = transform.result_type(predicate.term.reference.type)
    return BoundReference(field_id=field.field_id, name=field.name, type=type)


def _inclusive(predicate: BoundPredicate, field: PartitionField) -> Expression:
    transform = field.parsed_transform
    projected = _through(predicate, field, transform, strict=False)
    if projected is None:
        return TRUE
    return widened(projected) if _needs_repair(predicate, transform) else projected


def _strict(predicate: BoundPredicate, field: PartitionField) -> Expression:
    transform = field.parsed_transform
    projected = _through(predicate, field, transform, strict=True)
    if projected is None:
        return FALSE
    return tightened(projected) if _needs_repair(predicate, transform) else projected


def _through(
    predicate: BoundPredicate, field: PartitionField, transform: Transform, *, strict: bool
) -> Expression | None:
    """`predicate` through one partition field; None where nothing is known."""
    source, op = predicate.term.reference.type, predicate.op
    if isinstance(transform, Void | UnknownTransform) or not transform.can_transform(source):
        return None
    term = BoundReference(field_id=field.field_id, name=field.name, type=transform.result_type(source))
    if op in {"is-null", "not-null"}:  # null stays null, and nothing else becomes it
        return BoundPredicate(op, term)
    if isinstance(predicate.term, BoundTransform):
        # ``bucket[16](id) = 3`` asks for the partition's own value.
        return BoundPredicate(op, term, predicate.values) if predicate.term.transform == str(transform) else None
    match transform:
        case Identity():
            return BoundPredicate(op, term, predicate.values)
        case Bucket():
            return project_bucket(predicate, transform, term, strict=strict)
        case Truncate() if op in {"starts-with", "not-starts-with"}:
            return project_prefix(predicate, transform, term, strict=strict)
        case Truncate() | TimeTransform():
            ordered = project_ordered_strict if strict else project_ordered_inclusive
            return ordered(predicate, transform, term)


def _needs_repair(predicate: BoundPredicate, transform: Transform) -> bool:
    # The day of a date is the date itself, which old versions could not get wrong.
    return isinstance(transform, TimeTransform) and not (
        transform.unit == "day" and predicate.term.reference.type == DATE
    )
