"""The shapes of expressions, with constructors that are pleasant to use (Iceberg "Expressions Spec", "Structure").

``gt_eq("ts", "2026-01-01") & is_in("country", ["FI", "SE"])`` is an *unbound* expression: columns by name (or id),
constants as the caller wrote them. `firn.model.expressions.binding` turns it into a *bound* one: columns by id with
their types, constants as internal values of those types.

Predicates are two-valued, as the specification has them: null satisfies `is-null`, `not-nan`, `not-eq`, `not-in` and
`not-starts-with` and nothing else; NaN satisfies `not-null`, `is-nan`, `not-eq` and `not-in` and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from firn.model.errors import InvalidInput
from firn.model.expressions.constants import Constant, constant
from firn.model.expressions.rendering import VALUES_MAX, render_name, render_predicate, render_value
from firn.model.transforms import Transform, parse_transform
from firn.model.types import DOUBLE, FLOAT, Type

Operation = Literal[
    "is-null", "not-null", "is-nan", "not-nan",
    "lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "starts-with", "not-starts-with",
    "in", "not-in",
]  # fmt: skip

TESTS: Final[frozenset[str]] = frozenset({"is-null", "not-null", "is-nan", "not-nan"})
"""Operations without a constant."""

COMPARISONS: Final[frozenset[str]] = frozenset(
    {"lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "starts-with", "not-starts-with"}
)
"""Operations with one constant."""

MEMBERSHIPS: Final[frozenset[str]] = frozenset({"in", "not-in"})
"""Operations with a set of constants."""

OPERATIONS: Final = TESTS | COMPARISONS | MEMBERSHIPS

NEGATED: Final[Mapping[Operation, Operation]] = {
    "is-null": "not-null", "not-null": "is-null", "is-nan": "not-nan", "not-nan": "is-nan",
    "lt": "gt-eq", "gt-eq": "lt", "gt": "lt-eq", "lt-eq": "gt", "eq": "not-eq", "not-eq": "eq",
    "starts-with": "not-starts-with", "not-starts-with": "starts-with", "in": "not-in", "not-in": "in",
}  # fmt: skip
"""The operation that holds for the non-null, non-NaN values for which the other does not."""

MATCHES_NULL: Final[frozenset[str]] = frozenset({"is-null", "not-nan", "not-eq", "not-in", "not-starts-with"})
"""Operations that null satisfies."""

MATCHES_NAN: Final[frozenset[str]] = frozenset({"not-null", "is-nan", "not-eq", "not-in"})
"""Operations that NaN satisfies."""


class NamedReference(msgspec.Struct, frozen=True):
    """A column by its full name, nested fields with dots."""

    name: str

    def __str__(self) -> str:
        return render_name(self.name)


class IdReference(msgspec.Struct, frozen=True):
    """A column by its field id: survives renames."""

    field_id: int

    def __str__(self) -> str:
        return f"#{self.field_id}"


Reference = NamedReference | IdReference


class TransformTerm(msgspec.Struct, frozen=True):
    """A partition transform of a column; `transform` is its text, like ``bucket[16]``."""

    transform: str
    reference: Reference

    def __str__(self) -> str:
        return f"{self.transform}({self.reference})"


Term = NamedReference | IdReference | TransformTerm


class BoundReference(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a schema, or a field of a partition tuple.

    `nullable` is False only if neither the field nor a struct around it is optional; `nested` tells that it is inside
    a struct; `optional_parent` that a struct around it may be null. `path` are the single names in `name`, of which
    each may have dots.
    """

    field_id: int
    name: str
    type: Type
    nullable: bool = True
    nested: bool = False
    optional_parent: bool = False
    path: tuple[str, ...] = ()

    @property
    def reference(self) -> BoundReference:
        """The column itself."""
        return self

    @property
    def floating(self) -> bool:
        """Whether its values may be NaN."""
        return self.type in (FLOAT, DOUBLE)

    def __str__(self) -> str:
        return render_name(self.name)


