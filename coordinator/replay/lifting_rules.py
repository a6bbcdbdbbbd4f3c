"""Whether what came since a client planned its snapshot lets it be lifted at all (decision 39).

What the client read, and whether it has validated anything, is not to be known: a filter that matches every row stands
for it, and the isolation that the table's properties ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import is_kept
from firn.coordinator.replay.window import ADDED_DATA
from firn.coordinator.replay.working import Working
from firn.model.operations.files import Isolation
from firn.model.operations.rest import RestCommit
from firn.model.snapshot import Snapshot
from firn.model.snapshot_summary import is_computed
from firn.model.table_properties import ISOLATION_LEVELS, REST_APPEND, REST_HARMLESS_KEYS

MERGE_KEYS: Final = "spark.merge-into."
"""What the entries of a summary begin with that Spark counts the rows of a MERGE in."""

_SINKS: Final = ("flink.", "kafka.connect.")
"""What the entries begin with of sinks that read nothing of the table that they append to."""

_HARMLESS: Final = frozenset({
    "app-id", "app-name", "entries-processed", "iceberg-version", "manifests-created", "manifests-kept",
    "manifests-replaced", "replace-partitions", "spark.app.id", "spark.app.name", "trino_query_id",
})  # fmt: skip
_HARMLESS_PREFIXES: Final = ("engine-", "firn.", MERGE_KEYS)
_KNOWN: Final = frozenset({"append", "overwrite", "replace", "delete"})


def require_no_watermark(working: Working, snapshot: Snapshot, since: Sequence[Snapshot]) -> None:
    """Refuse a snapshot whose summary has an entry, maybe a place in a source, that one of a newer snapshot has, too.

    Prevents: rows that an exactly-once sink commits twice, because it was to look at the newest watermark again.
    """
    assert working.metadata is not None
    allowed = REST_HARMLESS_KEYS.names(working.metadata.properties)
    keys = sorted(key for key in snapshot.summary or {} if not _is_harmless(key) and key not in allowed)
    if not keys:
        return
    for other in since:
        if not is_kept(working, other):
            rules.WATERMARK.refuse(
                f"the summary has {keys[0]!r}, which may say how far a source was read, and what snapshot "
                f"{other.snapshot_id} said of it was dropped",
                winner=other,
            )
        shared = [key for key in keys if key in (other.summary or {})]
        if shared:
            rules.WATERMARK.refuse(
                f"the summary has {shared[0]!r}, which may say how far a source was read, and so has that of snapshot "
                f"{other.snapshot_id}, which came since",
                winner=other,
            )


def _is_harmless(key: str) -> bool:
    return is_computed(key) or key in _HARMLESS or key.startswith(_HARMLESS_PREFIXES)


def isolation_of(properties: Mapping[str, str]) -> Isolation:
    """The strictest isolation that the table asks for; anything that is not ``snapshot`` is the strict one."""
    asked = {properties.get(name, "serializable").strip().lower() for name in ISOLATION_LEVELS}
    return "snapshot" if asked == {"snapshot"} else "serializable"


def newcomer(since: Sequence[Snapshot]) -> Snapshot | None:
    """A snapshot that may have added rows; None where the window is quiet."""
    return next((one for one in since if one.operation in ADDED_DATA or one.operation not in _KNOWN), None)


def require_may_append(
    working: Working, intent: RestCommit, snapshot: Snapshot, since: Sequence[Snapshot], *, base: int | None
) -> None:
    """Refuse added files whose writer may have read what came since.

    Prevents: a MERGE that inserts a row which another has inserted since; with ``firn.rest.append=blind-only`` every
    other append that no order of the two explains.
    """
    came = newcomer(since)
    if came is None:
        return
    assert working.metadata is not None
    properties, summary = working.metadata.properties, snapshot.summary or {}
    if any(key.startswith(MERGE_KEYS) for key in summary):
        if isolation_of(properties) != "snapshot":
            rules.MERGE_ROWS_CAME.refuse(
                f"a MERGE read the table before snapshot {came.snapshot_id} added rows", winner=came, base=base
            )
        return
    blind = intent.blind or any(key.startswith(_SINKS) for key in summary)
    if not blind and REST_APPEND.sane(properties) == "blind-only":
        rules.ROWS_CAME.refuse(
            f"{REST_APPEND.name} is blind-only, and snapshot {came.snapshot_id} added rows that the append may have "
            f"depended on",
            winner=came,
            base=base,
        )


def require_quiet(working: Working, since: Sequence[Snapshot], *, base: int | None) -> None:
    """Refuse a change of rows on which rows came, unless the table asks for snapshot isolation only.

    Prevents: two statements that each did not see the other's rows, which no order of the two explains.
    """
    assert working.metadata is not None
    came = newcomer(since)
    if came is not None and isolation_of(working.metadata.properties) == "serializable":
        rules.ROWS_CAME.refuse(
            f"snapshot {came.snapshot_id} ({came.operation}) added rows, which the statement may have read",
            winner=came,
            base=base,
        )
