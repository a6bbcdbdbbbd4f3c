"""Filters by chance, in the words of each reader, and what they keep by the meaning that SQL gives them."""

from __future__ import annotations

import math
import operator
import uuid
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

import msgspec
from pyiceberg import expressions

from firn.model.schema import Schema
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    STRING,
    TIME,
    UUID,
    FixedType,
    NestedField,
    StructType,
    is_primitive,
)
from firn.model.values import value_to_json
from firn.pipeline.sql_literals import sql_literal
from firn.storage.arrow_rows import Row
from tests.spark.random_rows import random_value

pyiceberg: Any = expressions
"""Its expressions, which take arguments that their types do not tell of."""

COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
OPPOSITES: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
IN_PYICEBERG: Final[dict[str, Any]] = {
    "=": pyiceberg.EqualTo, "!=": pyiceberg.NotEqualTo, "<": pyiceberg.LessThan, "<=": pyiceberg.LessThanOrEqual,
    ">": pyiceberg.GreaterThan, ">=": pyiceberg.GreaterThanOrEqual,
}  # fmt: skip

Keeps = Callable[[Row], bool | None]


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One filter: `firn` is its text for firn, `sql` Spark's; `keeps` says whether it holds, None for unknown.

    `python` is the expression for PyIceberg, None where that cannot compare such a column.
    """

    firn: str
    sql: str
    keeps: Keeps
    python: expressions.BooleanExpression | None


class Leaf(msgspec.Struct, frozen=True):
    """A column that can be compared: its dotted name, in quotes of each language, and the ids that lead to it."""

    field: NestedField
    names: tuple[str, ...]
    ids: tuple[int, ...]

    @property
    def quoted(self) -> str:
        return ".".join(f"`{name.replace('`', '``')}`" for name in self.names)

    def of(self, row: Row) -> Any:
        value: Any = row
        for field_id in self.ids:
            value = None if value is None else value[field_id]
        return value


def leaves(struct: StructType, *, names: tuple[str, ...] = (), ids: tuple[int, ...] = ()) -> Iterator[Leaf]:
    """The columns of a schema that are neither nested nor inside lists or maps."""
    for field in struct.fields:
        place = (*names, field.name), (*ids, field.field_id)
        if isinstance(field.type, StructType):
            yield from leaves(field.type, names=place[0], ids=place[1])
        elif is_primitive(field.type):
            yield Leaf(field, *place)


def random_condition(dice: Random, schema: Schema, rows: Sequence[Row], *, depth: int = 2) -> Condition:
    """A condition on the columns of `schema`; its constants are often values of the rows."""
    if depth == 0 or dice.random() < 0.4:
        return _predicate(dice, dice.choice(list(leaves(schema.struct))), rows)
    one = random_condition(dice, schema, rows, depth=depth - 1)
    other = random_condition(dice, schema, rows, depth=depth - 1)
    return _joined(dice.choice(["AND", "OR"]), one, other)


def _joined(word: str, one: Condition, other: Condition) -> Condition:
    def keeps(row: Row) -> bool | None:
        found = {one.keeps(row), other.keeps(row)}
        decided = word == "OR"
        return decided if decided in found else None if None in found else not decided

    python = None
    if one.python is not None and other.python is not None:
        python = (pyiceberg.And if word == "AND" else pyiceberg.Or)(one.python, other.python)
    firn, sql = (f"({left}) {word} ({right})" for left, right in ((one.firn, other.firn), (one.sql, other.sql)))
    return Condition(firn=firn, sql=sql, keeps=keeps, python=python)


def _predicate(dice: Random, leaf: Leaf, rows: Sequence[Row]) -> Condition:
    kind = dice.random()
    if kind < 0.15:
        return _null(leaf, is_null=dice.random() < 0.5)
    if kind < 0.2 and leaf.field.type in (FLOAT, DOUBLE):
        return _nan(leaf)
    if kind < 0.35:
        return _among(leaf, [_constant(dice, leaf, rows) for _ in range(dice.randint(1, 3))])
    if kind < 0.5 and leaf.field.type == STRING:
        return _prefix(leaf, dice.choice(["a", "ab", "it's", "1", ""]))
    return _comparison(dice, leaf, _constant(dice, leaf, rows))


def _constant(dice: Random, leaf: Leaf, rows: Sequence[Row]) -> Any:
    """A value of the column, or one that it may have; never null or NaN."""
    known = [value for row in rows if (value := leaf.of(row)) is not None]
    required = msgspec.structs.replace(leaf.field, required=True)
    while True:
        value = dice.choice(known) if known and dice.random() < 0.7 else random_value(dice, required)
        if not (isinstance(value, float) and math.isnan(value)):
            return value


def _null(leaf: Leaf, *, is_null: bool) -> Condition:
    text = f"{leaf.quoted} IS {'' if is_null else 'NOT '}NULL"
    python = (pyiceberg.IsNull if is_null else pyiceberg.NotNull)(_reference(leaf))
    return Condition(firn=text, sql=text, keeps=lambda row: (leaf.of(row) is None) == is_null, python=python)


def _nan(leaf: Leaf) -> Condition:
    def keeps(row: Row) -> bool:
        value = leaf.of(row)
        return value is not None and math.isnan(value)

    python = pyiceberg.IsNaN(_reference(leaf))
    return Condition(firn=f"{leaf.quoted} IS NAN", sql=f"isnan({leaf.quoted})", keeps=keeps, python=python)


def _among(leaf: Leaf, values: list[Any]) -> Condition:
    def keeps(row: Row) -> bool | None:
        value = leaf.of(row)
        return None if value is None else value in values

    firn, sql = (", ".join(spell(leaf, value) for value in values) for spell in (firn_constant, sql_constant))
    python = None
    if _compared_by_pyiceberg(leaf):
        python = pyiceberg.In(_reference(leaf), {_python(leaf, value) for value in values})
    return Condition(firn=f"{leaf.quoted} IN ({firn})", sql=f"{leaf.quoted} IN ({sql})", keeps=keeps, python=python)


def _prefix(leaf: Leaf, prefix: str) -> Condition:
    def keeps(row: Row) -> bool | None:
        value = leaf.of(row)
        return None if value is None else value.startswith(prefix)

    firn = f"{leaf.quoted} STARTS WITH {firn_constant(leaf, prefix)}"
    sql = f"startswith({leaf.quoted}, {sql_constant(leaf, prefix)})"
    return Condition(firn=firn, sql=sql, keeps=keeps, python=pyiceberg.StartsWith(_reference(leaf), prefix))


def _comparison(dice: Random, leaf: Leaf, constant: Any) -> Condition:
    symbol, negated = dice.choice(list(COMPARED)), dice.random() < 0.2
    floating = leaf.field.type in (FLOAT, DOUBLE)
    meant = OPPOSITES[symbol] if negated else symbol

    def keeps(row: Row) -> bool | None:
        value = leaf.of(row)
        return None if value is None else COMPARED[meant](value, constant)

    firn = f"{leaf.quoted} {symbol} {firn_constant(leaf, constant)}"
    sql = f"{leaf.quoted} {meant} {sql_constant(leaf, constant)}"
    if floating and meant in {">", ">="}:  # NaN is the greatest number to Spark, and to Iceberg it compares with none
        sql = f"({sql} AND NOT isnan({leaf.quoted}))"
    python = None
    if _compared_by_pyiceberg(leaf):
        python = IN_PYICEBERG[meant](_reference(leaf), _python(leaf, constant))
        if meant == "!=":
            python = pyiceberg.And(pyiceberg.NotNull(_reference(leaf)), python)
    return Condition(firn=f"NOT {firn}" if negated else firn, sql=sql, keeps=keeps, python=python)


# -- constants --------------------------------------------------------------------------------------------------------


def firn_constant(leaf: Leaf, value: Any) -> str:
    """A constant in the text of a filter for firn."""
    type = leaf.field.type
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    spelled = value_to_json(type, value)
    return str(spelled) if isinstance(value, float | int) and not isinstance(spelled, str) else f"'{spelled}'"


def sql_constant(leaf: Leaf, value: Any) -> str:
    """A constant in Spark's SQL, as the column is shown in Spark."""
    return f"'{value}'" if isinstance(value, uuid.UUID) else sql_literal(leaf.field.type, value)


def _reference(leaf: Leaf) -> pyiceberg.Reference:
    return pyiceberg.Reference(".".join(leaf.names))


def _compared_by_pyiceberg(leaf: Leaf) -> bool:
    """Whether PyIceberg can compare such a column: not what pyarrow has no comparison for, nor names with dots."""
    return leaf.field.type not in (UUID, BINARY, TIME, BOOLEAN) and not isinstance(leaf.field.type, FixedType)


def _python(leaf: Leaf, value: Any) -> Any:
    spelled = value_to_json(leaf.field.type, value)
    return value if isinstance(value, int | float | str) and not isinstance(spelled, str) else spelled
