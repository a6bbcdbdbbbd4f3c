"""The JSON form of what predicates are about: constants, references and partition transforms of them."""

from __future__ import annotations

import math
from typing import Any, Final

from firn.model.errors import InvalidInput, Unsupported
from firn.model.expressions.constants import Constant
from firn.model.expressions.predicates import (
    BoundTerm,
    BoundTransform,
    IdReference,
    NamedReference,
    Reference,
    Term,
    TransformTerm,
    transform_of,
)
from firn.model.json_members import INT_MAX, describe
from firn.model.transforms import Bucket, Identity, TimeTransform, Truncate, parse_transform
from firn.model.types import DOUBLE, Type, type_from_text
from firn.model.values import value_from_json, value_to_json

VALUES_MAX: Final = 100_000
"""Constants of one `in` or `not-in`."""

NAME_CHARS_MAX: Final = 10_000
"""Characters of a column's full name."""

ICEBERG_FUNCTIONS: Final = "iceberg_functions"
"""The reserved catalog of the functions that the specification defines."""

_PLAIN: Final = frozenset({"identity", "year", "month", "day", "hour"})
_WITH_WIDTH: Final = frozenset({"bucket", "truncate"})


# ---------------------------------------------------------------------------------------------------------------------
# Constants


def constant_from_json(obj: Any, *, where: str) -> Constant:
    """A constant: a bare value, or ``{"type": "literal", "value": …}`` with or without its ``data-type``."""
    if not isinstance(obj, dict):
        return _constant(obj, None, where)
    _check_type(obj, "literal", {"value", "data-type"}, where)
    if "value" not in obj:
        raise InvalidInput("missing, but required", where=f"{where}.value")
    return _constant(obj["value"], _data_type(obj, where), f"{where}.value")


def constants_from_json(obj: Any, *, where: str) -> tuple[Constant, ...]:
    """A set of constants: an array of them, or ``{"type": "literals", "values": […], "data-type": …}``."""
    data_type: Type | None = None
    if isinstance(obj, dict):
        _check_type(obj, "literals", {"values", "data-type"}, where)
        data_type = _data_type(obj, where)
        obj, where = obj.get("values"), f"{where}.values"
    if not isinstance(obj, list):
        raise InvalidInput(f"must be an array, not {describe(obj)}", where=where)
    if len(obj) > VALUES_MAX:
        raise InvalidInput(f"{len(obj)} constants, the limit is {VALUES_MAX}", where=where)
    if data_type is None:
        return tuple(constant_from_json(value, where=f"{where}[{i}]") for i, value in enumerate(obj))
    return tuple(_constant(value, data_type, f"{where}[{i}]") for i, value in enumerate(obj))


def _constant(value: Any, type: Type | None, where: str) -> Constant:
    if value is None:
        raise InvalidInput("null is not a constant", where=where, hint="use is-null or not-null")
    if type is not None:
        value = value_from_json(type, value, where=where, lenient=True)
    elif not isinstance(value, bool | int | float | str):
        raise InvalidInput(f"a constant cannot be {describe(value)}", where=where)
    if isinstance(value, float) and math.isnan(value):
        raise InvalidInput("NaN is not a constant", where=where, hint="use is-nan or not-nan")
    return Constant(value, type)


def _data_type(obj: dict[str, Any], where: str) -> Type | None:
    text = obj.get("data-type")
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidInput(f"must name a primitive type, not be {describe(text)}", where=f"{where}.data-type")
    return type_from_text(text, where=f"{where}.data-type")


def constant_to_json(constant: Constant) -> Any:
    """A constant: bare if a column decides what it means, else with its ``data-type``."""
    type = constant.type
    if type is None:
        if not isinstance(constant.value, float) or math.isfinite(constant.value):
            return constant.value
        type = DOUBLE  # JSON has no number for infinity
    return {"type": "literal", "value": value_to_json(type, constant.value), "data-type": str(type)}


def bound_constant(value: Any, type: Type) -> Any:
    """A bound predicate's constant: bare, as its column tells its type."""
    return value_to_json(type, value)


# ---------------------------------------------------------------------------------------------------------------------
# References and transforms


def term_from_json(obj: Any, *, where: str) -> Term:
    """A term of the older form: a name, ``{"type": "reference", …}`` or ``{"type": "transform", …}``."""
    if isinstance(obj, str):
        return _name(obj, where)
    if not isinstance(obj, dict):
        raise InvalidInput(f"a term is a name or an object, not {describe(obj)}", where=where)
    if obj.get("type") != "transform":
        return _reference(obj, where)
    _check_type(obj, "transform", {"transform", "term"}, where)
    reference = term_from_json(obj.get("term"), where=f"{where}.term")
    if isinstance(reference, TransformTerm):
        raise Unsupported("a transform of a transform", where=where)
    text = obj.get("transform")
    if not isinstance(text, str):
        raise InvalidInput(f"must be a string, not {describe(text)}", where=f"{where}.transform")
    transform_of(text, where=f"{where}.transform")
    return TransformTerm(text, reference)


def operand_from_json(obj: Any, *, where: str) -> Term | Constant:
    """An operand of today's form: a constant, a reference, or a partition transform of one."""
    if isinstance(obj, dict):
        if obj.get("type") == "reference":
            return _reference(obj, where)
        if obj.get("type") == "apply":
            return _apply(obj, where)
    return constant_from_json(obj, where=where)


