"""Operations on tables as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from firn.model.operations.common import Operation, Path


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


class RegisterTable(Operation, frozen=True, kw_only=True, tag="register-table"):
    """Take over a table that exists in storage, as it is.

    A ``metastore`` table is given by its metadata file. A ``file-system`` table is given by its folder, and goes on to
    be one: engines that open it by path see firn's commits, and firn sees theirs.
    """

    metadata_location: Path | None = None
    location: Path | None = None
    catalog: Literal["metastore", "file-system"] = "metastore"


class DropTable(Operation, frozen=True, kw_only=True, tag="drop-table"):
    """Forget a table's pointer; its files stay (they may be shared) until they are purged on purpose."""
