"""The JSON form of expressions (Iceberg "Expressions Spec", Appendix B, and the REST specification's `Predicate`).

Both forms are read: today's (``child``, ``left`` and ``right``, references as objects) and the one before it
(``term`` and ``value``), which all clients so far write and read, and which is written unless asked otherwise.
Constants, references and transforms are in `firn.model.expressions.operand_json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from firn.model.errors import InvalidInput, Unsupported
from firn.model.expressions.binding import EXPRESSION_DEPTH_MAX
from firn.model.expressions.constants import Constant
from firn.model.expressions.operand_json import (
    bound_constant,
    constant_from_json,
    constant_to_json,
    constants_from_json,
    named,
    operand_from_json,
    operand_to_json,
    term_from_json,
    term_to_json,
)
from firn.model.expressions.predicates import (
    MEMBERSHIPS,
    OPERATIONS,
    TESTS,
    And,
    BoundPredicate,
    Expression,
    IdReference,
    Not,
    Operation,
    Or,
    Predicate,
    Term,
    TransformTerm,
    Truth,
    and_,
    not_,
    or_,
)
from firn.model.json_members import describe

PREDICATES_MAX: Final = 10_000
"""Predicates and operators in one expression."""

Form = Literal["term", "value"]
"""``term`` is what every client reads, ``value`` the expressions spec's own."""

_MIRRORED: Final[Mapping[str, Operation]] = {
    "lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq",
}  # fmt: skip


def expression_from_json(obj: Any, *, where: str = "filter") -> Expression:
    """The unbound expression of a decoded JSON value.

    Raises InvalidInput with the path of the offending member: ``filter.and[2].value`` is the value of the third operand
    of a chain of ands, however the chain is nested. Chains of one operator are one level; more than
    EXPRESSION_DEPTH_MAX levels or PREDICATES_MAX parts are refused. Raises Unsupported for what the specification has
    and firn does not: comparing two columns, and functions that are not partition transforms.
    """
    return _Reader().read(obj, where=where, depth=0)