def _reference(obj: dict[str, Any], where: str) -> Reference:
    _check_type(obj, "reference", {"id", "name", "term"}, where)
    given = sorted(obj.keys() - {"type"})
    if len(given) != 1:
        raise InvalidInput("a reference has an id or a name", where=where)
    value = obj[given[0]]
    if given[0] != "id":
        return _name(value, f"{where}.{given[0]}")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT_MAX:
        raise InvalidInput(f"a field id is an integer from 0 to {INT_MAX}", where=f"{where}.id")
    return IdReference(value)


def _name(value: Any, where: str) -> NamedReference:
    if not isinstance(value, str):
        raise InvalidInput(f"a column's name is a string, not {describe(value)}", where=where)
    if not 0 < len(value) <= NAME_CHARS_MAX:
        raise InvalidInput(f"a column's name has 1 to {NAME_CHARS_MAX} characters, not {len(value)}", where=where)
    return NamedReference(value)


def _apply(obj: dict[str, Any], where: str) -> Term:
    _check_type(obj, "apply", {"function", "arguments"}, where)
    name = _function(obj.get("function"), f"{where}.function")
    path = f"{where}.arguments"
    arguments = obj.get("arguments")
    if not isinstance(arguments, list):
        raise InvalidInput(f"must be an array, not {describe(arguments)}", where=path)
    wanted = 2 if name in _WITH_WIDTH else 1
    if len(arguments) != wanted:
        raise InvalidInput(f"{name} takes {wanted} arguments, not {len(arguments)}", where=path)
    operand = arguments[-1]
    if not isinstance(operand, dict) or operand.get("type") != "reference":
        raise Unsupported(f"{name} of anything but a column", where=f"{path}[{wanted - 1}]")
    reference = _reference(operand, f"{path}[{wanted - 1}]")
    if name == "identity":
        return reference
    if name in _PLAIN:
        return TransformTerm(name, reference)
    width = constant_from_json(arguments[0], where=f"{path}[0]").value
    if isinstance(width, bool) or not isinstance(width, int):
        raise InvalidInput(f"{name} takes an integer first", where=f"{path}[0]")
    if not 1 <= width <= INT_MAX:
        raise InvalidInput(f"{name} takes 1 to {INT_MAX}, not {width}", where=f"{path}[0]")
    return TransformTerm(f"{name}[{width}]", reference)


def _function(obj: Any, where: str) -> str:
    """The name of the partition transform that a function reference means."""
    catalog, identifier = None, obj
    if isinstance(obj, dict):
        catalog, identifier = obj.get("catalog"), obj.get("identifier")
    if isinstance(identifier, str):
        identifier = [identifier]
    if not isinstance(identifier, list) or not identifier or not all(isinstance(part, str) for part in identifier):
        raise InvalidInput("a function is a name, an array of names or an object with an identifier", where=where)
    name = ".".join(identifier)
    if catalog != ICEBERG_FUNCTIONS or name not in _PLAIN | _WITH_WIDTH:
        raise Unsupported(
            f"the function {name[:80]!r}", where=where,
            hint=f"only the partition transforms of the catalog {ICEBERG_FUNCTIONS} can be called",
        )  # fmt: skip
    return name


def _check_type(obj: dict[str, Any], wanted: str, members: set[str], where: str) -> None:
    kind = obj.get("type")
    if not isinstance(kind, str) or kind.lower() != wanted:
        raise InvalidInput(f"must be {wanted!r} here, not {str(kind)[:40]!r}", where=f"{where}.type")
    if odd := sorted(obj.keys() - members - {"type"}):
        raise InvalidInput(f"{odd[0][:40]!r} does not belong in a {wanted}", where=where)


def term_to_json(term: Term) -> Any:
    """A term in the older form, which has names only."""
    if isinstance(term, TransformTerm):
        return {"type": "transform", "transform": term.transform, "term": term_to_json(term.reference)}
    assert isinstance(term, NamedReference)
    return term.name


def operand_to_json(term: Term) -> dict[str, Any]:
    """A term in today's form: a reference, or a function applied to one."""
    match term:
        case NamedReference(name):
            return {"type": "reference", "name": name}
        case IdReference(field_id):
            return {"type": "reference", "id": field_id}
    name, arguments = _call(term)
    function = {"catalog": ICEBERG_FUNCTIONS, "identifier": [name]}
    return {"type": "apply", "function": function, "arguments": [*arguments, operand_to_json(term.reference)]}


def _call(term: TransformTerm) -> tuple[str, list[int]]:
    match parse_transform(term.transform):
        case Bucket(buckets):
            return "bucket", [buckets]
        case Truncate(width):
            return "truncate", [width]
        case Identity() | TimeTransform() as transform:
            return str(transform), []
    raise Unsupported(f"{term.transform} is not a function of {ICEBERG_FUNCTIONS}")


def named(term: BoundTerm) -> Term:
    """The unbound term of a bound one, by name."""
    reference = NamedReference(term.reference.name)
    return TransformTerm(term.transform, reference) if isinstance(term, BoundTransform) else reference
