"""Holds: what an expiry must leave to work that is under way, because it was planned on it or names it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from firn.model.ancestry import ancestors_of
from firn.model.cherry_pick import snapshot_staged_as
from firn.model.consumer import HELD_SNAPSHOTS_MAX, TableConsumers
from firn.model.intent import OPERATIONS, Intent
from firn.model.metadata import TableMetadata
from firn.model.rest_request_check import named_refs, named_snapshots
from firn.model.snapshot import MAIN_BRANCH

EMPTY_BRANCH_BASES: Final = frozenset({"overwrite", "replace-partitions", "row-delta"})
"""Operations whose base null says that they were planned on an empty branch, and not that they have none."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What one piece of work needs.

    `who` is for people. `snapshot_ids` were planned on or are named; from each of them to the heads of its branches the
    history stays, too. `refs` are branches and tags. `from_start` are branches that were empty when the work was
    planned: all of their history is needed. `picked` snapshots, and the one that was staged under `wap_id`, are needed
    with their parents. `since_ms`: nothing is known of the work but that it needs nothing older. `table_uuid`: no other
    table is meant. `behind_max`: nothing is needed by one whose snapshot is further from the heads of `refs` than this.
    `alone`: of the history from its snapshots on, nothing else is needed.
    """

    who: str
    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    from_start: tuple[str, ...] = ()
    picked: tuple[int, ...] = ()
    wap_id: str | None = None
    since_ms: int | None = None
    table_uuid: str | None = None
    behind_max: int | None = None
    alone: bool = False
    why: str = "was planned on it"


class _Glimpse(msgspec.Struct, rename="kebab"):
    """The members of any intent that name snapshots, branches and tags; whatever they are."""

    table: Any = None
    intent_id: Any = None
    operation: Any = None
    branch: Any = MAIN_BRANCH
    ref_name: Any = None
    to: Any = None
    base_snapshot_id: Any = msgspec.UNSET
    snapshot_id: Any = None
    wap_id: Any = None
    statistics: Any = None
    partition_statistics: Any = None
    members: Any = None
    requirements: Any = None
    updates: Any = None


_GLIMPSE: Final = msgspec.json.Decoder(_Glimpse)


def holds_of(intent: Intent) -> tuple[Hold, ...]:
    """What an intent that waits needs of its table."""
    members = getattr(intent, "members", None) or (intent,)
    return tuple(_hold(_glimpse_of(one), intent.intent_id) for one in members if one.table == intent.table)


def holds_of_payload(payload: bytes, *, table: str, elsewhere: bool = False) -> tuple[Hold, ...]:
    """What an intent that has not been looked at needs of a table; nothing if it cannot be read or is another's.

    `elsewhere`: only what a transaction needs that waits in another table's lane.
    """
    try:
        glimpse = _GLIMPSE.decode(payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()
    intent_id = str(glimpse.intent_id)
    if elsewhere and glimpse.table == table:
        return ()
    if not isinstance(glimpse.members, list):
        return (_hold(glimpse, intent_id),) if glimpse.table == table else ()
    found = (msgspec.convert(one, _Glimpse) for one in glimpse.members if isinstance(one, dict))
    return tuple(_hold(one, intent_id) for one in found if one.table == table)


def holds_of_consumers(found: TableConsumers | None, *, now_ms: int) -> tuple[Hold, ...]:
    """What the consumers of a table's changes need that have moved lately enough to be waited for."""
    if found is None:
        return ()
    return tuple(
        Hold(
            who=f"consumer {consumer.name!r}",
            snapshot_ids=() if consumer.snapshot_id is None else (consumer.snapshot_id,),
            refs=(consumer.branch,),
            from_start=(consumer.branch,) if consumer.snapshot_id is None else (),
            table_uuid=found.table_uuid,
            behind_max=HELD_SNAPSHOTS_MAX,
            why="has read up to it",
        )
        for consumer in found.consumers
        if now_ms <= consumer.held_until_ms
    )


def snapshots_held(metadata: TableMetadata, holds: Sequence[Hold]) -> dict[int, str]:
    """Snapshots that must stay because of `holds`, with the reason.

    Of a base not only the snapshot is needed but the whole history from there to the branch's head: it is what the work
    is validated against. A hold on a snapshot alone is for its files.
    """
    bases: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for hold in holds:
        if not _counts(hold, metadata):
            continue
        named = reasons if hold.alone else bases
        for snapshot_id in _named(hold, metadata):
            named.setdefault(snapshot_id, f"{hold.who} {hold.why}")
        for branch in hold.from_start:
            reasons = {**_whole_history(metadata, branch, hold.who), **reasons}
        if hold.since_ms is not None:
            for snapshot in metadata.snapshots:
                if snapshot.timestamp_ms >= hold.since_ms:
                    reasons.setdefault(snapshot.snapshot_id, f"{hold.who} may have been planned on it")
    for ref in metadata.refs.values() if bases else ():
        path: list[int] = []
        for snapshot in ancestors_of(metadata, ref.snapshot_id):
            path.append(snapshot.snapshot_id)
            if snapshot.snapshot_id in bases:
                for number in path[:-1]:
                    reasons.setdefault(number, f"between a branch's head and {snapshot.snapshot_id}, which is in use")
                path.clear()
    return {**reasons, **bases}


