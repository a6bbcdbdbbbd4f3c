"""Expiring snapshots, and removing the files that only expired ones reach.

The daemon decides what expires, on the table as it is then (`firn.coordinator.replay.expiry`); after its commit the
files go (`firn.pipeline.forgotten_files`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from functools import partial

import msgspec

from firn.coordinator.client.answers import Answer
from firn.coordinator.client.intents import new_intent_id, unix_ms
from firn.model.errors import InvalidInput
from firn.model.operations.upkeep import ExpireSnapshots
from firn.model.outcome import Committed
from firn.model.table_properties import GC_ENABLED
from firn.pipeline.forgotten_files import Progress, Removal, Removing
from firn.pipeline.own_folders import own_folders
from firn.pipeline.upkeep import TableNow, Upkeep
from firn.pipeline.work_under_way import work_under_way


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's answer, and what became of the files; `removal` None when nothing was committed or was to go."""

    answer: Answer
    removal: Removal | None = None


def expire_snapshots(  # noqa: PLR0913 - each has a name and most have a default
    upkeep: Upkeep,
    table: str,
    *,
    older_than: datetime | None = None,
    retain_last: int | None = None,
    snapshot_ids: Iterable[int] = (),
    clean_expired_metadata: bool = False,
    keep_files: bool = False,
    now_ms: int | None = None,
    progress: Progress | None = None,
) -> Expired:
    """Expire snapshots and, unless `keep_files`, remove the files that nothing reaches any more.

    What is left out is as the table's ``history.expire.*`` properties say; `clean_expired_metadata` takes unused specs
    and schemas away, too. `now_ms` tells which files are too young to go (default: the clock). On `Rejected` and
    `Unknown` no file is touched. Raises Unavailable, CorruptFile.
    """
    intent = ExpireSnapshots(
        intent_id=new_intent_id(),
        table=table,
        older_than_ms=None if older_than is None else unix_ms(older_than, where="older-than"),
        retain_last=retain_last,
        snapshot_ids=tuple(snapshot_ids),
        clean_expired_metadata=clean_expired_metadata,
        priority="maintenance",
    )
    answer = upkeep.client.submit(intent).result(upkeep.timeout_s)
    if keep_files or not isinstance(answer, Committed):
        return Expired(answer=answer)
    return Expired(answer=answer, removal=remove_unreachable(upkeep, table, now_ms=now_ms, progress=progress))


def remove_unreachable(
    upkeep: Upkeep,
    table: str,
    *,
    dry_run: bool = False,
    now_ms: int | None = None,
    progress: Progress | None = None,
) -> Removal:
    """Remove what only forgotten snapshots reach, whoever expired them: with commits, too, or another engine.

    Metadata files that the table's log does not name any more go with them. Raises InvalidInput for a table whose files
    other tables may share (``gc.enabled=false``), and whatever reading the table raises, before anything is removed.
    """
    now, _ = _look(upkeep, table)
    removing = Removing(
        now,
        upkeep.files,
        limits=upkeep.limits,
        folders=own_folders(upkeep, now).own,
        look=partial(_look, upkeep, table),
        dry_run=dry_run,
        progress=progress,
    )
    return removing.run(round(time.time() * 1000) if now_ms is None else now_ms)


def _look(upkeep: Upkeep, table: str) -> tuple[TableNow, frozenset[str]]:
    """Return the table as it is now, and the files that work under way names.

    The queue is looked at first: what is committed in between is found in the table.
    """
    under_way = work_under_way(upkeep, table).files
    now = upkeep.table(table)
    if not GC_ENABLED.of(now.metadata.properties):
        raise InvalidInput("is off: other tables may share its files", where=f"{table}: properties.{GC_ENABLED.name}")
    return now, under_way
