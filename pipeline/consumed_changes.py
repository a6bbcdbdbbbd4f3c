"""Changes for a named consumer: what came since it last moved on, and moving on once that was processed.

The position is kept in ZooKeeper, and expiry waits for it for a while (`firn.model.consumer`). It moves by
compare-and-set after the work was done: of two processes that read the same, the second one to move fails.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from pyspark.sql import DataFrame, SparkSession

from firn.model.consumer import Consumer
from firn.model.expressions.predicates import TRUE, Expression
from firn.pipeline.change_feed import read_changes
from firn.pipeline.connection import Connection
from firn.pipeline.reads import read_appends
from firn.storage.incremental_scan import SnapshotRange


class ConsumedChanges(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The `rows` that came after `from_snapshot_id` up to `to_snapshot_id`, for a consumer that is at the first.

    Process the rows, then call `advance`. Where the process fails in between, the same rows come again.
    """

    table: str
    consumer: str
    from_snapshot_id: int | None
    to_snapshot_id: int | None
    rows: DataFrame
    connection: Connection

    @property
    def is_empty(self) -> bool:
        """Whether no snapshot came."""
        return self.from_snapshot_id == self.to_snapshot_id

    def advance(self) -> Consumer | None:
        """Move the consumer to where the rows end, and let expiry wait for it from now on; None for an empty table.

        Safe to repeat. Raises ConsumerMovedError when another process has moved it: what was done with the rows has
        been done twice, unless it is taken back.
        """
        if self.to_snapshot_id is None:
            return None
        consumers = self.connection.client().consumers
        return consumers.advance(self.table, self.consumer, expected=self.from_snapshot_id, to=self.to_snapshot_id)


def changes_for(
    spark: SparkSession,
    table: str,
    *,
    consumer: str,
    appends_only: bool = False,
    columns: Collection[str] | None = None,
    filter: str | Expression = TRUE,
    carry_overs: bool = False,
    connection: Connection | None = None,
) -> ConsumedChanges:
    """Return what came to the consumer's branch since it last moved on, as `read_changes` gives it.

    `appends_only`: as `read_appends` gives it. Make the consumer first, with ``client.consumers.set`` or ``firn
    consumer set``. Raises as `read_changes`, and NotFound where the table has no such consumer. After a
    ChangesUnavailableError, set the consumer anew, and read the whole table as of its snapshot.
    """
    connection = Connection.of_spark(spark) if connection is None else connection
    status, view = connection.client().consumers.look_at(table, consumer)
    at, head = status.consumer, view.metadata.head(status.consumer.branch)
    window = SnapshotRange(
        from_snapshot_id=at.snapshot_id, branch=at.branch, table_uuid=view.uuid, from_beginning=at.snapshot_id is None
    )
    if appends_only:
        rows = read_appends(spark, view, snapshots=window, columns=columns, filter=filter, connection=connection)
    else:
        rows = read_changes(
            spark,
            view,
            snapshots=window,
            columns=columns,
            filter=filter,
            carry_overs=carry_overs,
            connection=connection,
        )
    return ConsumedChanges(
        table=table,
        consumer=consumer,
        from_snapshot_id=at.snapshot_id,
        to_snapshot_id=None if head is None else head.snapshot_id,
        rows=rows,
        connection=connection,
    )
