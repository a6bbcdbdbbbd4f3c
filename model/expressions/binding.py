"""Binding: an expression over names and loose constants becomes one over a schema's fields and internal values.

What binding can decide is decided here: `is-null` of a required column is false, ``x < 2³¹`` of an int column is
`not-null`, ``x = 2.5`` of it is false. What no column can mean is refused with a clear error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from firn.model.errors import InvalidInput, InvalidSchema
from firn.model.expressions.constants import Constant
from firn.model.expressions.negation import push_not
from firn.model.expressions.placement import Exact, Place, place
from firn.model.expressions.predicates import (
    FALSE,
    MATCHES_NULL,
    TESTS,
    TRUE,
    And,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
    Expression,
    NamedReference,
    Not,
    Operation,
    Or,
    Predicate,
    Reference,
    TransformTerm,
    Truth,
    and_,
    not_,
    or_,
    set_predicate,
    transform_of,
)
from firn.model.schema import Schema
from firn.model.transforms import Identity, UnknownTransform, Void
from firn.model.types import (
    STRING,
    UNKNOWN,
    DecimalType,
    FixedType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
)

EXPRESSION_DEPTH_MAX: Final = 64
"""Levels of nesting accepted: an and of ands is one level, however long."""

_CLOSED: Final[Mapping[str, Operation]] = {"lt": "lt-eq", "lt-eq": "lt-eq", "gt": "gt-eq", "gt-eq": "gt-eq"}


def bind(expr: Expression, schema: Schema, *, case_sensitive: bool = True, where: str = "filter") -> Expression:
    """`expr` over the columns of `schema`, with negation only where it cannot be pushed away, see `negation`.

    Parts that are bound already stay as they are. Raises InvalidInput, with `where` extended by the path to the
    predicate, for unknown or ambiguous columns, columns inside lists and maps, operations that a column's type does
    not have, constants that mean nothing in it and more than EXPRESSION_DEPTH_MAX levels.
    """
    return push_not(_bind(expr, schema, case_sensitive, where, 0))


def _bind(expr: Expression, schema: Schema, case_sensitive: bool, where: str, depth: int) -> Expression:  # noqa: FBT001
    if depth > EXPRESSION_DEPTH_MAX:
        raise InvalidInput(f"more than {EXPRESSION_DEPTH_MAX} levels deep", where=where)
    match expr:
        case Truth() | BoundPredicate():
            return expr
        case Not(child):
            return not_(_bind(child, schema, case_sensitive, f"{where}.not", depth + 1))
        case And(children) | Or(children):
            name = "and" if isinstance(expr, And) else "or"
            bound = [
                _bind(child, schema, case_sensitive, f"{where}.{name}[{i}]", depth + 1)
                for i, child in enumerate(children)
            ]
            return and_(*bound) if isinstance(expr, And) else or_(*bound)
        case Predicate(op, term, constants):
            bound_term = bind_term(term, schema, case_sensitive=case_sensitive, where=where)
            return bind_predicate(op, bound_term, constants, where=where)
    raise AssertionError(expr)


def bind_term(
    term: Reference | TransformTerm, schema: Schema, *, case_sensitive: bool = True, where: str = "filter"
) -> BoundTerm:
    """The column, or transform of a column, that `term` names in `schema`. Raises InvalidInput as `bind` does."""
    if not isinstance(term, TransformTerm):
        return _bind_reference(term, schema, case_sensitive=case_sensitive, where=where)
    reference = _bind_reference(term.reference, schema, case_sensitive=case_sensitive, where=where)
    transform = transform_of(term.transform, where=where)
    match transform:
        case Identity():
            return reference
        case Void() | UnknownTransform():
            raise InvalidInput(f"{term.transform} is not a transform to filter by", where=where)
    if not transform.can_transform(reference.type):
        raise InvalidInput(
            f"{transform} does not apply to {reference}, which has type {_kind(reference.type)}", where=where
        )
    return BoundTransform(transform=str(transform), reference=reference, type=transform.result_type(reference.type))


def _bind_reference(reference: Reference, schema: Schema, *, case_sensitive: bool, where: str) -> BoundReference:
    field = _find(reference, schema, case_sensitive=case_sensitive, where=where)
    if field is None:
        raise InvalidInput(f"there is no column {reference}", where=where, hint=_known_columns(schema))
    nullable, optional_parent, parent_id = not field.required, False, schema.parent_id(field.field_id)
    nested = parent_id is not None
    while parent_id is not None:
        parent = schema.field_by_id(parent_id)
        assert parent is not None
        if not isinstance(parent.type, StructType):
            raise InvalidInput(
                f"{reference} is inside {schema.column_name(parent_id)}, a {_kind(parent.type)}", where=where,
                hint="only columns at the top and fields of structs have one value per row",
            )  # fmt: skip
        optional_parent = optional_parent or not parent.required
        parent_id = schema.parent_id(parent_id)
    return BoundReference(
        field_id=field.field_id,
        name=schema.column_name(field.field_id) or str(reference),
        type=field.type,
        nullable=nullable or optional_parent,
        nested=nested,
        optional_parent=optional_parent,
        path=schema.path(field.field_id),
    )


def _find(reference: Reference, schema: Schema, *, case_sensitive: bool, where: str) -> NestedField | None:
    if not isinstance(reference, NamedReference):
        return schema.field_by_id(reference.field_id)
    try:
        return schema.find_field(reference.name, case_sensitive)
    except InvalidSchema as exc:  # the name fits several columns
        raise InvalidInput(exc.message, where=where) from None


def _kind(type: Type) -> str:
    return str(type).partition("<")[0]


def _known_columns(schema: Schema) -> str:
    names = [field.name for field in schema.struct.fields[:11]]
    return "columns: " + ", ".join(names[:10]) + (", …" if len(names) > 10 else "")


def bind_predicate(op: Operation, term: BoundTerm, constants: tuple[Constant, ...], *, where: str) -> Expression:
    """`op` on a bound term, with `constants` as internal values of its type; simpler where that says the same.

    Raises InvalidInput naming `where` when the type does not have the operation or a constant means nothing in it.
    """
    if op in TESTS:
        return _bind_test(op, term, where)
    if term.type == UNKNOWN:  # always null
        return Truth(op in MATCHES_NULL)
    if not _comparable(term.type):
        raise InvalidInput(f"{term} has type {_kind(term.type)}, which only is-null and not-null apply to", where=where)
    if op in {"starts-with", "not-starts-with"} and term.type != STRING:
        raise InvalidInput(f"{op} is for strings, {term} has type {term.type}", where=where)
    places = [place(c, term.type, where=where) for c in constants]
    if op in {"in", "not-in"}:
        return set_predicate(op, term, [p.value for p in places if isinstance(p, Exact)])
    return _bind_comparison(op, term, places[0])


def _bind_test(op: Operation, term: BoundTerm, where: str) -> Expression:
    if op in {"is-nan", "not-nan"} and not term.floating:
        raise InvalidInput(f"{op} is for float and double, {term} has type {_kind(term.type)}", where=where)
    if op in {"is-null", "not-null"}:
        if term.type == UNKNOWN:
            return Truth(op == "is-null")
        if not term.nullable:
            return Truth(op == "not-null")
    return BoundPredicate(op, term)


def _comparable(type: Type) -> bool:
    if isinstance(type, PrimitiveType):
        return type.name != "variant"
    return isinstance(type, DecimalType | FixedType)


def _bind_comparison(op: Operation, term: BoundTerm, at: Place) -> Expression:
    if isinstance(at, Exact):
        return BoundPredicate(op, term, (at.value,))
    if op in {"eq", "not-eq"}:
        return Truth(op == "not-eq")
    if op in {"lt", "lt-eq"}:
        nearest, everything = at.below, at.above is None
    else:
        nearest, everything = at.above, at.below is None
    if nearest is None:
        return FALSE
    if everything:  # of the values; null is not less than anything
        return BoundPredicate("not-null", term) if term.nullable else TRUE
    return BoundPredicate(_CLOSED[op], term, (nearest,))
