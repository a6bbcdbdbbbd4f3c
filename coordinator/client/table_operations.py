"""Operations on tables as a whole, and those that keep them in order, as methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Unpack

from firn.coordinator.client.intents import members_of, schema_json, unix_ms
from firn.coordinator.client.options import IntentOptions, TableOptions
from firn.coordinator.client.submitting import Submitted_co, Submitting
from firn.coordinator.client.table_view import TableView
from firn.model.intent import ContentFile, CreateOrReplaceTable, CreateTable, DropTable, RegisterTable, RenameTable
from firn.model.metadata import TableMetadata
from firn.model.operations.tables import SeenTable
from firn.model.operations.upkeep import (
    ExpireSnapshots,
    RemovePartitionStatistics,
    RemoveStatistics,
    SetLocation,
    SetPartitionStatistics,
    SetStatistics,
    UpdateProperties,
    UpgradeFormat,
)
from firn.model.schema import Schema


class TableOperations(Submitting[Submitted_co]):
    """Tables made, taken over, dropped; properties, location, statistics, format version, expiry of snapshots."""

    def create_table(
        self, table: str, schema: Schema | Mapping[str, Any], **options: Unpack[TableOptions]
    ) -> Submitted_co:
        """Create a table; `schema` as a value or in its JSON form. Ids are assigned anew."""
        return self.submit(CreateTable(table=table, schema=schema_json(schema), **members_of(options)))

    def create_or_replace_table(
        self,
        table: str,
        schema: Schema | Mapping[str, Any],
        *,
        seen: TableView | None,
        files: Iterable[ContentFile] = (),
        base_snapshot_id: int | None = None,
        **options: Unpack[TableOptions],
    ) -> Submitted_co:
        """Create a table, or replace the one that was `seen` (None: there was none), which keeps its history.

        `files` are its first rows. `base_snapshot_id` is for rows that were read from the table itself: the replacement
        is then rejected if its main has moved.
        """
        return self.submit(
            CreateOrReplaceTable(
                table=table,
                schema=schema_json(schema),
                seen=None if seen is None else _seen(seen.metadata),
                data_files=tuple(files),
                base_snapshot_id=base_snapshot_id,
                **members_of(options),
            )
        )

    def register_table(
        self,
        table: str,
        *,
        metadata_location: str | None = None,
        location: str | None = None,
        **options: Unpack[IntentOptions],
    ) -> Submitted_co:
        """Take over a table that exists in storage.

        `metadata_location` is the metadata file of one that is to be a metastore table; `location` the folder of a
        file-system table, which goes on to be one.
        """
        catalog: Literal["metastore", "file-system"] = "metastore" if location is None else "file-system"
        return self.submit(
            RegisterTable(
                table=table,
                metadata_location=metadata_location,
                location=location,
                catalog=catalog,
                **members_of(options),
            )
        )

    def rename_table(self, table: str, new_name: str, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Give a table another, free name; its files stay where they are."""
        return self.submit(RenameTable(table=table, new_name=new_name, **members_of(options)))

    def drop_table(self, table: str, *, purge: bool = False, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Forget a table; its files stay, unless maintenance is to `purge` them some days later."""
        return self.submit(DropTable(table=table, purge=purge, **members_of(options)))

    def expire_snapshots(
        self,
        table: str,
        *,
        older_than: datetime | None = None,
        retain_last: int | None = None,
        snapshot_ids: Iterable[int] = (),
        **options: Unpack[IntentOptions],
    ) -> Submitted_co:
        """Forget snapshots and aged references. What is left out is as the ``history.expire.*`` properties say.

        `snapshot_ids` go whatever their age, but for those that a reference or a waiting intent needs. No file is
        deleted.
        """
        return self.submit(
            ExpireSnapshots(
                table=table,
                older_than_ms=None if older_than is None else unix_ms(older_than, where="older-than-ms"),
                retain_last=retain_last,
                snapshot_ids=tuple(snapshot_ids),
                **members_of(options),
            )
        )

    def update_properties(
        self,
        table: str,
        updates: Mapping[str, str] | None = None,
        *,
        removals: Iterable[str] = (),
        expect: Mapping[str, str | None] | None = None,
        **options: Unpack[IntentOptions],
    ) -> Submitted_co:
        """Set and remove properties, if those in `expect` have the value there (None: are not set)."""
        return self.submit(
            UpdateProperties(
                table=table,
                updates=dict(updates or {}),
                removals=tuple(removals),
                expect=dict(expect or {}),
                **members_of(options),
            )
        )

    def set_location(self, table: str, location: str, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Give new files another base location; those that are there stay. Not for file-system tables."""
        return self.submit(SetLocation(table=table, location=location, **members_of(options)))

    def set_statistics(
        self, table: str, statistics: Mapping[str, Any], **options: Unpack[IntentOptions]
    ) -> Submitted_co:
        """Attach a statistics file (REST ``StatisticsFile``) to the snapshot that it names."""
        return self.submit(SetStatistics(table=table, statistics=dict(statistics), **members_of(options)))

    def remove_statistics(self, table: str, snapshot_id: int, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Detach a snapshot's statistics file."""
        return self.submit(RemoveStatistics(table=table, snapshot_id=snapshot_id, **members_of(options)))

    def set_partition_statistics(
        self, table: str, partition_statistics: Mapping[str, Any], **options: Unpack[IntentOptions]
    ) -> Submitted_co:
        """Attach a partition statistics file (REST ``PartitionStatisticsFile``) to the snapshot that it names."""
        return self.submit(
            SetPartitionStatistics(table=table, partition_statistics=dict(partition_statistics), **members_of(options))
        )

    def remove_partition_statistics(
        self, table: str, snapshot_id: int, **options: Unpack[IntentOptions]
    ) -> Submitted_co:
        """Detach a snapshot's partition statistics file."""
        return self.submit(RemovePartitionStatistics(table=table, snapshot_id=snapshot_id, **members_of(options)))

    def upgrade_format(self, table: str, format_version: int, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Bring the table to a newer format version."""
        return self.submit(UpgradeFormat(table=table, format_version=format_version, **members_of(options)))


def _seen(metadata: TableMetadata) -> SeenTable:
    return SeenTable(
        uuid=metadata.table_uuid,
        schema_id=metadata.current_schema_id,
        last_column_id=metadata.last_column_id,
        last_partition_id=metadata.last_partition_id,
    )
