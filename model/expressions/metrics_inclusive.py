"""May a file have matching rows? The inclusive evaluator of file metrics (table specification, "Scan Planning").

No means that it certainly has none, so that a scan skips it. Yes promises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.expressions.column_facts import ColumnFacts, decode_bound, decode_upper, facts_of_term, may_match
from firn.model.expressions.negation import possible_negation
from firn.model.expressions.predicates import And, BoundPredicate, BoundReference, Expression, Not, Or, Truth
from firn.model.types import BINARY, STRING


def file_may_match(expr: Expression, file: DataFile) -> bool:
    """Whether some row of `file` may match the bound `expr`; raises InvalidInput if it is not bound."""
    if file.record_count == 0:
        return False
    return any_may_match(expr, lambda column: _cautious_facts(column, file))


def _cautious_facts(column: BoundReference, file: DataFile) -> ColumnFacts:
    """Facts with an upper bound that may have been cut."""
    facts = facts_of_column(column, file)
    if column.type not in (STRING, BINARY) or facts.upper is None or file.upper_bounds is None:
        return facts
    return msgspec.structs.replace(facts, upper=decode_upper(column.type, file.upper_bounds.get(column.field_id)))


def any_may_match(expr: Expression, facts_of: Callable[[BoundReference], ColumnFacts]) -> bool:
    """Whether some value may match, by what `facts_of` knows of each column."""
    match expr:
        case Truth(value):
            return value
        case And(children):
            return all(any_may_match(child, facts_of) for child in children)
        case Or(children):
            return any(any_may_match(child, facts_of) for child in children)
        case Not(BoundPredicate() as predicate):
            return any_may_match(possible_negation(predicate), facts_of)
        case BoundPredicate(term=term):
            return may_match(expr, facts_of_term(term, facts_of(term.reference)))
    raise InvalidInput(f"the expression is not bound: {expr}")


def facts_of_column(column: BoundReference, file: DataFile) -> ColumnFacts:
    """What the metrics of `file` say of one column; a metric that is missing says nothing.

    Counts of nested columns may leave out the rows whose parent is null (ORC counts so), which makes "no nulls"
    certain only where the values of all rows were counted.
    """
    field_id = column.field_id
    values = _count(file.value_counts, field_id)
    nulls = _count(file.null_value_counts, field_id)
    nans = _count(file.nan_value_counts, field_id)
    complete = not column.optional_parent or (values is not None and values == file.record_count)
    may_be_null = column.nullable and not (complete and (nulls == 0 or (values is not None and nans == values)))
    if not column.floating:
        nans = 0
    only_nulls_and_nans = values is not None and values in (nulls, nans, (nulls or 0) + (nans or 0))
    return ColumnFacts(
        may_be_null=may_be_null,
        may_be_nan=nans != 0 and not (values is not None and nulls == values),
        may_be_value=not only_nulls_and_nans,
        lower=decode_bound(column.type, file.lower_bounds.get(field_id) if file.lower_bounds else None),
        upper=decode_bound(column.type, file.upper_bounds.get(field_id) if file.upper_bounds else None),
    )


def _count(counts: Mapping[int, int] | None, field_id: int) -> int | None:
    return None if counts is None else counts.get(field_id)
