"""How rows are laid out in the files that a compaction writes: as they come, sorted, or in z-order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField
from pyspark.sql.types import StructType as SparkStruct

from firn.model.errors import InvalidInput
from firn.model.metadata import TableMetadata
from firn.model.sorting import UNSORTED, SortBy, SortOrder, replace_order
from firn.pipeline.arrow_batches import mended
from firn.pipeline.column_names import named_column
from firn.pipeline.compaction_plan import FileGroup
from firn.pipeline.distribution import distribute, partition_keys
from firn.pipeline.named_batches import map_batches
from firn.pipeline.spark_types import spark_schema
from firn.pipeline.user_columns import fresh_name
from firn.pipeline.write_target import WriteTarget
from firn.pipeline.z_order import SAMPLE_ROWS, ZOrder, z_fields

Strategy = Literal["bin-pack", "sort", "z-order"]
"""``bin-pack``: rows as they come, without a shuffle where that is possible. ``sort``: by a sort order, so that files
are narrow in its first column. ``z-order``: files are narrow in several columns."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy and what it goes by; `order` is for ``sort``, `columns` are for ``z-order``."""

    strategy: Strategy
    order: SortOrder = UNSORTED
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, strategy: Strategy, by: Sequence[str | SortBy], metadata: TableMetadata) -> Layout:
        """The layout that is asked for.

        Raises InvalidInput for columns that do not fit the strategy or the table, Unsupported for a table that Spark
        cannot sort because it has no types for its columns.
        """
        if strategy != "bin-pack":
            spark_schema(metadata.current_schema)
        match strategy:
            case "bin-pack":
                if by:
                    raise InvalidInput("bin-pack leaves rows as they come", where="by", hint="strategy='sort'")
                return cls(strategy=strategy)
            case "sort":
                return cls(strategy=strategy, order=_order(by, metadata))
            case "z-order":
                names = tuple(one if isinstance(one, str) else one.source for one in by)
                z_fields(metadata.current_schema, names)
                return cls(strategy=strategy, columns=names)
        raise InvalidInput(f"is bin-pack, sort or z-order, not {strategy!r}", where="strategy")

    def sort_order_id(self, metadata: TableMetadata) -> int | None:
        """The id that the new files' entries name: of an order that the table knows, and rows are in."""
        return self.order.order_id if self.order.is_sorted and self.order in metadata.sort_orders else None

    def arranged(self, rows: DataFrame, *, group: FileGroup, target: WriteTarget) -> DataFrame:
        """The rows of a group in as many tasks as there are to be files, each in the order of its file."""
        schema, spec, tasks = target.schema, target.spec, group.outputs
        if self.strategy == "z-order":
            return self._z_ordered(rows, group=group, target=target)
        if self.strategy == "sort":
            return distribute(rows, schema=schema, spec=spec, order=self.order, mode="range", tasks=tasks)
        if group.of_old_specs:
            return distribute(rows, schema=schema, spec=spec, order=UNSORTED, mode="hash", tasks=tasks)
        return rows.coalesce(tasks)

    def _z_ordered(self, rows: DataFrame, *, group: FileGroup, target: WriteTarget) -> DataFrame:
        fields = z_fields(target.metadata.current_schema, self.columns)
        columns = rows.select([named_column(field.name) for field in fields])
        share = SAMPLE_ROWS / max(1, sum(task.file.record_count for task in group.tasks))
        sample = columns if share >= 1 else columns.sample(fraction=share, seed=0)
        key = fresh_name("__firn_z", rows.columns)
        with_keys = _WithKeys(ZOrder.of(fields, sample.toArrow()), key)
        keyed = map_batches(rows, with_keys, SparkStruct([*rows.schema.fields, StructField(key, BinaryType())]))
        places = partition_keys(keyed, schema=target.schema, spec=target.spec) if group.of_old_specs else []
        ranged = keyed.repartitionByRange(group.outputs, *places, F.col(key))
        return ranged.sortWithinPartitions(*places, F.col(key)).drop(key)


class _WithKeys:
    """What a task does: give every row its key."""

    def __init__(self, order: ZOrder, key: str) -> None:
        self._order = order
        self._key = key

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in map(mended, batches):
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, self._order.keys(batch)], [*batch.schema.names, self._key]
            )


def _order(by: Sequence[str | SortBy], metadata: TableMetadata) -> SortOrder:
    if not by:
        if not metadata.default_order.is_sorted:
            raise InvalidInput("the table has no sort order", where="by", hint="say what to sort by")
        return metadata.default_order
    keys = [SortBy(source=one) if isinstance(one, str) else one for one in by]
    return replace_order(
        keys, metadata.current_schema, orders=metadata.sort_orders, format_version=metadata.format_version, where="by"
    )
