"""A table with a history by chance, made by everything that the pipeline can do to one, and the rows that it must hold.

What the rows must be is worked out here on values in Python, not by what reads or writes tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from firn.model.partitioning import PartitionSpec, partition_of
from firn.model.schema import Schema
from firn.model.transforms import parse_transform
from firn.model.types import (
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    UUID,
    DecimalType,
    FixedType,
    NestedField,
    StructType,
    Type,
    is_nested,
    is_primitive,
)
from firn.model.values import value_to_json
from firn.pipeline.compaction import compact
from firn.pipeline.compaction_rules import rules_of
from firn.pipeline.delete_files_rewrite import rewrite_delete_files
from firn.pipeline.firn_scan import shown
from firn.pipeline.merge import Clauses, Delete, Insert, Update, merge
from firn.pipeline.row_changes import Mode
from firn.pipeline.row_level import delete_where, update
from firn.pipeline.spark_types import spark_schema
from firn.pipeline.writes import append, overwrite
from firn.storage.arrow_rows import Row, batch_of_rows
from tests.interop.live_rows import projected
from tests.spark import by_hand
from tests.spark.lake import Lake, committed
from tests.spark.random_filters import leaves, random_condition, sql_constant
from tests.spark.random_rows import NAMES, OTHERS, SHOWN_BY_SPARK, random_field, random_row, random_schema, random_value
from tests.strategies.small_tables import flat

MODES: Final[tuple[Mode, ...]] = ("copy-on-write", "merge-on-read")
TRANSFORMS: Final = ("identity", "bucket[3]", "truncate[2]", "year", "month", "day", "hour", "void")
WIDER: Final[dict[Type, Type]] = {INT: LONG, FLOAT: DOUBLE, DecimalType(4, 1): DecimalType(18, 1)}


class RandomTable:
    """One table; `rows` are what it must hold, internal values by field id, and `log` what was done to it."""

    def __init__(self, lake: Lake, dice: Random) -> None:
        self.lake = lake
        self.dice = dice
        self.version = dice.choice([1, 2, 2, 3, 3, 3])
        others = tuple(type for type in OTHERS if self.version > 2 or not str(type).endswith("_ns"))
        self.types = SHOWN_BY_SPARK if dice.random() < 0.7 else SHOWN_BY_SPARK + others
        schema = random_schema(dice, types=self.types)
        self.rows: list[Row] = []
        self.log: list[str] = []
        self._ids = itertools.count(1)
        self._partition_names = itertools.count(1)
        partition = [] if dice.random() < 0.3 else self._partition_fields(schema, dice.randint(1, 2))
        self.born = self.version
        self.name = lake.create_as(schema, version=self.version, partition=partition)
        self._note(f"v{self.version} {schema.struct} partitioned by {partition}")

    @property
    def schema(self) -> Schema:
        return self.lake.view(self.name).schema

    @property
    def has_equality_deletes(self) -> bool:
        return any("eq-deletes" in line for line in self.log)

    @property
    def is_partitioned_by_floats(self) -> bool:
        """Whether there may be partitions of NaN, whose deletes PyIceberg does not find: NaN is not NaN to it."""
        metadata = self.lake.view(self.name).metadata
        columns = {field.field_id: field.type for schema in metadata.schemas for field in schema.fields_by_id.values()}
        return any(
            field.transform == "identity" and columns[field.source_id] in (FLOAT, DOUBLE)
            for spec in metadata.partition_specs
            for field in spec.fields
        )

    def grow(self, steps: int) -> None:
        """Two appends, and so many other changes."""
        self.append_by_hand()
        self.append_by_hand()
        changes: list[tuple[Callable[[], None], int]] = [
            (self.append_by_hand, 2), (self.append, 2), (self.delete, 4), (self.update, 4), (self.merge, 4),
            (self.change_schema, 3), (self.change_spec, 3), (self.compact, 2), (self.delete_by_key, 1),
            (self.rewrite_deletes, 1), (self.replace, 1), (self.upgrade, 1),
        ]  # fmt: skip
        works, weights = zip(*changes, strict=True)
        for work in self.dice.choices(works, weights, k=steps):
            work()

    def _note(self, what: str) -> None:
        self.log.append(what)

    # -- what comes ---------------------------------------------------------------------------------------------------

    def new_rows(self, count: int) -> list[Row]:
        return [random_row(self.dice, self.schema, id=next(self._ids)) for _ in range(count)]

    def frame(self, rows: list[Row], *, left_out: Iterable[str] = ()) -> DataFrame:
        """The rows in Spark, as it shows the table's types, without some columns."""
        kept = tuple(field for field in self.schema.fields if field.name not in left_out)
        schema = msgspec.structs.replace(self.schema, struct=StructType(kept))
        batch = shown(batch_of_rows(rows, schema), schema)
        return self.lake.spark.createDataFrame(pa.Table.from_batches([batch]), spark_schema(schema))

    def append_by_hand(self) -> None:
        """Rows in files that no Spark job wrote."""
        rows = self.new_rows(self.dice.randint(1, 12))
        self._note(f"append by hand {len(rows)}")
        files = by_hand.written(self.lake, self.name, batch_of_rows(rows, self.schema))
        self.lake.client.append(self.name, files).committed(60)
        self.rows += rows

    def append(self) -> None:
        """Rows from Spark, by the function or the data source; columns with a default may be left out."""
        rows = self.new_rows(self.dice.randint(0, 12))
        by_source = self.dice.random() < 0.3
        out = [
            field
            for field in self.schema.fields[1:]
            if (field.write_default is not None or not field.required) and self.dice.random() < 0.2
        ]
        for row in rows:
            row.update({field.field_id: field.write_default for field in out})
        frame = self.frame(rows, left_out=[field.name for field in out])
        self._note(f"append {len(rows)} without {[field.name for field in out]}, by source: {by_source}")
        if by_source:
            frame.write.format("firn").option("table", self.name).mode("append").save()
        else:
            committed(append(frame, self.name))
        self.rows += rows

    def replace(self) -> None:
        """All rows by others."""
        rows = self.new_rows(self.dice.randint(0, 8))
        self._note(f"overwrite by {len(rows)}")
        committed(overwrite(self.frame(rows), self.name))
        self.rows = rows

    # -- what goes or changes -----------------------------------------------------------------------------------------

    def delete(self) -> None:
        found, mode = random_condition(self.dice, self.schema, self.rows), self.dice.choice(MODES)
        self._note(f"delete {found.firn} {mode}")
        gone = [row for row in self.rows if found.keeps(row)]
        answer = delete_where(self.lake.spark, self.name, found.firn, **self._mode(mode))
        assert (answer is None) == (not gone)
        if answer is not None:
            committed(answer)
        self.rows = [row for row in self.rows if not found.keeps(row)]

    def update(self) -> None:
        found, mode = random_condition(self.dice, self.schema, self.rows), self.dice.choice(MODES)
        fields = self.dice.sample(self.schema.fields[1:], self.dice.randint(1, min(3, len(self.schema.fields) - 1)))
        values = {field.field_id: self._constant(field) for field in fields}
        fields = [field for field in fields if values[field.field_id] is not None or not field.required]
        if not fields:
            return
        values = {field.field_id: values[field.field_id] for field in fields}
        sql = {field.name: _spelled(field, values[field.field_id]) for field in fields}
        self._note(f"update {sql} where {found.firn} {mode}")
        changed = [row for row in self.rows if found.keeps(row)]
        answer = update(self.lake.spark, self.name, sql, found.firn, **self._mode(mode))
        assert (answer is None) == (not changed)
        if answer is not None:
            committed(answer)
        for row in changed:
            row.update(values)

    def _constant(self, field: NestedField) -> Any:
        """What the field is set to: a value, or null where it is nested."""
        return None if is_nested(field.type) else random_value(self.dice, field)

    def merge(self) -> None:
        """A source with some of the rows' ids and some new ones, and clauses by chance."""
        mode = self.dice.choice(MODES)
        known = [row[self._id] for row in self.rows]
        some = self.dice.sample(known, self.dice.randint(0, len(known)))
        source = self.new_rows(self.dice.randint(0, 4)) + [random_row(self.dice, self.schema, id=id) for id in some]
        deletes, inserts, others = (self.dice.random() < 0.5 for _ in range(3))
        clauses = Clauses(
            matched=(*((Delete("t.id % 3 = 0"),) if deletes else ()), Update(condition="s.id % 4 != 0")),
            not_matched=(Insert(),) if inserts else (),
            not_matched_by_source=(Delete("t.id % 2 = 0"),) if others else (),
        )
        self._note(f"merge {[row[self._id] for row in source]} deletes {deletes} inserts {inserts} {others} {mode}")
        answer = merge(self.frame(source), self.name, on="t.id = s.id", clauses=clauses, **self._mode(mode))
        if answer is not None:
            committed(answer)
        brought, after = {row[self._id]: row for row in source}, []
        for row in self.rows:
            id = row[self._id]
            if id in brought:
                if deletes and id % 3 == 0:
                    continue
                after.append(brought[id] if id % 4 else row)
            elif not (others and id % 2 == 0):
                after.append(row)
        self.rows = after + [row for row in source if inserts and row[self._id] not in known]

    def delete_by_key(self) -> None:
        """An equality delete file, as other engines write them, for the whole table or a row's partition."""
        specs, schema = self.lake.view(self.name).metadata.partition_specs, self.schema
        leaf = self.dice.choice([leaf for leaf in leaves(schema.struct) if len(leaf.ids) == 1])
        if self.version < 2 or not self.rows:
            return
        chosen = self.dice.choice(self.rows)
        whole = next((spec for spec in specs if not spec.fields), None)
        if whole is None and (len(specs) > 1 or len(self.lake.view(self.name).metadata.schemas) > 1):
            return  # whose rows are in which partition of which spec is not known here
        spec = specs[0] if whole is None else whole
        partition = _partition(spec, schema, chosen)
        value = leaf.of(chosen)
        self._note(f"eq-deletes {leaf.quoted} = {value!r} in {partition}")
        by_hand.delete_equal(self.lake, self.name, leaf.field.name, [value], partition=partition, spec=spec)
        self.rows = [
            row
            for row in self.rows
            if not (_same(leaf.of(row), value) and _same(_partition(spec, schema, row), partition))
        ]

    # -- what changes no row ------------------------------------------------------------------------------------------

    def compact(self) -> None:
        everything = self.dice.random() < 0.5
        self._note(f"compact, all: {everything}")
        properties = self.lake.view(self.name).metadata.properties
        outcome = compact(
            self.lake.spark, self.name, rules=rules_of(properties, min_input_files=2, rewrite_all=everything)
        )
        assert outcome.ok, str(outcome)

    def rewrite_deletes(self) -> None:
        if self.version > 1:
            self._note("rewrite delete files")
            rewrite_delete_files(self.lake.spark, self.name)

    def upgrade(self) -> None:
        if self.version < 3:
            self.version += 1
            self._note(f"upgrade to v{self.version}")
            self.lake.client.upgrade_format(self.name, self.version).committed(60)

    # -- the layout ---------------------------------------------------------------------------------------------------

    def change_schema(self) -> None:
        """One column more or less, with another name or a wider type."""
        view = self.lake.view(self.name)
        before, change = view.schema, self.lake.client.update_schema(self.name, base=view)
        structs = ["", *(field.name for field in before.fields if isinstance(field.type, StructType))]
        parent = self.dice.choice(structs)
        inside = before.struct if not parent else before.find_field(parent).type  # type: ignore[union-attr]
        assert isinstance(inside, StructType)
        used = {
            source for spec in view.metadata.partition_specs for field in spec.fields for source in field.source_ids
        }
        free = [field for field in inside.fields if field.name != "id" and field.field_id not in used]
        kind = self.dice.choice(["add", "add", "drop", "rename", "widen"])
        path = f"{parent}." if parent else ""
        new = next((name for name in self.dice.sample(NAMES, len(NAMES)) if inside_has_not(inside, name)), None)
        if kind == "add" and new:
            added = random_field(self.dice, new, types=self.types, depth=0 if parent else 1, required=False)
            default = random_value(self.dice, added) if self.version > 2 and is_primitive(added.type) else None
            if isinstance(default, float) and not math.isfinite(default):
                default = None
            self._note(f"add {path}{new} {added.type} default {default!r}")
            spelled = None if default is None else value_to_json(added.type, default)
            change.add_column(new, added.type, parent=parent or None, default=spelled)
        elif kind == "drop" and len(inside.fields) > 2 and (droppable := [f for f in free if is_primitive(f.type)]):
            gone = self.dice.choice(droppable)
            self._note(f"drop {path}{gone.name}")
            change.drop_column(f"{path}{gone.name}")
        elif kind == "rename" and free and new:
            renamed = self.dice.choice(free)
            self._note(f"rename {path}{renamed.name} to {new}")
            change.rename_column(f"{path}{renamed.name}", new)
        elif kind == "widen" and (narrow := [field for field in free if field.type in WIDER]):
            widened = self.dice.choice(narrow)
            self._note(f"widen {path}{widened.name}")
            change.update_type(f"{path}{widened.name}", WIDER[widened.type])
        else:
            return
        change.submit().committed(60)
        after = self.schema
        self.rows = [projected(row, after.struct, before.struct) for row in self.rows]

    def change_spec(self) -> None:
        """One partition field more or less."""
        view = self.lake.view(self.name)
        change = self.lake.client.update_spec(self.name, base=view)
        fields = [field for field in view.spec.fields if field.transform != "void"]
        if fields and self.dice.random() < 0.4:
            gone = self.dice.choice(fields)
            self._note(f"no more partitioned by {gone.name}")
            change.remove_field(gone.name)
        else:
            taken = {
                (field.source_ids, field.transform) for spec in view.metadata.partition_specs for field in spec.fields
            }
            found = [
                field
                for field in self._partition_fields(view.schema, 1)
                if ((field["source-id"],), field["transform"]) not in taken
            ]
            if not found:
                return
            source = view.schema.column_name(found[0]["source-id"])
            assert source is not None
            self._note(f"partitioned by {found[0]['transform']}({source}), too")
            change.add_field(source, found[0]["transform"], name=found[0]["name"])
        change.submit().committed(60)

    def _partition_fields(self, schema: Schema, count: int) -> list[dict[str, Any]]:
        """Partition fields in JSON, each of another column: identity, or a transform that its type has."""
        chosen = list(leaves(schema.struct))
        found: list[dict[str, Any]] = []
        for leaf in self.dice.sample(chosen, min(count, len(chosen))):
            # Iceberg's runtime and PyIceberg cannot read such partition values: tests/interop/features.py.
            identity = not isinstance(leaf.field.type, FixedType) and leaf.field.type not in (UUID, *OTHERS)
            fitting = [
                one
                for one in TRANSFORMS
                if parse_transform(one).can_transform(leaf.field.type) and (identity or one != "identity")
            ]
            found.append(
                {
                    "source-id": leaf.field.field_id,
                    "field-id": 1000 + len(found),
                    "name": f"part{next(self._partition_names)}",
                    "transform": self.dice.choice(fitting),
                }
            )
        return found

    @property
    def _id(self) -> int:
        return self.schema.ids_by_name["id"]

    def _mode(self, mode: Mode) -> dict[str, Any]:
        return {"mode": mode} if self.version > 1 else {}


def inside_has_not(struct: StructType, name: str) -> bool:
    """Whether a struct has no field of that name."""
    return name.lower() not in {field.name.lower() for field in struct.fields}


def _spelled(field: NestedField, value: Any) -> str:
    """A value in Spark's SQL."""
    (leaf,) = leaves(StructType((field,))) if is_primitive(field.type) else (None,)
    return "NULL" if leaf is None or value is None else sql_constant(leaf, value)


def _partition(spec: PartitionSpec, schema: Schema, row: Row) -> tuple[Any, ...]:
    return partition_of(spec, schema, flat(row, schema.struct)) if spec.fields else ()


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same to an equality delete: null is null, NaN is NaN, and zeros have signs."""
    return repr(one) == repr(other)
