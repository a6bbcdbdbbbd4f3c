"""The origin of content files: for which table they were described, and by which of its schemas.

Each file carries it from where it is described to where the intent is made (`ContentFile.table_uuid`, `schema_id`).
On the wire it is said once for all files, by the intent: `table_uuid` and `schema_ids`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from firn.model.intent import ContentFile, CreateOrReplaceTable, FileOperation, Intent, Transaction, added_files
from firn.model.operations.transaction import Member

_LISTS = ("data_files", "delete_files")


def has_origin(file: ContentFile) -> bool:
    """Whether a file says itself what it was described for."""
    return file.table_uuid is not None or file.schema_id is not None


def without_origins(files: Iterable[ContentFile]) -> tuple[ContentFile, ...]:
    """Return the files without what they say of their origin."""
    return tuple(
        msgspec.structs.replace(file, table_uuid=None, schema_id=None) if has_origin(file) else file for file in files
    )


def with_origin_once(intent: Intent) -> Intent:
    """Return the intent with the origin of its files as its own members, and off the files.

    Files of several tables keep it, and so do those of another table than the intent names: the daemon refuses them.
    The files of a table that is made by the intent lose it, because nobody could have described them for that table.
    """
    if isinstance(intent, Transaction):
        members = tuple(cast("Member", with_origin_once(member)) for member in intent.members)
        if all(new is old for new, old in zip(members, intent.members, strict=True)):
            return intent
        return msgspec.structs.replace(intent, members=members)
    files = added_files(intent)
    if not any(map(has_origin, files)):
        return intent
    bare = {name: without_origins(getattr(intent, name)) for name in _LISTS if hasattr(intent, name)}
    if isinstance(intent, CreateOrReplaceTable):
        return msgspec.structs.replace(intent, **bare)
    assert isinstance(intent, FileOperation)
    uuids = {file.table_uuid for file in files} | {intent.table_uuid}
    uuids.discard(None)
    if len(uuids) > 1:
        return intent
    schema_ids = {file.schema_id for file in files if file.schema_id is not None}.union(intent.schema_ids)
    return msgspec.structs.replace(
        intent, table_uuid=uuids.pop() if uuids else None, schema_ids=tuple(sorted(schema_ids)), **bare
    )
