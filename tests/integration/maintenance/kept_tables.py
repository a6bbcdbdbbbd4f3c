"""Tables that are kept up: filled through firn's client, and looked at from storage."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firn import Client, data_files_from_parquet
from firn.coordinator.fsck.run import check_table
from firn.model.limits import Limits
from firn.pipeline.upkeep import Upkeep
from firn.storage.parquet_schema import arrow_schema

LATER_MS = 10**15
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
WAIT_S = 20.0


def written(client: Client, table: str, *, ids: Sequence[int] = (1, 2, 3)) -> Path:
    view = client.table(table)
    path = Path(view.location, "data", f"{uuid.uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(ids)}, schema=arrow_schema(view.schema)), path)
    return path


def append(client: Client, table: str) -> str:
    path = written(client, table)
    client.append(table, data_files_from_parquet([path], client.table(table))).committed(WAIT_S)
    return str(path)


def delete(client: Client, table: str, *paths: str) -> None:
    client.delete_files(table, paths).committed(WAIT_S)


def check(upkeep: Upkeep, table: str) -> None:
    """The table is whole, as `firn fsck` sees it."""
    verdict = check_table(upkeep.table(table).pointer, files=upkeep.files, limits=Limits())
    assert verdict.ok, verdict.findings


def stored(upkeep: Upkeep, table: str) -> set[str]:
    return {one.location for one in upkeep.files.list(upkeep.table(table).metadata.location)}
