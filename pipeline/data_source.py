"""The data source ``firn`` of Spark: ``df.write.format("firn")``, SQL, and streams.

Register it with `register(spark)`. Options: ``table``, those of `Connection.of_options`, ``branch``, and for reads
``snapshot-id``, ``ref``, ``as-of`` (a time with its zone), ``columns`` (with commas) and ``filter``. What a data source
in Python cannot do, prune files and columns by the query and distribute rows before they are written,
`firn.pipeline.reads` and `firn.pipeline.writes` do.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import datasource as spark_source
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.types import StructType as SparkStruct

from firn.coordinator.client.table_view import TableView
from firn.model.errors import InvalidInput, Unsupported
from firn.model.expressions.predicates import TRUE
from firn.model.metadata import TableMetadata
from firn.model.scan_plan import FileScanTask, ScanPlan
from firn.model.snapshot import MAIN_BRANCH
from firn.model.spelling import refuse_unknown
from firn.pipeline.connection import Connection
from firn.pipeline.filtered_batches import filtered_batches
from firn.pipeline.firn_scan import shown
from firn.pipeline.reads import epoch_ms, filter_ids, with_filter_columns
from firn.pipeline.row_filter import parse_filter
from firn.pipeline.source_writers import BatchWriter, StreamWriter
from firn.pipeline.spark_types import spark_schema
from firn.pipeline.task_rows import TaskReader
from firn.pipeline.write_target import without_history
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan

_Parsed = TypeVar("_Parsed")

NAME: Final = "firn"
_OPTIONS: Final[tuple[str, ...]] = (
    "table", "path", "config", "redis", "prefix", "zookeeper", "files", "timeout", "branch", "ref", "snapshot-id",
    "as-of", "columns", "filter", "overwrite-mode", "writer", "checkpointlocation",
)  # fmt: skip
SPARK_OPTIONS: Final = frozenset({
    "queryname", "outputmode", "serialization.format", "mergeschema", "provider", "location", "owner", "comment",
    "external", "is_managed_location", "collation", "transient_lastddltime",
})  # fmt: skip
"""What Spark itself adds to the options of a source; of a table of its catalog, the table's properties."""

_COPY: Final = "option."
"""Spark gives each option of a table of its catalog a second time, with this before its name."""

_NOTE: Final = "firn.options"
"""Metadata of a schema's first column: the options that the table of Spark's catalog was created with."""

_NAME_IT: Final = ".option('table', 'db.events'); in SQL: INSERT INTO events WITH (table = 'db.events') SELECT …"


def register(spark: SparkSession, connection: Connection | None = None) -> None:
    """Make ``firn`` known to the session; `connection` is where firn is unless options say otherwise.

    Without it, the session's ``spark.firn.*`` settings say it, as they are now.
    """
    found = Connection.of_spark(spark) if connection is None else connection

    class Bound(FirnSource):
        """The source with the session's connection, which Spark's own processes cannot see."""

        defaults = found.options()

    spark.dataSource.register(Bound)


