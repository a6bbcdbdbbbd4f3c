"""Expressions over columns by id: they mean the same columns whatever those are called when they are read."""

from __future__ import annotations

import msgspec

from firn.model.expressions.binding import bind_term
from firn.model.expressions.predicates import (
    And,
    Expression,
    IdReference,
    Not,
    Or,
    Predicate,
    TransformTerm,
    and_,
    not_,
    or_,
)
from firn.model.schema import Schema


def with_column_ids(
    expr: Expression, schema: Schema, *, case_sensitive: bool = True, where: str = "filter"
) -> Expression:
    """`expr`, unbound, with the ids of the columns that its names mean in `schema`.

    Raises InvalidInput for names that mean none, as `firn.model.expressions.binding.bind` does.
    """

    def replaced(child: Expression) -> Expression:
        return with_column_ids(child, schema, case_sensitive=case_sensitive, where=where)

    match expr:
        case Not(child):
            return not_(replaced(child))
        case And(children):
            return and_(*map(replaced, children))
        case Or(children):
            return or_(*map(replaced, children))
        case Predicate(term=TransformTerm() as term):
            field_id = bind_term(term.reference, schema, case_sensitive=case_sensitive, where=where).reference.field_id
            return msgspec.structs.replace(expr, term=TransformTerm(term.transform, IdReference(field_id)))
        case Predicate(term=term):
            field_id = bind_term(term, schema, case_sensitive=case_sensitive, where=where).reference.field_id
            return msgspec.structs.replace(expr, term=IdReference(field_id))
    return expr
