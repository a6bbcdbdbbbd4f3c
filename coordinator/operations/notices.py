"""The notice of a daemon: the content of its member node, which others and commands read."""

from __future__ import annotations

import msgspec

from firn.coordinator.operations.recent_work import RecentWork
from firn.model.trouble import Trouble
from firn.storage.store_faults import StoreFault


class Notice(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The content of a member node. `troubles_in_all` counts those that did not fit, too.

    `unmerged` gives the reason why manifests of a table are not merged, which stops no commit. `stores` names what is
    wrong with Redis and ZooKeeper, as this daemon sees it. `work` is what it did in the last minute, None while it does
    not know yet.
    """

    version: str = "?"
    http: str | None = None
    troubles: tuple[Trouble, ...] = ()
    troubles_in_all: int = 0
    unmerged: dict[str, str] = {}
    stores: tuple[StoreFault, ...] = ()
    work: RecentWork | None = None


def notice_in(data: bytes) -> Notice:
    """The notice in a member node; of a daemon of another version, what can be understood of it."""
    try:
        return msgspec.json.decode(data, type=Notice)
    except msgspec.MsgspecError:
        return _understood_of(data)


def _understood_of(data: bytes) -> Notice:
    try:
        members = msgspec.json.decode(data)
    except msgspec.DecodeError:
        members = None
    members = members if isinstance(members, dict) else {}
    http = members.get("http")
    return Notice(version=str(members.get("version", "?")), http=http if isinstance(http, str) else None)
