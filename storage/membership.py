"""Which daemons there are, and which stream shards each of them owns.

Members are ephemeral nodes below ``/members``, owners below ``/shards``. Ownership spares daemons from doing each
other's work; that two do the same work for a moment is safe, because the swap decides.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from firn.model.errors import AlreadyExists, FirnError, InvalidInput, NotFound, Unavailable, UnknownOutcome
from firn.storage.log import get_logger
from firn.storage.sessions import MULTI_ANY_VERSION, Session, SessionState, decode_name, encode_name

MEMBERS: Final = "/members"
SHARDS: Final = "/shards"
REJOIN_RETRY_S: Final = 1.0

_log: Any = get_logger()


class Membership:
    """One daemon's place among the others. Once joined, it joins again whenever its session was lost.

    `admit` raises Unavailable while a new session is not to join: others would leave it shards.
    """

    def __init__(self, session: Session, *, admit: Callable[[], Awaitable[None]] | None = None) -> None:
        self._session = session
        self._admit = admit
        self._member_id: str | None = None
        self._info = b""
        self._owned: dict[int, int] = {}  # shard → session epoch
        self._callbacks: list[Callable[[], None]] = []
        self._unarmed: set[str] = set()  # folders whose watch could not be renewed
        self._tasks: set[asyncio.Task[None]] = set()
        self._remove_listener = session.add_listener(self._on_state)

    async def join(self, member_id: str, info: bytes = b"") -> None:
        """Become a member. `AlreadyExists` when another session has that id: ids are unique per process."""
        self._info = info
        await self._enter(member_id)
        self._member_id = member_id

    @property
    def has_joined(self) -> bool:
        """Whether this process is a member, or becomes one again as soon as its new session is admitted."""
        return self._member_id is not None

    async def leave(self) -> None:
        """Be no member any more, until `join`. Raises Unavailable; the node then ends with the session."""
        member_id, self._member_id = self._member_id, None
        if member_id is None:
            return
        path = f"{MEMBERS}/{encode_name(member_id)}"
        stat = await self._session.exists(path)
        if stat is not None and stat.ephemeral_owner == self._session.session_id:
            with contextlib.suppress(NotFound):
                await self._session.delete(path)

    async def restate(self, info: bytes) -> None:
        """Say something else of this member than when it joined; also after a session that is being made anew."""
        self._info = info
        if self._member_id is None:
            return  # said when it joins
        with contextlib.suppress(NotFound):  # it is about to join again, with this
            await self._session.set(f"{MEMBERS}/{encode_name(self._member_id)}", info, version=MULTI_ANY_VERSION)

    async def members(self) -> list[str]:
        """The ids of all members, sorted."""
        found = []
        for name in await self._below(MEMBERS):
            try:
                found.append(decode_name(name))
            except InvalidInput:
                _log.warning("membership.foreign-node", node=name)
        return sorted(found)

    async def info(self, member_id: str) -> bytes:
        """What a member says of itself; `NotFound`."""
        return (await self._session.get(f"{MEMBERS}/{encode_name(member_id)}"))[0]

    async def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the event loop after members or owners changed, and after the session came back.

        It may be called when nothing changed, and once for several changes. After an error it is not called: try again.
        """
        if not self._callbacks:
            await self._session.ensure_path(MEMBERS)
            await self._session.ensure_path(SHARDS)
            for folder in (MEMBERS, SHARDS):
                await self._arm(folder)
        self._callbacks.append(callback)

    async def take_shard(self, shard: int) -> bool:
        """Become the owner of `shard`; False when another member is, or this process is no member (any more)."""
        if self._member_id is None:
            return False
        epoch = self._session.epoch
        if not await self._claim(f"{SHARDS}/{shard}", self._member_id.encode()):
            return False
        self._owned[shard] = epoch
        return True

    def owns(self, shard: int) -> bool:
        """Is the shard, as far as this process can know, still ours? False while the session is suspended."""
        return bool(self.owned_of((shard,)))

    def owned_of(self, shards: Iterable[int]) -> list[int]:
        """Those of `shards` for which `owns` says yes, in their order: asked of all several times a batch."""
        if self._session.state != "connected":
            return []
        epoch, owned = self._session.epoch, self._owned
        return [shard for shard in shards if owned.get(shard) == epoch]

    async def still_owns(self, shard: int) -> bool:
        """As `owns`, asked of the server: a process that was stopped for a while may have lost it and not know yet.

        False also while there is no answer.
        """
        if not self.owns(shard):
            return False
        try:
            _, stat = await self._session.sync_get(f"{SHARDS}/{shard}")
        except FirnError:
            return False
        return stat.ephemeral_owner == self._session.session_id

    async def release_shard(self, shard: int) -> None:
        """Stop being the owner; nothing happens when this member is not."""
        self._owned.pop(shard, None)
        path = f"{SHARDS}/{shard}"
        stat = await self._session.exists(path)
        if stat is not None and stat.ephemeral_owner == self._session.session_id:
            try:
                await self._session.delete(path)
            except NotFound:
                return

    async def owners(self) -> dict[int, str]:
        """The member id of each shard that has an owner."""
        found: dict[int, str] = {}
        for name in await self._below(SHARDS):
            try:
                data, _ = await self._session.get(f"{SHARDS}/{name}")
            except NotFound:
                continue
            if name.isdecimal():
                found[int(name)] = data.decode(errors="replace")
        return dict(sorted(found.items()))

    async def close(self) -> None:
        """Stop watching; the member's nodes end with its session."""
        self._remove_listener()
        self._callbacks.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _enter(self, member_id: str) -> None:
        await self._session.ensure_path(MEMBERS)
        await self._session.ensure_path(SHARDS)
        path, said = f"{MEMBERS}/{encode_name(member_id)}", self._info
        if not await self._claim(path, said):
            raise AlreadyExists(f"member {member_id!r} is there already, with another session")
        if self._info != said:  # restated meanwhile, when there was no node
            with contextlib.suppress(NotFound):
                await self._session.set(path, self._info, version=MULTI_ANY_VERSION)

    async def _below(self, folder: str) -> list[str]:
        try:
            return await self._session.children(folder)
        except NotFound:
            return []

    async def _claim(self, path: str, data: bytes) -> bool:
        """Make an ephemeral node, or find that it is this session's already (a lost reply, a repeated call)."""
        try:
            await self._session.create(path, data, ephemeral=True)
        except NotFound:
            await self._session.ensure_path(path.rpartition("/")[0])
            return await self._claim(path, data)
        except (AlreadyExists, UnknownOutcome) as error:
            stat = await self._session.exists(path)
            if stat is None and isinstance(error, UnknownOutcome):
                raise Unavailable(str(error)) from error
            return stat is not None and stat.ephemeral_owner == self._session.session_id
        return True

    async def _arm(self, folder: str) -> None:
        await self._session.children(folder, watch=lambda: self._changed(folder))

    def _changed(self, folder: str) -> None:
        if self._callbacks:
            self._spawn(self._arm_and_tell(folder))

    async def _arm_and_tell(self, folder: str) -> None:
        try:
            await self._arm(folder)  # before telling: a change after the callback's reading fires again
        except FirnError:
            self._unarmed.add(folder)  # the session is away: its return arms again
            return
        for callback in list(self._callbacks):
            callback()

    def _on_state(self, state: SessionState) -> None:
        if state == "lost":
            self._owned.clear()
        if state == "connected":
            if self._member_id is not None:
                self._spawn(self._rejoin(self._member_id))
            unarmed, self._unarmed = self._unarmed, set()
            for folder in unarmed:
                self._changed(folder)
            for callback in list(self._callbacks):
                callback()

    async def _rejoin(self, member_id: str) -> None:
        while self._session.state == "connected" and self._member_id == member_id:
            try:
                if self._admit is not None:
                    await self._admit()
                await self._enter(member_id)
            except AlreadyExists as error:
                # The node of the session that was lost; the server is about to remove it.
                _log.info("membership.waiting-for-old-session", error=str(error))
            except FirnError as error:
                _log.warning("membership.not-rejoined-yet", error=str(error))
            else:
                return
            await asyncio.sleep(REJOIN_RETRY_S)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
