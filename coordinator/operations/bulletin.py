"""What a daemon says of itself to the others, and to commands: its version, its pages, the tables that it is stuck on.

It stands in the daemon's member node, and goes with it. So whoever looks, at any daemon's pages or with a command, is
told why a table stands still, and not only at the daemon that has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.operations.notices import Notice
from firn.coordinator.operations.recent_work import RecentWork
from firn.coordinator.version import VERSION
from firn.model.errors import FirnError
from firn.model.trouble import WHY_CHARACTERS_MAX
from firn.storage.log import get_logger
from firn.storage.membership import Membership
from firn.storage.store_faults import StoreFault

LOOK_S = 1.0
"""How old what is said may be."""

TROUBLES_MAX: Final = 100
"""Tables that are told of; a ZooKeeper node may have a megabyte, and this is a tenth of that."""


class Bulletin:
    """Keeps one daemon's notice."""

    def __init__(
        self,
        membership: Membership,
        lanes: Lanes,
        *,
        faults: Callable[[], tuple[StoreFault, ...]] = tuple,
        work: Callable[[], RecentWork | None] = lambda: None,
    ) -> None:
        self._membership = membership
        self._lanes = lanes
        self._faults = faults
        self._work = work
        self._http: str | None = None
        self._said = b""
        self._log = get_logger()

    def first(self, http: str | None) -> bytes:
        """The notice to join with; `http` is the URL of the daemon's pages."""
        self._http = http
        self._said = self._notice()
        return self._said

    def now(self) -> bytes:
        """The notice to join with again."""
        self._said = self._notice()
        return self._said

    async def run(self) -> None:
        """Keep the notice true, until cancelled. The log hears once of a ZooKeeper that does not take it."""
        refused = False
        while True:
            await asyncio.sleep(LOOK_S)
            notice = self._notice()
            if notice == self._said:
                continue
            try:
                await self._membership.restate(notice)
            except FirnError as error:
                if not refused:
                    self._log.warning("notice not changed", reason=str(error))
                refused = True
            else:
                self._said, refused = notice, False

    def _notice(self) -> bytes:
        troubles = self._lanes.troubles
        told = tuple(msgspec.structs.replace(one, why=_short(one.why)) for one in troubles[:TROUBLES_MAX])
        unmerged = {table: _short(why) for table, why in list(self._lanes.unmerged.items())[:TROUBLES_MAX]}
        stores = tuple(msgspec.structs.replace(one, said=_short(one.said)) for one in self._faults())
        notice = Notice(
            version=VERSION, http=self._http, troubles=told, troubles_in_all=len(troubles), unmerged=unmerged,
            stores=stores, work=self._work(),
        )  # fmt: skip
        return msgspec.json.encode(notice)


def _short(why: str) -> str:
    """As much as fits, and nothing that JSON cannot say: names of files may be no text."""
    return why[:WHY_CHARACTERS_MAX].encode(errors="replace").decode()