class BoundTransform(msgspec.Struct, frozen=True, kw_only=True):
    """A transform of a column; `type` is that of its result, null for null."""

    transform: str
    reference: BoundReference
    type: Type

    @property
    def nullable(self) -> bool:
        """Whether its value may be null."""
        return self.reference.nullable

    @property
    def floating(self) -> bool:
        """Whether its values may be NaN."""
        return self.type in (FLOAT, DOUBLE)

    def __str__(self) -> str:
        return f"{self.transform}({self.reference})"


BoundTerm = BoundReference | BoundTransform


class Expression(msgspec.Struct, frozen=True):
    """Base of all expressions; combines with ``&``, ``|`` and ``~``."""

    def __and__(self, other: Expression) -> Expression:
        return and_(self, other)

    def __or__(self, other: Expression) -> Expression:
        return or_(self, other)

    def __invert__(self) -> Expression:
        return not_(self)


class Truth(Expression, frozen=True):
    """Always true or always false."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


TRUE: Final = Truth(value=True)
FALSE: Final = Truth(value=False)


class Not(Expression, frozen=True):
    """True where `child` is false."""

    child: Expression

    def __str__(self) -> str:
        return f"not ({self.child})"


class And(Expression, frozen=True):
    """True where all `children` are, at least two; made by `and_`, which flattens."""

    children: tuple[Expression, ...]

    def __str__(self) -> str:
        return " and ".join(f"({c})" if isinstance(c, Or) else str(c) for c in self.children)


class Or(Expression, frozen=True):
    """True where one of `children` is, at least two; made by `or_`, which flattens."""

    children: tuple[Expression, ...]

    def __str__(self) -> str:
        return " or ".join(f"({c})" if isinstance(c, And) else str(c) for c in self.children)


class Predicate(Expression, frozen=True):
    """An operation on an unbound term; `constants` are none, one or many, as the operation asks."""

    op: Operation
    term: Term
    constants: tuple[Constant, ...] = ()

    def __str__(self) -> str:
        shown = [str(c) for c in self.constants[:VALUES_MAX]]
        return render_predicate(self.op, str(self.term), shown, count=len(self.constants))


class BoundPredicate(Expression, frozen=True, dict=True):
    """An operation on a bound term; `values` are internal values of the term's type, sorted and unique for a set."""

    op: Operation
    term: BoundTerm
    values: tuple[Any, ...] = ()

    @property
    def value(self) -> Any:
        """The only constant of a comparison."""
        return self.values[0]

    @functools.cached_property
    def members(self) -> frozenset[Any]:
        """The constants as a set."""
        return frozenset(self.values)

    def __str__(self) -> str:
        shown = [render_value(v, self.term.type) for v in self.values[:VALUES_MAX]]
        return render_predicate(self.op, str(self.term), shown, count=len(self.values))


def ref(name: str) -> NamedReference:
    """The column `name` (full name, nested fields with dots)."""
    return NamedReference(name)


def ref_id(field_id: int) -> IdReference:
    """The column with this field id."""
    return IdReference(field_id)


def transformed(transform: str, column: str | Reference) -> TransformTerm:
    """``transformed("bucket[16]", "id")``: a partition transform of a column."""
    return TransformTerm(transform, _reference(column))


def transform_of(text: str, *, where: str) -> Transform:
    """The transform of a term; raises InvalidInput naming `where` for a text that names none."""
    try:
        return parse_transform(text)
    except InvalidInput as exc:
        raise InvalidInput(exc.message, where=where, hint=exc.hint) from None


