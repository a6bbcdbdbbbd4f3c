"""The daemon: everything wired together, started in order and drained in the reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import msgspec

from firn.coordinator.calculating.calculator import Calculator
from firn.coordinator.cancellation import cancel_all
from firn.coordinator.config import Settings
from firn.coordinator.draining import ends_in_time, say_what_is_under_way
from firn.coordinator.http_connections import ConnectionLimits
from firn.coordinator.http_server import Health, HttpServer
from firn.coordinator.intake.intake import Intake
from firn.coordinator.intake.intent_reader import IntentReader
from firn.coordinator.intake.ownership import Ownership
from firn.coordinator.lanes.kept_states import KeptStates
from firn.coordinator.lanes.lane_threads import LaneThreads
from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.lanes.paused_tables import PausedTables
from firn.coordinator.lanes.waiting import WaitingIntents
from firn.coordinator.lanes.workshop import AnyStores, Workshop
from firn.coordinator.metrics import Metrics
from firn.coordinator.operations.bulletin import Bulletin
from firn.coordinator.operations.consumer_patrol import ConsumerPatrol
from firn.coordinator.operations.recent_work import WorkMeter
from firn.coordinator.operations.server_health import ServerHealth
from firn.coordinator.operations.table_patrol import TablePatrol
from firn.coordinator.outcomes.disturbances import Disturbances
from firn.coordinator.outcomes.publish import Publisher
from firn.coordinator.outcomes.reservations import Reservations
from firn.coordinator.pages.prometheus import Prometheus
from firn.coordinator.pages.site import Site
from firn.coordinator.pages.survey import Survey
from firn.coordinator.pending import Pending
from firn.coordinator.recovery.pointer_ages import PointerAges
from firn.coordinator.replay.holds import Hold, holds_of_consumers
from firn.coordinator.replay.working import Working
from firn.coordinator.store_identity import StoreIdentity
from firn.coordinator.tables.manifest_merger import ManifestMerger
from firn.coordinator.tables.merges_beside import MergesBeside
from firn.coordinator.tables.replaced_metadata import ReplacedMetadata
from firn.coordinator.tables.table_catalogs import TableCatalogs
from firn.coordinator.tables.table_locations import TableLocations
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.version import VERSION, build_commit
from firn.model.consumer import DAY_MS, HOLD_DAYS_DEFAULT
from firn.model.errors import AlreadyExists, CorruptFile, FirnError, InvalidInput, Misconfigured
from firn.model.journal import Segment
from firn.model.sharding import shard_of
from firn.storage.consumers import Consumers
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.file_writes import FileWrites, ThreadWrites
from firn.storage.files import FileStore
from firn.storage.given_up import GivenUp
from firn.storage.intent_streams import IntentStreams, SharedSettings
from firn.storage.journal import JournalFiles
from firn.storage.leases import Leases
from firn.storage.log import get_logger
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers
from firn.storage.sessions import Session, SessionState

JOIN_RETRY_S: Final = 0.5
GIVE_UP_S: Final = 3.0
"""How long a daemon that leaves work behind may take to tell what is decided, and to give up its locks and shards."""

JOIN_MARGIN_S: Final = 5.0
"""How long a start waits for the id to be free, beyond two session timeouts."""


def wall_clock_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


class Daemon:
    """One coordinator process. It is given its connections and does not make them: real ones or twins."""

    def __init__(
        self,
        settings: Settings,
        *,
        session: Session,
        streams: IntentStreams,
        files: FileStore,
        writes: FileWrites | None = None,
        calculator: Calculator | None = None,
        stores: StoreIdentity | None = None,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        limits, self.member = settings.limits, settings.daemon_id
        self._settings = settings
        self._session = session
        self._streams = streams
        self._log = get_logger()
        self.metrics = Metrics(version=VERSION, commit=build_commit(), daemon=self.member)
        self._connected = asyncio.Event()
        self._started = False
        self._watch_session(session.state)
        self._remove_listener = session.add_listener(self._watch_session)
        self._stores = stores
        self._membership = Membership(session, admit=None if stores is None else stores.confirm)
        self._leases = Leases(session, member=self.member)
        pointers = Pointers(session)
        file_system = FileSystemTables(files)
        self.publisher = Publisher(
            streams, daemon=self.member, metrics=self.metrics, limits=limits, wall_ms=wall_ms, on_settled=self._settled
        )
        self._wall_ms = wall_ms
        self._consumers = Consumers(session)
        pauses = Pauses(session)
        self.paused = PausedTables(pauses, metrics=self.metrics)
        threads = LaneThreads()
        reader = TableReader(files, limits=limits)
        journal = JournalFiles(files, bytes_max=limits.journal_bytes_max)
        ages = PointerAges(
            files, streams, journal=journal, reader=reader, limits=limits, warehouse=settings.warehouse.location,
            epoch=lambda: session.epoch,
        )  # fmt: skip
        shop = Workshop(
            daemon=self.member,
            files=files,
            writes=writes or ThreadWrites(files),
            threads=threads,
            kept=KeptStates(bytes_max=limits.table_states_bytes_max, on_forgotten=self.metrics.states_forgotten.inc),
            reader=reader,
            merges=MergesBeside(
                files,
                reader.merge_source,
                limits=limits,
                keep=reader.remember,
                merger=self._merger_by(calculator),
                on_failed=lambda cause: self.metrics.merges_failed.labels(cause).inc(),
            ),
            replaced=ReplacedMetadata(
                files, limits=limits, run=threads.read, on_removed=self.metrics.metadata_files_removed.inc
            ),
            journal=journal,
            pointers=pointers,
            catalogs=TableCatalogs(pointers, file_system, run=threads.read),
            leases=self._leases,
            locations=TableLocations(pointers),
            paused=self.paused,
            given_up=GivenUp(session),
            publisher=self.publisher,
            metrics=self.metrics,
            limits=limits,
            warehouse=settings.warehouse.location,
            allowed=settings.allowed_locations,
            lease_idle_s=settings.daemon.lease_idle_s,
            wall_ms=wall_ms,
            connected=self._wait_connected,
            stores=stores or AnyStores(),
            ages=ages,
            waiting=self._holds,
            consumed=self._consumed,
            landed=self._landed,
        )
        self.lanes, self._replaced = Lanes(shop), shop.replaced
        self.metrics.watch_cache(shop.reader.cache)
        self.metrics.watch_tables(self.lanes.sizes, writers_max=limits.writers_max)
        self.metrics.watch_troubles(lambda: self.lanes.troubles)
        self.metrics.watch_lanes(lambda: self.lanes.depths)
        self.metrics.watch_publishing(lambda: self.publisher.depth)
        self.ownership = Ownership(
            self._membership,
            member=self.member,
            shards=settings.daemon.shards,
            metrics=self.metrics,
            on_release=self._release_shards,
            may_own=None if stores is None else self._may_own,
        )
        self.metrics.watch_shards(self.ownership.owned, configured=settings.daemon.shards)
        self._patrol = TablePatrol(shop, self.lanes, shards=settings.daemon.shards, owned=self.ownership.owned)
        self.consumer_patrol = ConsumerPatrol(
            self._consumers, shop, publish=streams.publish, shards=settings.daemon.shards, owned=self.ownership.owned
        )
        self._server_health = ServerHealth(
            session, streams, metrics=self.metrics, warehouse=settings.warehouse.location
        )
        self._bulletin = Bulletin(
            self._membership, self.lanes, faults=self._server_health.faults, work=WorkMeter(self.metrics).recent
        )
        self._reservations = Reservations(streams, limits=limits)
        self._disturbances = Disturbances(self._reservations, streams, daemon=self.member, wall_ms=wall_ms)
        self._waiting = WaitingIntents(
            streams, shards=settings.daemon.shards, limits=limits, under_way=self.lanes.under_way
        )
        self.intake = Intake(
            streams, self.lanes, self.publisher, consumer=self.member, shards=settings.daemon.shards,
            owned=self.ownership.owned, still_owns=self.ownership.still_owns, metrics=self.metrics, limits=limits,
            reader=None if calculator is None else IntentReader(calculator),
        )  # fmt: skip
        self.intake.announcement = msgspec.json.encode(
            SharedSettings(
                shards=settings.daemon.shards,
                warehouse=settings.warehouse.location,
                allowed=settings.allowed_locations,
            )
        )
        survey = Survey(
            shop, self.lanes, shards=settings.daemon.shards, membership=self._membership, pauses=pauses,
            streams=streams, consumers=self._consumers,
        )  # fmt: skip
        asked = settings.http.prometheus_url
        self.http = HttpServer(
            host=settings.http.host,
            port=settings.http.port,
            metrics=self.metrics,
            health=self.health,
            site=Site(
                survey,
                streams,
                daemon=self.member,
                prometheus=None if asked is None else Prometheus(asked),
                trace_url=settings.http.trace_url,
            ),
            token=settings.http.token,
            limits=ConnectionLimits(
                connections_max=limits.http_connections_max, peer_connections_max=limits.http_peer_connections_max
            ),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _merger_by(self, calculator: Calculator | None) -> ManifestMerger | None:
        return None if calculator is None else ManifestMerger(calculator, on_made=self.metrics.merged_apart.inc)

    async def start(self) -> str | None:
        """Join the others and begin to work; the URL of the HTTP side, None when it is off."""
        for warning in await self._streams.persistence_warnings():
            self._log.warning("redis may lose intents", setting=warning)
        await self._streams.announce(self.intake.announcement)
        url = None if self._settings.http.port < 0 else await self.http.start()
        notice = self._bulletin.first(url)
        if self._stores is None or self._stores.wrong is None:
            await self._join(notice)
        await self.paused.look_again()
        self._started = True
        self.metrics.stores_fit.set(self.holds_because is None)
        for name, work in (
            ("publisher", self.publisher.run()),
            ("pauses", self.paused.run()),
            ("ownership", self.ownership.run()),
            ("intake", self.intake.run()),
            ("lane sweep", self.lanes.sweep()),
            ("replaced metadata", self._replaced.run()),
            ("table patrol", self._patrol.run()),
            ("consumer patrol", self.consumer_patrol.run()),
            ("bulletin", self._bulletin.run()),
            ("disturbances", self._disturbances.run()),
            ("server health", self._server_health.run()),
            *(() if self._stores is None else (("stores", self._stores.run()), ("place", self._keep_place()))),
        ):
            self._tasks.append(asyncio.create_task(work, name=name))
        self._log.info("daemon started", version=VERSION, http=url, warehouse=self._settings.warehouse.location)
        return url

    async def _join(self, info: bytes) -> None:
        """Become a member. Who was killed and starts again under the same id waits for its old session to end."""
        gives_up_at = time.monotonic() + 2 * self._settings.zookeeper.session_timeout_s + JOIN_MARGIN_S
        waits = False
        while True:
            try:
                await self._membership.join(self.member, info)
            except AlreadyExists as error:
                if time.monotonic() > gives_up_at:
                    raise Misconfigured(
                        f"daemon.id: another daemon that is alive has the id {self.member!r}; give each its own"
                    ) from error
                if not waits:
                    self._log.info("waiting for the session of an earlier life to end", reason=str(error))
                waits = True
                await asyncio.sleep(JOIN_RETRY_S)
            else:
                return

    @property
    def holds_because(self) -> str | None:
        """Why the daemon takes and commits nothing: its stores are not one deployment's. None where they are."""
        return None if self._stores is None else self._stores.wrong

    async def _may_own(self) -> bool:
        assert self._stores is not None
        try:
            await self._stores.confirm()
        except FirnError as error:
            if self._stores.wrong is None:
                raise  # a server does not answer: nothing is known
            self._log.debug("no shards", reason=str(error))
            return False
        return True

    async def _keep_place(self) -> None:
        """Be among the members while the stores are the right ones, and not while they are not, until cancelled.

        Other daemons would leave this one shards, and those of another deployment would, too.
        """
        assert self._stores is not None
        changed = asyncio.Event()
        self._stores.on_change(changed.set)
        self._stores.on_change(self.ownership.look_again)
        joined = self._stores.wrong is None
        while True:
            fine = self._stores.wrong is None
            self.metrics.stores_fit.set(fine)
            try:
                if fine and not joined:
                    await self._join(self._bulletin.now())
                    joined = True
                elif joined and not fine:
                    joined = False
                    await self._membership.leave()
                self.ownership.look_again()
            except (FirnError, OSError) as error:
                self._log.warning("membership waits", reason=str(error))
                changed.set()
                await asyncio.sleep(JOIN_RETRY_S)
            await changed.wait()
            changed.clear()

    async def stop(self, *, hurried: asyncio.Event | None = None) -> None:
        """Drain: take nothing more, finish what is under way, publish it, give everything up.

        After `daemon.drain-s`, or when `hurried` is set, the log says what is still under way, and it is left: locks
        and shards are given up all the same, and its entries stay pending for whoever owns the shards next.
        """
        self.intake.stop()
        # At once: the one could still start lanes, the other takes back every shard that is given up below.
        await cancel_all([task for task in self._tasks if task.get_name() in {"intake", "ownership"}])
        drain_s, hurried = self._settings.daemon.drain_s, hurried or asyncio.Event()
        say = partial(self._say, "drain waits", hint="another signal ends it now")
        try:
            if not await ends_in_time(self._drain(), within_s=drain_s, hurried=hurried, say=say):
                reason = "another signal came" if hurried.is_set() else f"it took {drain_s:g} s (daemon.drain-s)"
                self._log.warning("drain cut short", reason=reason)
                self._say("left undecided")
                async with asyncio.timeout(GIVE_UP_S):
                    await self.lanes.abandon()
                    await self._drain()
        except TimeoutError:
            self._log.warning("drain cut short", reason=f"to give everything up took {GIVE_UP_S:g} s")
        except (FirnError, OSError) as error:  # a server is away: its nodes go with the session
            self._log.warning("drain cut short", reason=str(error))
        await cancel_all(self._tasks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await self._leases.close()
                await self._membership.close()
        await self.http.stop()
        self._remove_listener()
        self._log.info("daemon stopped")

    async def _drain(self) -> None:
        await self.lanes.retire()
        await self.publisher.drain()
        if self._session.state == "connected":
            await self.ownership.release_all()

    def _say(self, message: str, **more: str) -> None:
        say_what_is_under_way(message, lanes=self.lanes, publisher=self.publisher, **more)

    async def failed(self) -> BaseException | None:
        """Wait until one of the daemon's own loops ends by itself, which none should; what ended it."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = done.pop()
        return None if task.cancelled() else task.exception()

    def health(self) -> Health:
        """Whether intents can be taken and committed now."""
        reasons = []
        if self._session.state != "connected":
            reasons.append(f"the ZooKeeper session is {self._session.state}")
        if self.holds_because is not None:
            reasons.append(self.holds_because)
        faults = self._server_health.faults()
        reasons.extend(f"{fault.found} ({fault.cause})" for fault in faults)
        explained = self.holds_because is not None or any(fault.store == "redis" for fault in faults)
        if not self.intake.redis_answers and not explained:
            reasons.append("Redis does not answer")
        dead = [task.get_name() for task in self._tasks if task.done()]
        reasons.extend(f"{name} has ended" for name in dead)
        details = {
            "daemon": self.member,
            "shards": len(self.ownership.owned()),
            "lanes": len(self.lanes.tables()),
            "unreadable-tables": sorted(self.lanes.unreadable),
            "stalled-tables": sorted(self.lanes.stalled),
        }
        return Health(ready=not reasons, reasons=tuple(reasons), details=details)

    async def _release_shards(self, shards: set[int]) -> None:
        count, drain_s = self._settings.daemon.shards, self._settings.daemon.drain_s
        tables = {t for t in self.lanes.tables() if shard_of(t, shards=count) in shards}
        if not await ends_in_time(
            self.lanes.retire(tables), within_s=drain_s, hurried=asyncio.Event(), say=partial(self._say, "shards wait")
        ):
            self._log.warning("shards given up with work under way", shards=sorted(shards), seconds=drain_s)
            self._say("left undecided")
            await self.lanes.abandon(tables)  # or all tables of these shards would wait for one
        self.intake.forget(shards)

    async def _holds(self, table: str, besides: Collection[tuple[int, str]] | None) -> tuple[Hold, ...]:
        """What waits in the streams needs of a table, and what was reserved."""
        try:
            reserved = (await self._reservations.of(table)).holds()
        except InvalidInput as error:  # more notes than anybody of ours leaves
            self._log.warning("reservations not read", table=table, reason=str(error))
            reserved = ()
        return (*reserved, *await self._waiting.holds(table, besides=besides))

    async def _consumed(self, table_uuid: str) -> tuple[Hold, ...]:
        """What the consumers of a table's changes need."""
        now_ms = self._wall_ms()
        try:
            found = await self._consumers.of(table_uuid)
        except CorruptFile as error:  # a node that firn did not write: nothing young expires until it is mended
            self._log.warning("consumers not read", table_uuid=table_uuid, reason=str(error))
            since_ms = now_ms - round(HOLD_DAYS_DEFAULT * DAY_MS)
            return (Hold(who="a consumer whose record cannot be read", since_ms=since_ms),)
        return holds_of_consumers(found, now_ms=now_ms)

    def _landed(self, working: Working, segment: Segment, pendings: Sequence[Pending]) -> None:
        self._disturbances.landed(working, segment, pendings)

    def _settled(self, entries: Sequence[tuple[int, str]]) -> None:
        self.lanes.settled(entries)

    def _watch_session(self, state: SessionState) -> None:
        self.metrics.session_is(state)
        if state == "lost" and self._started:
            self.metrics.session_losses.inc()
        if state == "connected":
            if self._started:
                self.metrics.reconnects.inc()
            self._connected.set()
        else:
            self._connected.clear()
            self._log.warning("zookeeper session", state=state)

    async def _wait_connected(self) -> None:
        await self._connected.wait()
