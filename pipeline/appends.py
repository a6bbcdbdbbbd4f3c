"""The intent of a job that adds rows: an append of its files, or what changes nothing where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firn.model.expressions.expression_json import expression_to_json
from firn.model.expressions.predicates import FALSE
from firn.model.intent import Append, ContentFile, Intent, Overwrite
from firn.model.metadata import TableMetadata
from firn.pipeline.written_manifests import append_members
from firn.storage.files import FileStore


def append_of(
    files: Sequence[ContentFile],
    metadata: TableMetadata,
    *,
    intent_id: str,
    store: FileStore,
    base_snapshot_id: int | None = None,
    **members: Any,
) -> Intent:
    """An append of `files`, with manifests of them in `store` where they are many.

    A job without rows is no mistake, as an append of nothing would be: the intent is committed then, counts as its
    writer's epoch, and makes no snapshot.
    """
    if not files:
        nothing = expression_to_json(FALSE)
        return Overwrite(
            intent_id=intent_id, base_snapshot_id=None, row_filter=nothing, isolation="snapshot", **members
        )
    listed = append_members(files, metadata, run=intent_id, store=store)
    return Append(intent_id=intent_id, base_snapshot_id=base_snapshot_id, **members, **listed)