def predicate(op: Operation, column: str | Term, values: Iterable[Any] = ()) -> Predicate:
    """A predicate of any operation; raises InvalidInput if the number of constants does not fit it."""
    constants = tuple(constant(v) for v in values)
    wanted = 0 if op in TESTS else 1
    if op not in OPERATIONS:
        raise InvalidInput(f"unknown operation {op!r}")
    if op not in MEMBERSHIPS and len(constants) != wanted:
        raise InvalidInput(f"{op} takes {wanted} constants, not {len(constants)}")
    term = column if isinstance(column, TransformTerm) else _reference(column)
    return Predicate(op, term, constants)


def _reference(column: str | Reference) -> Reference:
    return NamedReference(column) if isinstance(column, str) else column


def is_null(column: str | Term) -> Predicate:
    """The value is null."""
    return predicate("is-null", column)


def not_null(column: str | Term) -> Predicate:
    """The value is not null."""
    return predicate("not-null", column)


def is_nan(column: str | Term) -> Predicate:
    """The value is NaN (float and double only)."""
    return predicate("is-nan", column)


def not_nan(column: str | Term) -> Predicate:
    """The value is not NaN; null is not."""
    return predicate("not-nan", column)


def lt(column: str | Term, value: Any) -> Predicate:
    """The value is less than a constant."""
    return predicate("lt", column, [value])


def lt_eq(column: str | Term, value: Any) -> Predicate:
    """The value is at most a constant."""
    return predicate("lt-eq", column, [value])


def gt(column: str | Term, value: Any) -> Predicate:
    """The value is greater than a constant."""
    return predicate("gt", column, [value])


def gt_eq(column: str | Term, value: Any) -> Predicate:
    """The value is at least a constant."""
    return predicate("gt-eq", column, [value])


def eq(column: str | Term, value: Any) -> Predicate:
    """The value equals a constant."""
    return predicate("eq", column, [value])


def not_eq(column: str | Term, value: Any) -> Predicate:
    """The value does not equal a constant; null does not."""
    return predicate("not-eq", column, [value])


def is_in(column: str | Term, values: Iterable[Any]) -> Predicate:
    """The value equals one of the constants."""
    return predicate("in", column, values)


def not_in(column: str | Term, values: Iterable[Any]) -> Predicate:
    """The value equals none of the constants; null equals none."""
    return predicate("not-in", column, values)


def starts_with(column: str | Term, prefix: str) -> Predicate:
    """The string starts with a constant."""
    return predicate("starts-with", column, [prefix])


def not_starts_with(column: str | Term, prefix: str) -> Predicate:
    """The string does not start with a constant; null does not."""
    return predicate("not-starts-with", column, [prefix])


def set_predicate(op: Operation, term: BoundTerm, values: Iterable[Any]) -> Expression:
    """`in` or `not-in` over internal values, or what is simpler: nothing for no value, a comparison for one."""
    unique = sorted(set(values))
    if not unique:
        return Truth(op == "not-in")
    if len(unique) == 1:
        return BoundPredicate("eq" if op == "in" else "not-eq", term, (unique[0],))
    return BoundPredicate(op, term, tuple(unique))


def and_(*children: Expression) -> Expression:
    """All of `children`, flattened, constants folded away; of none, true."""
    kept: list[Expression] = []
    for child in children:
        if child == FALSE:
            return FALSE
        if isinstance(child, And):
            kept.extend(child.children)
        elif child != TRUE:
            kept.append(child)
    if not kept:
        return TRUE
    return kept[0] if len(kept) == 1 else And(tuple(kept))


def or_(*children: Expression) -> Expression:
    """Any of `children`, flattened, constants folded away; of none, false."""
    kept: list[Expression] = []
    for child in children:
        if child == TRUE:
            return TRUE
        if isinstance(child, Or):
            kept.extend(child.children)
        elif child != FALSE:
            kept.append(child)
    if not kept:
        return FALSE
    return kept[0] if len(kept) == 1 else Or(tuple(kept))


def not_(child: Expression) -> Expression:
    """The opposite of `child`; two negations cancel out."""
    match child:
        case Truth():
            return Truth(not child.value)
        case Not():
            return child.child
    return Not(child)
