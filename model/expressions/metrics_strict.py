"""Do all rows of a file match? The strict evaluator of file metrics (table specification, "Scan Planning").

Yes means that the file may be deleted whole, so it is only said where the metrics prove it. No promises nothing.
"""

from __future__ import annotations

from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.expressions.column_facts import ColumnFacts, facts_of_term, must_match
from firn.model.expressions.metrics_inclusive import facts_of_column
from firn.model.expressions.negation import certain_negation
from firn.model.expressions.predicates import And, BoundPredicate, BoundReference, Expression, Not, Or, Truth


def file_must_match(expr: Expression, file: DataFile) -> bool:
    """Whether every row of `file` matches the bound `expr`, true of no rows; raises InvalidInput if it is not bound.

    Metrics of columns inside structs are not trusted with this: writers disagree on whether they count the rows whose
    struct is null.
    """
    if file.record_count == 0:
        return True
    match expr:
        case Truth(value):
            return value
        case And(children):
            return all(file_must_match(child, file) for child in children)
        case Or(children):
            return any(file_must_match(child, file) for child in children)
        case Not(BoundPredicate() as predicate):
            return file_must_match(certain_negation(predicate), file)
        case BoundPredicate(term=term):
            return must_match(expr, facts_of_term(term, _facts(term.reference, file)))
    raise InvalidInput(f"the expression is not bound: {expr}")


def _facts(column: BoundReference, file: DataFile) -> ColumnFacts:
    if column.nested:
        return ColumnFacts(may_be_null=column.nullable, may_be_nan=column.floating)
    return facts_of_column(column, file)
