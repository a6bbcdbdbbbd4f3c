"""Negation: pushed down to the predicates, without changing what null and NaN do unless asked to.

The specification's predicates are two-valued, so ``not (x < 5)`` holds where x is null; Iceberg's Java and Python
libraries rewrite it to ``x >= 5``, which does not. Where the two readings differ the negation stays in the tree, and
whoever asks takes the safe side: files are kept by `possible_negation` and dropped by `certain_negation`.
"""

from __future__ import annotations

from typing import Final

from firn.model.expressions.predicates import (
    NEGATED,
    And,
    BoundPredicate,
    Expression,
    Not,
    Or,
    Predicate,
    Truth,
    and_,
    not_,
    or_,
)

_ORDERINGS: Final = frozenset({"lt", "lt-eq", "gt", "gt-eq"})
"""Neither these nor their opposites hold for null and NaN; all other operations have an exact opposite."""


def simplify(expr: Expression) -> Expression:
    """`expr` with constants folded away, double negations removed and nested and/or flattened."""
    match expr:
        case And(children):
            return and_(*map(simplify, children))
        case Or(children):
            return or_(*map(simplify, children))
        case Not(child):
            return not_(simplify(child))
    return expr


def rewrite_not(expr: Expression) -> Expression:
    """`expr` without any negation, the way SQL's WHERE and Iceberg's libraries take it: ``not (x < 5)`` is ``x >= 5``.

    What was negated and null no longer matches where an ordering was negated.
    """
    return _push(expr, negated=False, exact=False)


def push_not(expr: Expression) -> Expression:
    """`expr` with negations only where they are needed: over an ordering of something that may be null or NaN."""
    return _push(expr, negated=False, exact=True)


def possible_negation(predicate: BoundPredicate) -> Expression:
    """Holds wherever ``not predicate`` does, under either reading of null and NaN."""
    term = predicate.term
    readings: list[Expression] = [certain_negation(predicate)]
    if predicate.op in _ORDERINGS and term.nullable:
        readings.append(BoundPredicate("is-null", term))
    if predicate.op in _ORDERINGS and term.floating:
        readings.append(BoundPredicate("is-nan", term))
    return or_(*readings)


def certain_negation(predicate: BoundPredicate) -> BoundPredicate:
    """Holds only where ``not predicate`` does, under either reading of null and NaN."""
    return BoundPredicate(NEGATED[predicate.op], predicate.term, predicate.values)


def _push(expr: Expression, *, negated: bool, exact: bool) -> Expression:
    match expr:
        case Truth(value):
            return Truth(value != negated)
        case Not(child):
            return _push(child, negated=not negated, exact=exact)
        case And(children) | Or(children):
            pushed = [_push(child, negated=negated, exact=exact) for child in children]
            return and_(*pushed) if isinstance(expr, And) != negated else or_(*pushed)
        case Predicate() if negated and (not exact or expr.op not in _ORDERINGS):
            return Predicate(NEGATED[expr.op], expr.term, expr.constants)
        case BoundPredicate(term=term) if negated and (
            not exact or expr.op not in _ORDERINGS or not (term.nullable or term.floating)
        ):
            return certain_negation(expr)
    return Not(expr) if negated else expr
