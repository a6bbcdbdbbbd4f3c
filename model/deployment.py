"""Whose stores are these: the marks of a deployment's three stores, compared.

ZooKeeper, Redis and the warehouse each carry the identity of their deployment. One store alone can be replaced by an
empty one, by an older copy of itself or by another deployment's, and answers as readily as the right one. `judge` tells
from the three marks which of them can be trusted. It is pure; docs/decisions/0027-whose-store.md explains the cases.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Finding = Literal[
    "same",
    "first-start",
    "zookeeper-empty",
    "zookeeper-unmarked",
    "zookeeper-other-root",
    "zookeeper-foreign",
    "redis-foreign",
    "warehouse-foreign",
    "warehouse-unmarked",
]
"""``same``: nothing contradicts; stores without a mark get one. ``first-start``: nobody has been here."""

FINE: Final = frozenset({"same", "first-start"})

FOREIGN: Final = frozenset({"zookeeper-other-root", "zookeeper-foreign", "redis-foreign", "warehouse-foreign"})
"""Findings that no daemon starts with: a setting leads to another deployment's store."""


class RedisMark(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What Redis knows of its deployment, as JSON: its identity, and below which ZooKeeper root its other half is."""

    deployment: str
    zookeeper_root: str | None = None


_REDIS_MARK: Final = msgspec.json.Decoder(RedisMark)


def redis_mark_in(data: bytes | None) -> RedisMark | None:
    """Return what the mark of a Redis says; one that cannot be read is nobody's of ours."""
    if data is None:
        return None
    try:
        return _REDIS_MARK.decode(data)
    except msgspec.MsgspecError:
        return RedisMark(deployment=ascii(data[:40]))


def is_foreign_mark(data: bytes | None, expected: str | None) -> bool:
    """Return whether the mark of a Redis names another deployment than the one that is `expected`."""
    mark = redis_mark_in(data)
    return mark is not None and expected is not None and mark.deployment != expected


class StoreMarks(msgspec.Struct, frozen=True, kw_only=True):
    """What the three stores say.

    `folders` are the marks of warehouses that this ZooKeeper knows; `warehouse_noted`, that it knows one for this very
    warehouse. `has_journals` counts only where nothing else is known.
    """

    zookeeper: str | None = None
    zookeeper_root: str = ""
    folders: frozenset[str] = frozenset()
    has_tables: bool = False
    redis: RedisMark | None = None
    warehouse: str | None = None
    warehouse_noted: bool = False
    warehouse_is_local: bool = True
    has_journals: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the marks mean. `deployment` is the identity where it is certain, None where a new one is to be made."""

    finding: Finding
    deployment: str | None = None
    reason: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether work may be taken and committed."""
        return self.finding in FINE

    @property
    def is_foreign(self) -> bool:
        """Whether a setting leads to another deployment's store."""
        return self.finding in FOREIGN


def judge(marks: StoreMarks) -> Verdict:
    """Tell from the marks of the three stores whether they are one deployment's."""
    known = marks.folders if marks.zookeeper is None else marks.folders | {marks.zookeeper}
    if not known and not marks.has_tables:
        return _zookeeper_knows_nothing(marks)
    redis = None if marks.redis is None else marks.redis.deployment
    redis_fits, warehouse_fits = redis is None or redis in known, marks.warehouse is None or marks.warehouse in known
    if not known and not (redis_fits and warehouse_fits):
        return Verdict(
            finding="zookeeper-unmarked", deployment=marks.warehouse or redis,
            reason="ZooKeeper has tables and no mark, but Redis or the warehouse is marked: it was restored in part, "
            "or from a copy from before there were marks. Bring the newer ZooKeeper back, or restore what is missing: "
            "firn recover --yes (docs/recovery.md)",
        )  # fmt: skip
    if not redis_fits or not warehouse_fits:
        return _foreign(marks, redis=redis, redis_fits=redis_fits, warehouse_fits=warehouse_fits)
    if marks.warehouse is None and marks.warehouse_noted and not marks.warehouse_is_local:
        # A local folder without its mark is a disk that is not mounted: every access to it finds that out by itself.
        return Verdict(
            finding="warehouse-unmarked", deployment=marks.zookeeper,
            reason="the warehouse has lost its mark _firn-warehouse, or is another, empty one: check "
            "warehouse.location and its options; if it is the right one: firn recover --adopt-warehouse --yes",
        )  # fmt: skip
    return Verdict(finding="same", deployment=marks.zookeeper or marks.warehouse or redis)


def _zookeeper_knows_nothing(marks: StoreMarks) -> Verdict:
    redis = None if marks.redis is None else marks.redis.deployment
    if redis is None and marks.warehouse is None and not marks.has_journals:
        return Verdict(finding="first-start")
    root = None if marks.redis is None else marks.redis.zookeeper_root
    if root is not None and root != marks.zookeeper_root:
        return Verdict(
            finding="zookeeper-other-root", deployment=redis,
            reason=f"Redis belongs to the deployment whose ZooKeeper root is {root or '/'}; the settings lead to "
            f"{marks.zookeeper_root or '/'}, and nothing is there: correct zookeeper.root (or the path behind "
            "zookeeper.hosts); if its pointers are to be restored here: firn recover --yes",
        )  # fmt: skip
    knows = [
        *(["Redis"] if redis is not None else []),
        *(["the warehouse's mark"] if marks.warehouse is not None else []),
        *(["the journals in the warehouse"] if marks.has_journals else []),
    ]
    others = " and ".join(knows)
    return Verdict(
        finding="zookeeper-empty", deployment=marks.warehouse or redis,
        reason=f"ZooKeeper is empty, but {others} {'know' if len(knows) > 1 or marks.has_journals else 'knows'} a "
        "deployment: bring its data back, or restore the pointers: firn recover --yes (docs/recovery.md)",
    )  # fmt: skip


def _foreign(marks: StoreMarks, *, redis: str | None, redis_fits: bool, warehouse_fits: bool) -> Verdict:
    """Two of the three decide; where only two can be compared, both are named."""
    mine = marks.zookeeper or next(iter(sorted(marks.folders)), None)
    named = (
        f"ZooKeeper belongs to deployment {mine or 'unknown'}, Redis to {redis or 'none'}, the warehouse to "
        f"{marks.warehouse or 'none'}"
    )
    if not redis_fits and (warehouse_fits or marks.warehouse is None):
        return Verdict(
            finding="redis-foreign", deployment=marks.zookeeper,
            reason=f"Redis is another deployment's ({named}): correct redis.url or redis.prefix; if this Redis is to "
            "be taken over: firn recover --adopt-redis --yes",
        )  # fmt: skip
    if redis_fits:
        return Verdict(
            finding="warehouse-foreign", deployment=marks.zookeeper,
            reason=f"the warehouse is another deployment's ({named}): correct warehouse.location; if it is the right "
            "one: firn recover --adopt-warehouse --yes",
        )  # fmt: skip
    return Verdict(
        finding="zookeeper-foreign",
        deployment=marks.warehouse,
        reason=f"ZooKeeper is another deployment's ({named}): correct zookeeper.hosts and zookeeper.root",
    )