class _Reader:
    """One reading, which counts what it has read."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, obj: Any, *, where: str, depth: int) -> Expression:
        if depth > EXPRESSION_DEPTH_MAX:
            raise InvalidInput(f"more than {EXPRESSION_DEPTH_MAX} levels deep", where=where)
        self._counted(where)
        if isinstance(obj, bool):
            return Truth(obj)
        if not isinstance(obj, dict):
            raise InvalidInput(f"a predicate is a boolean or an object, not {describe(obj)}", where=where)
        match _kind(obj, where):
            case "true" | "false" as kind:
                return Truth(kind == "true")
            case "literal" if isinstance(obj.get("value"), bool):  # Java reads this as a predicate
                return Truth(obj["value"])
            case "not":
                return not_(self.read(_member(obj, "child", where), where=f"{where}.not", depth=depth + 1))
            case "and" | "or" as kind:
                operands = [
                    self.read(operand, where=f"{where}.{kind}[{i}]", depth=depth + 1)
                    for i, operand in enumerate(self._operands(obj, kind, where))
                ]
                return and_(*operands) if kind == "and" else or_(*operands)
            case kind if kind in OPERATIONS:
                return _predicate(kind, obj, where)  # type: ignore[arg-type]
            case kind:
                raise InvalidInput(f"unknown predicate type {kind[:40]!r}", where=f"{where}.type")

    def _operands(self, obj: dict[str, Any], kind: str, where: str) -> list[Any]:
        """What a chain of one operator combines, from left to right, without recursion into the chain."""
        found: list[Any] = []
        waiting: list[Any] = [obj]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict) and isinstance(part.get("type"), str) and _kind(part, where) == kind:
                self._counted(where)
                waiting += [_member(part, "right", where), _member(part, "left", where)]
            else:
                found.append(part)
        return found

    def _counted(self, where: str) -> None:
        self._count += 1
        if self._count > PREDICATES_MAX:
            raise InvalidInput(f"more than {PREDICATES_MAX} predicates and operators", where=where)


def _kind(obj: dict[str, Any], where: str) -> str:
    kind = obj.get("type")
    if not isinstance(kind, str):
        raise InvalidInput(f"must be a string, not {describe(kind)}", where=f"{where}.type")
    return kind.lower().replace("_", "-")


def _member(obj: dict[str, Any], key: str, where: str) -> Any:
    if key not in obj:
        raise InvalidInput("missing, but required", where=f"{where}.{key}")
    return obj[key]


def _predicate(op: Operation, obj: dict[str, Any], where: str) -> Expression:
    if op in TESTS:
        _check_members(obj, ("child",), ("term",), where)
        return Predicate(op, _term(obj, where))
    if op in MEMBERSHIPS:
        _check_members(obj, ("child", "values"), ("term", "values"), where)
        constants = constants_from_json(_member(obj, "values", where), where=f"{where}.values")
        return Predicate(op, _term(obj, where), constants)
    if _check_members(obj, ("left", "right"), ("term", "value"), where) == "term":
        value = constant_from_json(_member(obj, "value", where), where=f"{where}.value")
        return Predicate(op, _term(obj, where), (value,))
    return _comparison(op, obj, where)


def _check_members(obj: dict[str, Any], value: Sequence[str], term: Sequence[str], where: str) -> Form:
    """Which form `obj` is in; raises for a mixture and for members of neither: they would change its meaning."""
    form: Form = "term" if "term" in obj or "value" in obj else "value"
    known = {"type", *(term if form == "term" else value)}
    if odd := sorted(obj.keys() - known):
        raise InvalidInput(f"{odd[0][:40]!r} does not belong here, only {', '.join(sorted(known))} do", where=where)
    return form


def _term(obj: dict[str, Any], where: str) -> Term:
    if "term" in obj:
        return term_from_json(obj["term"], where=f"{where}.term")
    path = f"{where}.child"
    operand = operand_from_json(_member(obj, "child", where), where=path)
    if isinstance(operand, Constant):
        raise Unsupported("a test of a constant", where=path)
    return operand


def _comparison(op: Operation, obj: dict[str, Any], where: str) -> Expression:
    left = operand_from_json(_member(obj, "left", where), where=f"{where}.left")
    right = operand_from_json(_member(obj, "right", where), where=f"{where}.right")
    if isinstance(left, Constant) and not isinstance(right, Constant) and op in _MIRRORED:
        return Predicate(_MIRRORED[op], right, (left,))
    if isinstance(left, Constant) or not isinstance(right, Constant):
        raise Unsupported(f"{op} compares a column with a constant here, in this order", where=where)
    return Predicate(op, left, (right,))


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def expression_to_json(expr: Expression, *, form: Form = "term") -> Any:
    """The JSON value of an expression, bound or not; columns by name, except those that were given by id.

    In the ``term`` form only a reference by id is written in the newer one, as it has no other. Of a bound expression
    the constants are single values in the JSON form of their column's type.
    """
    match expr:
        case Truth(value):
            return value
        case Not(child):
            return {"type": "not", "child": expression_to_json(child, form=form)}
        case And(children):
            return _chain("and", [expression_to_json(child, form=form) for child in children])
        case Or(children):
            return _chain("or", [expression_to_json(child, form=form) for child in children])
        case Predicate(op, term, constants):
            return _predicate_to_json(op, term, list(map(constant_to_json, constants)), form)
        case BoundPredicate(op, term, values):
            return _predicate_to_json(op, named(term), [bound_constant(v, term.type) for v in values], form)
    raise AssertionError(expr)


def _chain(kind: str, operands: list[Any]) -> Any:
    """A balanced tree of a binary operator: as shallow as can be, for readers with a limit."""
    if len(operands) == 1:
        return operands[0]
    middle = (len(operands) + 1) // 2
    return {"type": kind, "left": _chain(kind, operands[:middle]), "right": _chain(kind, operands[middle:])}


def _predicate_to_json(op: Operation, term: Term, constants: list[Any], form: Form) -> dict[str, Any]:
    reference = term.reference if isinstance(term, TransformTerm) else term
    old = form == "term" and not isinstance(reference, IdReference)
    column = term_to_json(term) if old else operand_to_json(term)
    if op in TESTS:
        return {"type": op, "term" if old else "child": column}
    if op in MEMBERSHIPS:
        return {"type": op, "term" if old else "child": column, "values": constants}
    if old:
        return {"type": op, "term": column, "value": constants[0]}
    return {"type": op, "left": column, "right": constants[0]}
