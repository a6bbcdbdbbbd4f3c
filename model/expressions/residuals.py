"""Residuals: what of a filter is still to be asked of the rows once their partition is known.

A predicate that the partition proves is true, one that it rules out is false, the rest stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.model.errors import InvalidInput
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    Expression,
    Not,
    Or,
    Truth,
    and_,
    not_,
    or_,
)
from firn.model.expressions.projection import partition_row, project_inclusive, project_strict
from firn.model.expressions.row_filter import matches
from firn.model.partitioning import PartitionSpec


class Residuals:
    """The residuals of one bound filter in the partitions of one spec; projects once, then answers for any number.

    Raises InvalidInput if the filter is not bound.
    """

    def __init__(self, expr: Expression, spec: PartitionSpec) -> None:
        self._expr = expr
        self._spec = spec
        # By identity: hashing a predicate would go through all its constants at each look-up.
        self._projections: dict[int, tuple[Expression, Expression]] = {}
        self._project(expr)

    def of(self, partition: tuple[Any, ...]) -> Expression:
        """The residual for rows with this partition tuple; TRUE when all of them match, FALSE when none does."""
        if not self._spec.fields:
            return self._expr
        return self._residual(self._expr, partition_row(self._spec, partition))

    def _project(self, expr: Expression) -> None:
        match expr:
            case BoundPredicate():
                self._projections[id(expr)] = (project_strict(expr, self._spec), project_inclusive(expr, self._spec))
            case And(children) | Or(children):
                for child in children:
                    self._project(child)
            case Not(child):
                self._project(child)
            case Truth():
                pass
            case _:
                raise InvalidInput(f"the expression is not bound: {expr}")

    def _residual(self, expr: Expression, row: Mapping[int, Any]) -> Expression:
        match expr:
            case BoundPredicate():
                strict, inclusive = self._projections[id(expr)]
                if matches(strict, row):
                    return TRUE
                return expr if matches(inclusive, row, if_foreign=True) else FALSE
            case And(children):
                return and_(*(self._residual(child, row) for child in children))
            case Or(children):
                return or_(*(self._residual(child, row) for child in children))
            case Not(child):
                return not_(self._residual(child, row))
        return expr