def refs_held(metadata: TableMetadata, holds: Sequence[Hold]) -> dict[str, str]:
    """Branches and tags that must not age because of `holds`, with the reason."""
    found: dict[str, str] = {}
    for hold in holds:
        if not _counts(hold, metadata):
            continue
        for name in metadata.refs if hold.since_ms is not None else hold.refs:
            if name in metadata.refs:
                found.setdefault(name, f"{hold.who} names it" if hold.since_ms is None else f"{hold.who} may name it")
    return found


def _counts(hold: Hold, metadata: TableMetadata) -> bool:
    """Whether a hold is on this table, and on no more of it than it may be."""
    if hold.table_uuid not in {None, metadata.table_uuid}:
        return False
    if hold.behind_max is None:
        return True
    for name in hold.refs:
        head = metadata.head(name)
        history = () if head is None else ancestors_of(metadata, head.snapshot_id)
        for behind, one in enumerate(itertools.islice(history, hold.behind_max + 1)):
            if one.snapshot_id in hold.snapshot_ids:
                return True
            is_first = hold.from_start and one.parent_snapshot_id is None
            if is_first or one.parent_snapshot_id in hold.snapshot_ids:
                return behind < hold.behind_max
    return False


def _named(hold: Hold, metadata: TableMetadata) -> Iterator[int]:
    yield from hold.snapshot_ids
    if hold.behind_max is not None:  # what came next tells by itself what it changed, should the snapshot be gone
        yield from (one.snapshot_id for one in metadata.snapshots if one.parent_snapshot_id in hold.snapshot_ids)
    picked = [metadata.snapshot_by_id(number) for number in hold.picked]
    if hold.wap_id is not None:
        picked.append(snapshot_staged_as(metadata, hold.wap_id))
    for snapshot in picked:
        if snapshot is not None:  # its parent tells whether it can be picked
            yield from (i for i in (snapshot.snapshot_id, snapshot.parent_snapshot_id) if i is not None)


def _whole_history(metadata: TableMetadata, branch: str, who: str) -> dict[int, str]:
    ref = metadata.refs.get(branch)
    history = [] if ref is None else list(ancestors_of(metadata, ref.snapshot_id))
    if not history or history[-1].parent_snapshot_id is not None:
        return {}  # its beginning is gone already
    return {snapshot.snapshot_id: f"{who} was planned when {branch!r} was empty" for snapshot in history}


def _glimpse_of(intent: Any) -> _Glimpse:
    glimpse = _Glimpse(table=intent.table, operation=OPERATIONS[type(intent)])
    for name in _Glimpse.__struct_fields__:
        if name not in {"table", "operation", "members"}:
            setattr(glimpse, name, getattr(intent, name, getattr(glimpse, name)))
    return glimpse


def _hold(glimpse: _Glimpse, intent_id: str) -> Hold:
    files = (glimpse.statistics, glimpse.partition_statistics)
    about = (file.get("snapshot-id") for file in files if isinstance(file, dict))
    numbers = (glimpse.base_snapshot_id, glimpse.snapshot_id, *about)
    if glimpse.operation == "rest-commit":
        return Hold(
            who=f"intent {intent_id}, which waits,",
            snapshot_ids=tuple(sorted(named_snapshots(glimpse.requirements, glimpse.updates))),
            refs=tuple(sorted(named_refs(glimpse.requirements, glimpse.updates))),
        )
    branch = glimpse.branch if isinstance(glimpse.branch, str) else MAIN_BRANCH
    planned_on_nothing = glimpse.base_snapshot_id is None and glimpse.operation in EMPTY_BRANCH_BASES
    picks = glimpse.operation == "cherry-pick" and isinstance(glimpse.snapshot_id, int)
    return Hold(
        who=f"intent {intent_id}, which waits,",
        snapshot_ids=tuple(number for number in numbers if isinstance(number, int)),
        refs=tuple(name for name in (branch, glimpse.ref_name, glimpse.to) if isinstance(name, str)),
        from_start=(branch,) if planned_on_nothing else (),
        picked=(glimpse.snapshot_id,) if picks else (),
        wap_id=glimpse.wap_id if glimpse.operation == "publish" and isinstance(glimpse.wap_id, str) else None,
    )
