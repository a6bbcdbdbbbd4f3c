"""Iceberg's types as Spark's, and back.

What Spark does not have is shown as something that holds every value: uuid as text, time as microseconds and nanosecond
timestamps as nanoseconds (long), fixed as binary.
"""

from __future__ import annotations

from typing import Any, Final

import pyspark.sql.types as spark_types
from pyspark.sql.types import ArrayType as SparkArray
from pyspark.sql.types import DataType, StructField
from pyspark.sql.types import DecimalType as SparkDecimal
from pyspark.sql.types import MapType as SparkMap
from pyspark.sql.types import StructType as SparkStruct

from firn.model.errors import Unsupported
from firn.model.schema import Schema, assign_fresh_ids
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
)

FIELD_ID_KEY: Final = "parquet.field.id"
"""Metadata of a Spark field by which Spark's Parquet reader finds its column."""

_SPARK: Final[dict[Type, DataType]] = {
    BOOLEAN: spark_types.BooleanType(),
    INT: spark_types.IntegerType(),
    LONG: spark_types.LongType(),
    FLOAT: spark_types.FloatType(),
    DOUBLE: spark_types.DoubleType(),
    DATE: spark_types.DateType(),
    TIME: spark_types.LongType(),
    TIMESTAMP: spark_types.TimestampNTZType(),
    TIMESTAMPTZ: spark_types.TimestampType(),
    TIMESTAMP_NS: spark_types.LongType(),
    TIMESTAMPTZ_NS: spark_types.LongType(),
    STRING: spark_types.StringType(),
    UUID: spark_types.StringType(),
    BINARY: spark_types.BinaryType(),
    UNKNOWN: spark_types.NullType(),
}
_ICEBERG: Final[dict[str, Type]] = {
    "boolean": BOOLEAN, "tinyint": INT, "smallint": INT, "int": INT, "bigint": LONG, "float": FLOAT, "double": DOUBLE,
    "date": DATE, "timestamp_ntz": TIMESTAMP, "timestamp": TIMESTAMPTZ, "string": STRING, "binary": BINARY,
}  # fmt: skip


def spark_schema(schema: Schema) -> SparkStruct:
    """The Spark type of a table's rows. Raises Unsupported for variant, geometry and geography."""
    return SparkStruct([spark_field(field) for field in schema.fields])


def spark_field(field: NestedField) -> StructField:
    """One column with its id as metadata."""
    return StructField(field.name, spark_type(field.type), not field.required, {FIELD_ID_KEY: field.field_id})


def spark_type(type: Type) -> DataType:
    """The Spark type that shows values of `type`; Unsupported where there is none.

    Whatever is inside of it may be null, though the table requires it: Arrow has null there where all of a struct is
    null, and Spark casts nothing to what may not be null. Writers look at the values.
    """
    match type:
        case StructType():
            fields = [spark_field(field) for field in type.fields]
            return SparkStruct([StructField(one.name, one.dataType, metadata=one.metadata) for one in fields])
        case ListType():
            return SparkArray(spark_type(type.element))
        case MapType():
            return SparkMap(spark_type(type.key), spark_type(type.value))
        case DecimalType(precision=precision, scale=scale):
            return SparkDecimal(precision, scale)
        case FixedType():
            return spark_types.BinaryType()
    found = _SPARK.get(type)
    if found is None:
        raise Unsupported(f"columns of type {type} are not read into Spark", hint="name the columns that you need")
    return found


def schema_of_spark(struct: SparkStruct) -> Schema:
    """The table schema of a DataFrame's, to create a table from; ids are given from 1 on. Raises Unsupported."""
    fields = tuple(_field(field, at) for at, field in enumerate(struct.fields, 1))
    return assign_fresh_ids(Schema(schema_id=0, struct=StructType(fields)))[0]


def _field(field: StructField, field_id: int) -> NestedField:
    doc: Any = field.metadata.get("comment")
    return NestedField(
        field_id=field_id,
        name=field.name,
        type=_type(field.dataType, where=field.name),
        required=not field.nullable,
        doc=doc,
    )


def _type(type: DataType, *, where: str) -> Type:
    match type:
        case SparkStruct():
            return StructType(tuple(_field(field, at) for at, field in enumerate(type.fields, 1)))
        case SparkArray():
            return ListType(
                element_id=1, element=_type(type.elementType, where=where), element_required=not type.containsNull
            )
        case SparkMap():
            return MapType(
                key_id=1,
                key=_type(type.keyType, where=where),
                value_id=2,
                value=_type(type.valueType, where=where),
                value_required=not type.valueContainsNull,
            )
        case SparkDecimal():
            return DecimalType(type.precision, type.scale)
    found = _ICEBERG.get(type.simpleString())
    if found is None:
        raise Unsupported(f"Spark type {type.simpleString()} has no Iceberg type", where=where)
    return found
