"""Whether the ZooKeeper, the Redis and the warehouse that a daemon reaches are its own deployment's.

Looked at when the daemon starts, after every new ZooKeeper session, and every few seconds; each new connection to Redis
is checked by itself (`firn.storage.redis_owner`). While something contradicts, the daemon takes and commits nothing; it
goes on by itself as soon as nothing does.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgspec

from firn.coordinator.config import Settings
from firn.coordinator.store_addresses import zookeeper_options
from firn.model.deployment import RedisMark, StoreMarks, Verdict, judge, redis_mark_in
from firn.model.errors import AlreadyExists, CorruptFile, FirnError, InvalidInput, Unavailable
from firn.storage.deployment_marks import DeploymentMarks
from firn.storage.files import FileStore
from firn.storage.folder_marks import FolderMarks
from firn.storage.intent_streams import IntentStreams
from firn.storage.journal import home_of
from firn.storage.locations import FILE_SCHEME, MARK_NAME, normalize, scheme_of
from firn.storage.log import get_logger
from firn.storage.marked_folders import read_mark
from firn.storage.sessions import Session, SessionState

LOOK_S: Final = 5.0
"""How often the marks of ZooKeeper and Redis are read."""

RETRY_S: Final = 0.5
"""How soon they are read again while something is wrong, or a server does not answer."""

FILES_LOOKED_AT: Final = 10_000
"""Files of an unmarked warehouse among which a journal is looked for, when nothing else is known."""

DISK_S: Final = 15.0


class StoreIdentity:
    """The three stores of one daemon or command, and what their marks mean."""

    def __init__(self, settings: Settings, *, session: Session, streams: IntentStreams, files: FileStore) -> None:
        self._session = session
        self._streams = streams
        self._files = files
        self._warehouse = normalize(settings.warehouse.location)
        self._is_local = scheme_of(self._warehouse) == FILE_SCHEME
        self._root = root_of(settings)
        self._zookeeper = DeploymentMarks(session)
        self._warehouse_mark: str | None = None
        self._confirmed_epoch: int | None = None
        """The session under which ZooKeeper was found to be ours."""
        self._wake = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        self.verdict: Verdict | None = None
        self._log: Any = get_logger()

    # -- what is asked all the time --------------------------------------------------------------------------------

    @property
    def wrong(self) -> str | None:
        """Why nothing is taken and committed; None while nothing contradicts."""
        return None if self.verdict is None or self.verdict.is_fine else self.verdict.reason

    async def confirm(self) -> None:
        """Raise Unavailable unless the ZooKeeper of this session is ours; asked of it once a session."""
        if self._confirmed_epoch != self._session.epoch:
            await self.look()
        if self.wrong is not None:
            raise Unavailable(self.wrong)
        if self._confirmed_epoch != self._session.epoch:
            raise Unavailable("whose ZooKeeper this is is not known yet")

    async def confirm_now(self) -> None:
        """As `confirm`, asked of ZooKeeper: before a conclusion from what it does not have."""
        epoch = self._session.epoch
        await self.look()
        if self._session.epoch != epoch:
            raise Unavailable("the ZooKeeper session was lost meanwhile")
        await self.confirm()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the event loop when the verdict has changed."""
        self._callbacks.append(callback)

    # -- looking ---------------------------------------------------------------------------------------------------

    async def marks(self, *, redis_may_be_away: bool = False) -> StoreMarks:
        """Read the marks of ZooKeeper and Redis, with that of the warehouse as `read_warehouse` found it.

        A Redis that is away has no mark where it may be. Raises Unavailable.
        """
        zookeeper, folders = await self._zookeeper.read(), await self._zookeeper.folders()
        has_tables = (zookeeper is None and not folders) and await self._zookeeper.has_tables()
        try:
            redis = redis_mark_in(await self._streams.deployment())
        except Unavailable:
            if not redis_may_be_away:
                raise
            redis = None
        return StoreMarks(
            zookeeper=zookeeper, zookeeper_root=self._root, folders=frozenset(folders.values()), has_tables=has_tables,
            redis=redis, warehouse=self._warehouse_mark, warehouse_noted=self._warehouse in folders,
            warehouse_is_local=self._is_local,
        )  # fmt: skip

    async def read_warehouse(self) -> None:
        """Read the warehouse's mark: once, since an object store would be asked for money. Raises Unavailable."""
        try:
            async with asyncio.timeout(DISK_S):
                self._warehouse_mark = await asyncio.to_thread(read_mark, self._files, self._warehouse)
        except TimeoutError as error:
            raise Unavailable(f"{self._warehouse}: the store did not answer in {DISK_S:g} s") from error
        except InvalidInput as error:
            raise CorruptFile(f"{self._warehouse}/{MARK_NAME}", str(error)) from error

    @property
    def warehouse_mark(self) -> str | None:
        """The mark of the warehouse; None where it has none."""
        return self._warehouse_mark

    def warehouse_is(self, mark: str | None) -> None:
        """The warehouse has been marked meanwhile."""
        self._warehouse_mark = self._warehouse_mark or mark

    async def at_start(self) -> Verdict:
        """Judge all three stores; where nothing contradicts, mark those that have no mark yet. Raises Unavailable."""
        await self.read_warehouse()
        epoch = self._session.epoch
        marks = await self.marks()
        verdict = judge(marks)
        if verdict.finding == "first-start":
            marks = msgspec.structs.replace(marks, has_journals=await asyncio.to_thread(self._has_journals))
            verdict = judge(marks)
        await self._settle(marks, verdict, epoch)
        assert self.verdict is not None
        return self.verdict

    async def look(self) -> None:
        """Judge the stores as they are now. Raises Unavailable while ZooKeeper or Redis does not answer."""
        epoch = self._session.epoch
        marks = await self.marks()
        verdict = judge(marks)
        if verdict.finding == "first-start":  # not any more: everything was lost at once
            verdict = judge(msgspec.structs.replace(marks, has_journals=True))
        await self._settle(marks, verdict, epoch)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        remove = self._session.add_listener(self._on_session)
        try:
            while True:
                calm = self.wrong is None and self._confirmed_epoch == self._session.epoch
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S if calm else RETRY_S):
                        await self._wake.wait()
                self._wake.clear()
                if self._session.state != "connected":
                    continue
                try:
                    await self.look()
                except (FirnError, OSError) as error:
                    self._log.debug("stores not compared", reason=str(error))
        finally:
            remove()

    async def adopt(self, *, redis: bool, warehouse: bool) -> None:
        """Mark the stores as one deployment, as an operator has decided: the warehouse's, which has the tables.

        A store with another deployment's mark keeps it unless it is to be taken over. Raises Unavailable.
        """
        marks = await self.marks()
        known = marks.redis.deployment if marks.redis is not None else None
        if judge(marks).finding == "first-start":
            return
        if self._warehouse_mark is None and self._is_local and not marks.warehouse_noted and not warehouse:
            raise Unavailable(
                f"{self._warehouse} has no mark {MARK_NAME}: mount its disk, or say that it is the right folder with "
                "firn recover --adopt-warehouse --yes"
            )
        deployment = await self._zookeeper.note(self._warehouse_mark or known or secrets.token_hex(16))
        if self._warehouse_mark is not None:
            folders = FolderMarks(self._session)
            await (folders.renote if warehouse else folders.note)(self._warehouse, self._warehouse_mark)
        elif warehouse:
            await self._mark_object_store(deployment)
        if known is None or known == deployment or redis:
            await self._mark_redis(deployment, replacing=await self._streams.deployment())

    # -- marking ---------------------------------------------------------------------------------------------------

    async def _settle(self, marks: StoreMarks, verdict: Verdict, epoch: int) -> None:
        """Take over what was found; mark what has no mark, where nothing contradicts."""
        if verdict.is_fine:
            deployment = await self._mark_all(marks, verdict)
            verdict = msgspec.structs.replace(verdict, finding="same", deployment=deployment)
            self._streams.expect(deployment)
            self._confirmed_epoch = epoch
        else:
            self._confirmed_epoch = None
        before, self.verdict = self.verdict, verdict
        if (None if before is None else before.reason) == verdict.reason and before is not None:
            return
        if not verdict.is_fine:
            self._log.error("stores do not belong together", finding=verdict.finding, reason=verdict.reason)
        elif before is not None:
            self._log.info("stores belong together again", deployment=verdict.deployment)
        for callback in self._callbacks:
            callback()

    async def _mark_all(self, marks: StoreMarks, verdict: Verdict) -> str:
        """Mark stores that have no mark: ZooKeeper first, so that a start that is cut short finds its own mark."""
        deployment = marks.zookeeper
        if deployment is None:
            deployment = await self._zookeeper.note(verdict.deployment or secrets.token_hex(16))
        if marks.redis is None:
            await self._mark_redis(deployment, replacing=None)
        elif marks.redis.zookeeper_root != self._root or marks.redis.deployment != deployment:
            await self._mark_redis(deployment, replacing=await self._streams.deployment())
        if self._warehouse_mark is None and not self._is_local and not marks.warehouse_noted:
            await self._mark_object_store(deployment)
        elif self._warehouse_mark is not None and not marks.warehouse_noted and not self._is_local:
            await FolderMarks(self._session).note(self._warehouse, self._warehouse_mark)
        return deployment

    async def _mark_redis(self, deployment: str, *, replacing: bytes | None) -> None:
        mark = msgspec.json.encode(RedisMark(deployment=deployment, zookeeper_root=self._root))
        await self._streams.mark(mark, replacing=replacing)

    async def _mark_object_store(self, deployment: str) -> None:
        """Mark a warehouse in an object store; a local one is marked with the other folders."""
        location = f"{self._warehouse}/{MARK_NAME}"
        try:
            with contextlib.suppress(AlreadyExists):
                await asyncio.to_thread(self._files.create, location, f"{deployment}\n".encode())
            mark = await asyncio.to_thread(read_mark, self._files, self._warehouse)
        except FirnError as error:
            self._log.warning("warehouse has no mark", location=location, reason=str(error))
            return
        if mark is not None:
            self._warehouse_mark = mark
            await FolderMarks(self._session).note(self._warehouse, mark)

    def _has_journals(self) -> bool:
        """Whether the warehouse, which nobody has marked, has a journal among its first files."""
        found = islice(self._files.list(self._warehouse), FILES_LOOKED_AT)
        return any(home_of(info.location) is not None for info in found)

    def _on_session(self, state: SessionState) -> None:
        if state == "connected":
            self._wake.set()


async def stores_trouble(
    settings: Settings, *, session: Session, streams: IntentStreams | None, files: FileStore
) -> str | None:
    """Return why a daemon with these settings would take no work; None where nothing contradicts. Raises Unavailable.

    Without `streams`, as far as ZooKeeper and the warehouse tell.
    """
    if streams is None:
        return None
    stores = StoreIdentity(settings, session=session, streams=streams, files=files)
    await stores.read_warehouse()
    verdict = judge(await stores.marks(redis_may_be_away=True))
    return None if verdict.is_fine else verdict.reason


def root_of(settings: Settings) -> str:
    """Return the path below which everything of the deployment is in ZooKeeper, wherever the settings have it."""
    _, slash, path = zookeeper_options(settings).hosts.partition("/")
    return (slash + path).rstrip("/")
