"""Tables for tests of the pipeline: made through firn, read by firn, by Iceberg's runtime in Spark, and checked."""

from __future__ import annotations

import itertools
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from firn.coordinator.client import TableView
from firn.coordinator.client.intents import new_intent_id, schema_json
from firn.coordinator.fsck.run import check_table
from firn.model.intent import CreateTable
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.model.schema import Schema
from firn.pipeline.connection import Connection
from tests.acceptance.stack import READY_S, Stack

_numbers: Final = itertools.count(1)

COLUMNS: Final = {"id": "long", "region": "string", "ts": "timestamptz", "amount": "decimal(9,2)"}


class Lake:
    """What a test sees of the deployment."""

    def __init__(self, spark: SparkSession, deployment: Stack) -> None:
        self.spark = spark
        self.stack = deployment
        self.connection = Connection(
            redis=deployment.redis_url, zookeeper=deployment.zookeeper_server.hosts + deployment.root, timeout_s=60
        )
        for name, value in self.connection.options().items():
            spark.conf.set(f"spark.firn.{name}", value)
        self.client = self.connection.client()
        self._made: list[str] = []

    def create(
        self,
        columns: dict[str, Any] | None = None,
        *,
        version: int = 2,
        partition: tuple[tuple[str, str], ...] = (),
        order: tuple[tuple[str, str], ...] = (),
        **properties: str,
    ) -> str:
        """A new file-system table; its name. Underscores in the names of properties stand for dots."""
        columns = COLUMNS if columns is None else columns
        ids = {column: at for at, column in enumerate(columns, 1)}
        fields = [
            {"id": ids[column], "name": column, "type": type, "required": False} for column, type in columns.items()
        ]
        spec = [
            {"source-id": ids[column], "field-id": 1000 + at, "name": f"{column}_{at}", "transform": transform}
            for at, (column, transform) in enumerate(partition)
        ]
        sort = [
            {"source-id": ids[column], "transform": "identity", "direction": direction, "null-order": "nulls-first"}
            for column, direction in order
        ]
        return self.create_as(
            {"type": "struct", "fields": fields},
            version=version,
            partition=spec,
            write_order={"order-id": 1, "fields": sort} if sort else None,
            properties={key.replace("_", "."): value for key, value in properties.items()},
        )

    def create_as(
        self, schema: Schema | dict[str, Any], *, version: int, partition: list[dict[str, Any]], **options: Any
    ) -> str:
        """A new file-system table with this schema and these partition fields; its name."""
        name = f"db.t{next(_numbers)}"
        intent = CreateTable(
            intent_id=new_intent_id(),
            table=name,
            schema=schema_json(schema),
            partition_spec={"spec-id": 0, "fields": partition},
            format_version=version,
            catalog="file-system",
            **options,
        )
        self.client.submit(intent).committed(READY_S)
        self._made.append(name)
        return name

    def view(self, table: str) -> TableView:
        return self.client.table(table)

    def frame(self, *rows: tuple[Any, ...], schema: str = "id long, region string, ts timestamp, amount decimal(9,2)"):
        return self.spark.createDataFrame(list(rows), schema)

    def events(self, first: int, stop: int) -> DataFrame:
        """Rows for a table of `COLUMNS`."""
        return self.spark.range(first, stop, numPartitions=2).selectExpr(
            "id",
            "IF(id % 3 = 0, 'eu', IF(id % 3 = 1, 'us', NULL)) AS region",
            "timestamp_seconds(id * 40000) AS ts",
            "CAST(id / 4 AS decimal(9,2)) AS amount",
        )

    def by_java(self, table: str, **options: Any) -> DataFrame:
        """The table as Iceberg's runtime reads it by its path."""
        return self.spark.read.format("iceberg").options(**options).load(self.view(table).location)

    def ids(self, table: str) -> list[int]:
        """The ids that Iceberg's runtime sees."""
        return sorted(row.id for row in self.by_java(table).select("id").collect())

    def summary(self, table: str) -> dict[str, str]:
        """What the head's snapshot says."""
        head = self.view(table).metadata.current_snapshot
        assert head is not None
        return dict(head.summary or {})

    def files_on_disk(self, table: str) -> list[str]:
        """Data files below the table's folder, whoever names them."""
        store = self.connection.store()
        return [one.location for one in store.list(f"{self.view(table).location}/data")]

    def check(self) -> None:
        """Every table that was made here is whole."""
        for name in self._made:
            verdict = check_table(self.stack.pointer(name), files=self.connection.store(), limits=Limits())
            assert verdict.ok, "\n".join(f"{f.invariant} {f.where}: {f.message}" for f in verdict.findings)


def committed(answer: Any) -> Committed:
    assert isinstance(answer, Committed), msgspec.to_builtins(answer)
    return answer


def struct_of(**ids: int) -> dict[str, Any]:
    """The type of a struct of longs with these ids."""
    fields = [{"id": field_id, "name": name, "type": "long", "required": False} for name, field_id in ids.items()]
    return {"type": "struct", "fields": fields}


def list_of(element_id: int, element: Any) -> dict[str, Any]:
    """The type of a list."""
    return {"type": "list", "element-id": element_id, "element-required": False, "element": element}
