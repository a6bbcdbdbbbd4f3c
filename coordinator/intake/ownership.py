"""Shard ownership: which streams this daemon reads, so that several daemons share the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from firn.coordinator.metrics import Metrics
from firn.model.errors import FirnError
from firn.model.sharding import assign
from firn.storage.log import get_logger
from firn.storage.membership import Membership

RECHECK_S = 2.0
"""Ownership is looked at on every change of members, and this often in case a notice was lost."""


class Ownership:
    """Takes the shards that are assigned to this daemon, gives up those that are not.

    While `may_own` says no, it gives up all of them: its stores are not those of its deployment.
    """

    def __init__(
        self,
        membership: Membership,
        *,
        member: str,
        shards: int,
        metrics: Metrics,
        on_release: Callable[[set[int]], Awaitable[None]],
        may_own: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._membership = membership
        self._member = member
        self._shards = shards
        self._metrics = metrics
        self._on_release = on_release
        self._may_own = may_own
        self._owned: set[int] = set()
        self._unreleased: set[int] = set()
        """Shards that this daemon serves no more and whose nodes it may still have."""
        self._changed = asyncio.Event()
        self._changed.set()
        self._log = get_logger()

    def owned(self) -> list[int]:
        """Shards that are this daemon's now; none while its session is suspended or lost."""
        return self._membership.owned_of(sorted(self._owned))

    async def still_owns(self, shard: int) -> bool:
        """Whether a shard is this daemon's by what ZooKeeper says now; False also while it does not answer."""
        return shard in self._owned and await self._membership.still_owns(shard)

    def look_again(self) -> None:
        """What `may_own` says may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Follow the members until cancelled."""
        follows = False
        while True:
            try:
                async with asyncio.timeout(RECHECK_S):
                    await self._changed.wait()
            except TimeoutError:
                pass  # the regular look
            self._changed.clear()
            try:
                if not follows:
                    await self._membership.on_change(self._changed.set)
                    follows = True
                await self._rebalance()
            except (FirnError, OSError) as error:
                self._log.warning("ownership waits", reason=str(error))
                await asyncio.sleep(RECHECK_S / 4)
                self._changed.set()

    async def _rebalance(self) -> None:
        may_own = self._may_own is None or await self._may_own()
        members = await self._membership.members()
        if may_own and not (self._membership.has_joined and self._member in members):
            return  # the session is not back yet, or the node is of an earlier one that has not ended
        assigned = assign(self._shards, members) if may_own else {}
        wanted = {shard for shard, owner in assigned.items() if owner == self._member}
        lost = self._owned.difference(self._membership.owned_of(self._owned))
        surplus = (self._owned - wanted) | lost
        if surplus:
            self._owned -= surplus
            await self._on_release(surplus)
            self._unreleased |= surplus
            self._log.info("shards released", shards=sorted(surplus), owned=len(self._owned))
        for shard in sorted(self._unreleased - wanted):
            await self._membership.release_shard(shard)
            self._unreleased.discard(shard)
        taken = {shard for shard in sorted(wanted - self._owned) if await self._membership.take_shard(shard)}
        self._owned |= taken
        self._unreleased -= taken
        if taken:
            self._log.info("shards taken", shards=sorted(taken), owned=len(self._owned), members=len(members))
        self._metrics.shards.set(len(self._owned))
        if wanted - self._owned:
            await asyncio.sleep(0.05)  # another daemon is about to give them up

    async def release_all(self) -> None:
        """Give everything up in good order."""
        for shard in sorted(self._owned):
            await self._membership.release_shard(shard)
        self._owned.clear()
