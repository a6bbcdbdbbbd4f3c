"""Operations on tables as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from firn.model.operations.common import ContentFile, FieldId, Operation, Path, SnapshotId

TableName = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class CreateTable(Operation, frozen=True, kw_only=True, tag="create-table"):
    """Create a table from a schema, a partition spec and a sort order (REST JSON forms).

    `location` None places it under the daemon's warehouse. Ids in schema and spec are assigned anew. A ``file-system``
    table is opened by its path: its newest ``v<N>.metadata.json`` is the table.
    """

    schema: dict[str, Any]
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    location: Path | None = None
    properties: dict[str, str] = {}  # noqa: RUF012 - msgspec copies defaults
    format_version: Annotated[int, msgspec.Meta(ge=1, le=3)] = 2
    catalog: Literal["metastore", "file-system"] = "metastore"


class SeenTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The table that a writer saw and is about to replace: all that the ids of its successor are worked out from."""

    uuid: str
    schema_id: FieldId
    last_column_id: FieldId
    last_partition_id: FieldId


class CreateOrReplaceTable(Operation, frozen=True, kw_only=True, tag="create-or-replace-table"):
    """Create a table, or replace the one that was `seen` by one that is empty on main, and keeps history and ids.

    `seen` null says that there was none. Columns of the same full name keep their ids. `data_files` are the new table's
    first rows (``create table as select``): their columns have the ids that the new table gives them.
    `base_snapshot_id` is for a statement that has read the table itself: refused when main has moved since.
    `properties` are added to the table's; `location` and `format_version` null leave them as they are. `catalog` is
    for a table that is created.
    """

    schema: dict[str, Any]
    seen: SeenTable | None
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    location: Path | None = None
    properties: dict[str, str] = {}  # noqa: RUF012 - msgspec copies defaults
    format_version: Annotated[int, msgspec.Meta(ge=1, le=3)] | None = None
    catalog: Literal["metastore", "file-system"] = "metastore"
    base_snapshot_id: SnapshotId | None = None
    data_files: tuple[ContentFile, ...] = ()


class RegisterTable(Operation, frozen=True, kw_only=True, tag="register-table"):
    """Take over a table that exists in storage, as it is.

    A ``metastore`` table is given by its metadata file. A ``file-system`` table is given by its folder, and goes on to
    be one: engines that open it by path see firn's commits, and firn sees theirs.
    """

    metadata_location: Path | None = None
    location: Path | None = None
    catalog: Literal["metastore", "file-system"] = "metastore"


class RenameTable(Operation, frozen=True, kw_only=True, tag="rename-table"):
    """Give a table another, free name; its files stay where they are. Not for file-system tables."""

    new_name: TableName


class DropTable(Operation, frozen=True, kw_only=True, tag="drop-table"):
    """Forget a table's pointer; its files stay, unless maintenance is to `purge` them some days later.

    Until then, ``register-table`` of the newest metadata file brings the table back.
    """

    purge: bool = False
