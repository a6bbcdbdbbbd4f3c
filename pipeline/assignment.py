"""Values that are assigned to a table's columns: in the columns' types, fields of structs by their names.

Spark's own cast takes the fields of a struct by their places, whatever they are called: a source whose struct has the
same fields in another order would have them change places.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from firn.model.errors import InvalidInput
from firn.model.types import NestedField
from firn.pipeline.spark_types import spark_type


def assigned_value(rows: DataFrame, value: Column | str, field: NestedField) -> Column:
    """A Spark column, or SQL over the columns of `rows`, as a value of a column of the table.

    Raises InvalidInput for a struct whose fields do not have the names of the table's.
    """
    column = F.expr(value) if isinstance(value, str) else value
    wanted = spark_type(field.type)
    if isinstance(wanted, StructType | ArrayType | MapType):
        given = rows.select(column.alias(field.name)).schema.fields[0].dataType
        column = _by_name(column, given, wanted, where=field.name)
    return column.cast(wanted)


def _by_name(column: Column, given: DataType, wanted: DataType, *, where: str) -> Column:
    """The column with fields of structs in the places that `wanted` has them in; what else differs is for a cast."""
    if _agree(given, wanted, where=where):
        return column
    match given, wanted:
        case StructType(), StructType():
            inside = []
            for field in wanted.fields:
                own = given.fields[_place(given.names, field.name)]
                value = _by_name(column.getField(own.name), own.dataType, field.dataType, where=f"{where}.{field.name}")
                inside.append(value.alias(field.name))
            return F.when(column.isNotNull(), F.struct(*inside))
        case ArrayType(), ArrayType():
            elements = given.elementType, wanted.elementType
            return F.transform(column, lambda one: _by_name(one, *elements, where=f"{where}.element"))
        case MapType(), MapType():
            keys, values = (given.keyType, wanted.keyType), (given.valueType, wanted.valueType)
            entries = F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    _by_name(entry.getField("key"), *keys, where=f"{where}.key").alias("key"),
                    _by_name(entry.getField("value"), *values, where=f"{where}.value").alias("value"),
                ),
            )
            return F.map_from_entries(entries)
    return column


def _agree(given: DataType, wanted: DataType, *, where: str) -> bool:
    """Whether structs have their fields in the same places. Raises InvalidInput where the names are others."""
    match given, wanted:
        case StructType(), StructType():
            places = _places(given.names, wanted.names, where=where)
            same = [
                _agree(given.fields[at].dataType, field.dataType, where=f"{where}.{field.name}")
                for at, field in zip(places, wanted.fields, strict=True)
            ]
            return all(same) and places == list(range(len(places)))
        case ArrayType(), ArrayType():
            return _agree(given.elementType, wanted.elementType, where=f"{where}.element")
        case MapType(), MapType():
            keys = _agree(given.keyType, wanted.keyType, where=f"{where}.key")
            return _agree(given.valueType, wanted.valueType, where=f"{where}.value") and keys
    return True


def _places(given: Sequence[str], wanted: Sequence[str], *, where: str) -> list[int]:
    """Where each wanted name is among the given."""
    places = [_place(given, name) for name in wanted]
    if -1 in places or len(given) != len(wanted) or len(set(places)) != len(places):
        raise InvalidInput(
            f"has the fields {', '.join(given)}, and the table's column has {', '.join(wanted)}",
            where=where,
            hint="name every field as the table does: named_struct('name', value, …)",
        )
    return places


def _place(given: Sequence[str], name: str) -> int:
    """Where a name is, exactly or without case where that fits one; -1 if it is not there."""
    if name in given:
        return given.index(name)
    alike = [at for at, one in enumerate(given) if one.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else -1