class FirnSource(DataSource):
    """A firn table as a data source."""

    defaults: Mapping[str, str] = {}

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        lowered = {name.lower(): value for name, value in options.items()}
        given = (name for name in lowered if not name.startswith(_COPY) and name not in SPARK_OPTIONS)
        refuse_unknown(given, _OPTIONS)
        self._given: dict[str, str] = {name: lowered[name] for name in _OPTIONS if name in lowered}

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> SparkStruct:
        options = self._options(None)
        view = _view(options)
        found = spark_schema(plan_of(view, Connection.of_options(options), options).projection)
        # Spark keeps the schema of a table of its catalog, and forgets its options when it reads and writes it.
        note = msgspec.json.encode(self._given).decode()
        found.fields[0].metadata = {**(found.fields[0].metadata or {}), _NOTE: note}
        return found

    def reader(self, schema: SparkStruct) -> DataSourceReader:
        options = self._options(schema)
        return FirnReader(_view(options), Connection.of_options(options), options)

    def writer(self, schema: SparkStruct, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's shape
        options = self._options(schema)
        return BatchWriter(_view(options), Connection.of_options(options), options, overwrite=overwrite)

    def streamWriter(self, schema: SparkStruct, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        if not hasattr(spark_source, "DataSourceStreamArrowWriter"):
            raise Unsupported("this Spark hands streams over row by row", hint="use firn.pipeline.streams.stream_to")
        if overwrite:
            raise Unsupported("a stream appends to a firn table", hint="outputMode('append')")
        options = self._options(schema)
        return StreamWriter(_view(options), Connection.of_options(options), options)

    def _options(self, schema: SparkStruct | None) -> dict[str, str]:
        """The options: given now, or when the table of Spark's catalog was created, or the session's."""
        noted: dict[str, str] = {}
        for field in () if schema is None else schema.fields:
            note = (field.metadata or {}).get(_NOTE)
            if isinstance(note, str) and "table" not in self._given:
                noted = msgspec.json.decode(note, type=dict[str, str])
        return {**self.defaults, **noted, **self._given}


def _view(options: Mapping[str, str]) -> TableView:
    table = options.get("table") or options.get("path")
    if not table:
        raise InvalidInput("name the table", where="options.table", hint=_NAME_IT)
    return Connection.of_options(options).table(table)


def plan_of(view: TableView, connection: Connection, given: Mapping[str, str]) -> ScanPlan:
    """The scan that options ask for. Raises InvalidInput."""
    columns = given.get("columns")
    snapshot_id, as_of = given.get("snapshot-id"), given.get("as-of")
    return plan_scan(
        view.metadata,
        files=StoredManifests(connection.store()),
        filter=parse_filter(given["filter"]) if given.get("filter") else TRUE,
        snapshot_id=None if snapshot_id is None else _parsed(int, snapshot_id, option="snapshot-id"),
        as_of_ms=None if as_of is None else epoch_ms(_parsed(dt.datetime.fromisoformat, as_of, option="as-of")),
        ref=given.get("ref") or given.get("branch") or (None if snapshot_id or as_of else MAIN_BRANCH),
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
    )


def _parsed(parse: Callable[[str], _Parsed], text: str, *, option: str) -> _Parsed:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(f"cannot be read: {error}", where=f"options.{option}") from error


class FilePartition(InputPartition):
    """Some files to be read by one task."""

    def __init__(self, tasks: list[FileScanTask]) -> None:
        super().__init__(tasks)
        self.tasks = tasks


SPLIT_BYTES: Final = 128 * 1024 * 1024
"""Bytes of files that one task reads, at least one file."""


class FirnReader(DataSourceReader):
    """Reads the planned files by firn's own reader.

    It takes no filters from Spark (`pushFilters`): Spark 4.1 keeps the files that were planned with them for the next
    query of the same frame, whatever that asks for.
    """

    def __init__(self, view: TableView, connection: Connection, given: Mapping[str, str]) -> None:
        self._view: TableView | None = view
        self._metadata: TableMetadata = without_history(view.metadata)
        self._connection = connection
        self._given = dict(given)
        # What tasks have to know of the plan; their files they are told.
        self._plan = msgspec.structs.replace(plan_of(view, connection, given), tasks=())

    def partitions(self) -> Sequence[InputPartition]:
        assert self._view is not None
        plan = plan_of(self._view, self._connection, self._given)
        self._view = None  # which tasks do not need
        found: list[FilePartition] = []
        size = SPLIT_BYTES
        for task in plan.tasks:
            if size + task.size_bytes > SPLIT_BYTES:
                found.append(FilePartition([]))
                size = 0
            found[-1].tasks.append(task)
            size += task.size_bytes
        return found

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if partition is None:
            return  # what Spark asks for where there are no partitions
        assert isinstance(partition, FilePartition)
        projection, store = self._plan.projection, self._connection.store()
        for task in partition.tasks:
            residual = task.residual
            wide = with_filter_columns(projection, residual, self._plan.schema)
            batches = TaskReader(self._metadata, wide, store).batches(task)
            if residual != TRUE:
                asked = frozenset(filter_ids(residual))
                batches = filtered_batches(batches, residual, asked=asked, given=wide, wanted=projection)
            for batch in batches:
                yield shown(batch, projection)
