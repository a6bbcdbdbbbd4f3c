"""Making intents from what a writer has at hand."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from firn.coordinator.client.options import BranchOptions, FileOptions, IntentOptions, TableOptions
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.identifiers import check_table_name, is_intent_id, uuid7
from firn.model.intent import (
    Append,
    ContentFile,
    CreateTable,
    DeleteFiles,
    DropTable,
    Intent,
    Replace,
    digest_of,
)
from firn.model.schema import Schema, schema_to_json


def new_intent_id() -> str:
    """A fresh intent id."""
    return uuid7(now_ms=time.time_ns() // 1_000_000, entropy=secrets.token_bytes(10))


def append(table: str, files: Iterable[ContentFile], options: FileOptions) -> Append:
    """Add data files."""
    return Append(table=table, data_files=tuple(files), **_members(options))


def delete_files(table: str, files: Iterable[ContentFile | str], options: FileOptions) -> DeleteFiles:
    """Remove whole data files, given by location or as they were added."""
    return DeleteFiles(table=table, removed_data_files=_locations(files), **_members(options))


def replace(
    table: str,
    *,
    removed: Iterable[ContentFile | str],
    added: Iterable[ContentFile],
    base_snapshot_id: int,
    options: BranchOptions,
) -> Replace:
    """Rewrite data files without changing rows."""
    return Replace(
        table=table,
        removed_data_files=_locations(removed),
        data_files=tuple(added),
        base_snapshot_id=base_snapshot_id,
        **_members(options),
    )


def create_table(table: str, schema: Schema | Mapping[str, Any], options: TableOptions) -> CreateTable:
    """Create a table."""
    members = schema_to_json(schema) if isinstance(schema, Schema) else dict(schema)
    return CreateTable(table=table, schema=members, **_members(options))


def drop_table(table: str, options: IntentOptions) -> DropTable:
    """Forget a table."""
    return DropTable(table=table, **_members(options))


def sealed(intent: Intent, *, reply_to: str) -> Intent:
    """The intent as it is sent: with its digest and where the outcome goes.

    Raises InvalidIntent for what no daemon could answer: an id or a table name that is none, or a digest of something
    else. Everything else is the daemon's to judge.
    """
    if not is_intent_id(intent.intent_id):
        raise InvalidIntent(f"{intent.intent_id[:80]!r} is not a UUIDv7", rule="invalid-intent-id", where="intent-id")
    try:
        check_table_name(intent.table)
    except InvalidInput as error:
        raise InvalidIntent(error.message, rule="invalid-table-name", where="table", hint=error.hint) from error
    digest = digest_of(intent)
    if intent.digest not in (None, digest):
        raise InvalidIntent(f"the content gives {digest}", rule="digest-mismatch", where="digest")
    return msgspec.structs.replace(intent, digest=digest, reply_to=reply_to)


def _members(options: FileOptions | BranchOptions | TableOptions | IntentOptions) -> dict[str, Any]:
    members: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    members.setdefault("intent_id", new_intent_id())
    deadline = members.pop("deadline", None)
    if deadline is not None:
        members["deadline_ms"] = _unix_ms(deadline)
    for name in ("summary", "properties", "partition_spec", "write_order"):
        if name in members:
            members[name] = dict(members[name])
    return members


def _unix_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidIntent("needs a time zone", rule="invalid-field", where="deadline")
    return int(moment.timestamp() * 1000)


def _locations(files: Iterable[ContentFile | str]) -> tuple[str, ...]:
    if isinstance(files, str):
        raise InvalidIntent("wants a list of files, not one name", rule="invalid-field", where="removed-data-files")
    return tuple(file if isinstance(file, str) else file.file_path for file in files)
