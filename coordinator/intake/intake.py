"""Intake: entries from the streams of the owned shards, decoded and handed to lanes; what is no intent is set aside."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby, islice
from operator import attrgetter

import msgspec

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.commits.batch_record import to_ms
from firn.coordinator.intake.backlog import Backlog
from firn.coordinator.intake.intent_reader import IntentReader
from firn.coordinator.intake.lost_entries import LostEntries
from firn.coordinator.intake.page_size import PageSize
from firn.coordinator.intake.quarantine import Quarantine
from firn.coordinator.intake.read_appends import Rules, read_intent
from firn.coordinator.intake.set_aside import SetAside
from firn.coordinator.intake.unanswered_entries import UnansweredEntries
from firn.coordinator.lanes.lanes import Due, Lanes
from firn.coordinator.metrics import Metrics
from firn.coordinator.outcomes.publish import Publisher
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Refused
from firn.model.errors import FirnError, InvalidIntent
from firn.model.intent_codec import DecodedIntent, check_age
from firn.model.limits import Limits
from firn.model.sharding import shard_of
from firn.storage.intent_streams import Entry, IntentStreams, SharedSettings
from firn.storage.log import get_logger

TAKE_COUNT = 512
"""Entries per shard and read, at most."""

FIELDS_SHOWN_MAX = 5
FIELD_NAME_SHOWN_MAX = 40
"""What is told of an entry's fields: so many names, and so many bytes of each."""

BLOCK_MS = 500
"""How long one read waits for an entry; also how soon a newly owned shard is noticed."""

HELD_BLOCK_MS = 20
"""The same while tables are held back: lanes drain meanwhile."""

JANITOR_S = 60.0
"""How often entries are looked for that were delivered here and got lost on the way (a lost reply)."""

MEASURE_S = 2.0
"""How often the lag of the owned shards is read."""

TRIM_WORTH = 2_000
"""Settled entries of a shard that are removed when it is measured: a busy one's would be hundreds of MB a minute."""

PAGES_AHEAD = 2
"""Pages that are being read while the next is taken: one that the process is at, and one for it to go on with."""

LONG_DECODE_BYTES = 64 * 1024
"""Payloads above this are decoded in a worker thread, so that the others do not wait."""

CONSUMER_IDLE_S = 600.0
"""A consumer that has asked for nothing for so long, and has nothing pending, is removed: daemons leave one a life."""

RETRY_S = 0.5

COMPLAINT_S = 60.0
"""How often the log says that Redis still does not answer."""


class _Page(msgspec.Struct, frozen=True):
    """Admitted entries of a shard; `new`: handed out for the first time."""

    backlog: Backlog
    due: list[Due]
    new: bool


class Intake:
    """Takes entries for one daemon. `owned` says which shards are its own as far as it knows, `still_owns` asks
    ZooKeeper; `reader` reads many at once.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        streams: IntentStreams,
        lanes: Lanes,
        publisher: Publisher,
        *,
        consumer: str,
        shards: int,
        owned: Callable[[], list[int]],
        still_owns: Callable[[int], Awaitable[bool]],
        metrics: Metrics,
        limits: Limits,
        reader: IntentReader | None = None,
    ) -> None:
        self._streams = streams
        self._lanes = lanes
        self._publisher = publisher
        self._consumer = consumer
        self._shards = shards
        self._owned = owned
        self._metrics = metrics
        self._limits = limits
        self._rules = Rules(limits, streams.names.replies)
        self._reader = reader
        self.announcement = msgspec.json.encode(SharedSettings(shards=shards))
        self._backlogs: dict[int, Backlog] = {}
        self._lost = LostEntries(streams, metrics, still_owns=still_owns)
        self._unanswered = UnansweredEntries(
            streams, lanes, metrics, consumer=consumer, shards=shards, window_hours=limits.dedupe_window_hours
        )
        self._short: dict[int, tuple[int, float]] = {}
        """By shard of which fewer entries are pending than held back: how many are held back, and since when."""
        self._foreign: dict[int, str] = {}
        """Shards under whose key there is no stream, with what there is."""
        self._page_size = PageSize(TAKE_COUNT)
        self._set_aside = SetAside(streams, lanes, publisher, limits=limits)
        self._quarantine = Quarantine(lanes, deliveries_max=limits.deliveries_max)
        self._on_their_way: deque[asyncio.Task[None]] = deque()
        self._epoch = ""
        self._groups_seen = -1
        self._janitor_at = 0.0
        self._complains_at = 0.0
        self._measured: dict[int, float] = {}
        """When shards are to be measured again: each at a time of its own, because whatever comes meanwhile waits."""
        self._measure_at = 0.0
        self._clock_ahead_s = 0.0
        """By how much the queue's clock is ahead of the monotonic one."""
        self._clock_read_at: float | None = None
        self._stopping = False
        self.redis_answers = False
        self._log = get_logger()

    def stop(self) -> None:
        """Take nothing more."""
        self._stopping = True

    def forget(self, shards: AbstractSet[int]) -> None:
        """These shards were given up: should they come back, what was delivered and not settled is taken up again."""
        for shard in shards & self._backlogs.keys():
            self._backlogs.pop(shard).given_up = True
            self._lost.forget(shard)
            self._measured.pop(shard, None)

    def _has(self, shard: int, backlog: Backlog) -> bool:
        """Whether a shard is still this daemon's: it may be given up during any call of a store."""
        return self._backlogs.get(shard) is backlog

    async def run(self) -> None:
        """Take entries until stopped. Failures of Redis are waited out; no delivery is counted meanwhile.

        A reply that got lost may have handed entries out, so after a failure they are looked for.
        """
        try:
            await self._take_and_take()
        finally:
            await cancel_all(self._on_their_way)

    async def _take_and_take(self) -> None:
        while not self._stopping:
            try:
                await self._round()
                self._hears(answers=True)
            except (FirnError, OSError) as error:
                if self.redis_answers or time.monotonic() >= self._complains_at:
                    self._complains_at = time.monotonic() + COMPLAINT_S
                    self._log.warning("intake waits", reason=str(error))
                self._hears(answers=False)
                for backlog in self._backlogs.values():
                    backlog.start_over()
                self._lost.start_over()
                self._measured.clear()
                self._measure_at = 0.0
                await self._look_for_foreign_keys()
                await asyncio.sleep(RETRY_S)

    def _hears(self, *, answers: bool) -> None:
        self.redis_answers = answers
        self._metrics.redis_connected.set(answers)

    async def _round(self) -> None:
        await self._wait_for_pages(PAGES_AHEAD)
        if not self._backlogs.keys() >= set(self._readable()):
            await self._wait_for_pages(0)  # a shard may have been ours before: what is under way would be passed over
        shards = self._readable()
        self._follow(shards)
        if not shards:
            await asyncio.sleep(RETRY_S / 5)
            return
        await self._check_epoch()
        if time.monotonic() >= self._measure_at:
            await self._read_clock()
            await self._measure()
        if time.monotonic() >= self._janitor_at:  # after that: of a new shard nothing goes before it was looked at
            self._janitor_at = time.monotonic() + JANITOR_S
            await self._tidy()
        for shard in self._lanes.given_up() & self._backlogs.keys():
            self._backlogs[shard].start_over()
        stepped = [await backlog.step() for backlog in list(self._backlogs.values()) if not backlog.at_rest]
        await self._check_epoch()  # each of these makes a group that is missing: to be found out before it is read
        held_back = sum(backlog.tables for backlog in self._backlogs.values() if not backlog.at_rest)
        owned = set(self._readable())  # looking takes a while: a stopped process may have heard only then what it lost
        ready = [backlog.shard for backlog in self._backlogs.values() if backlog.caught_up and backlog.shard in owned]
        if not ready or held_back >= self._limits.held_back_tables_max or self._quarantine.others_wait():
            await asyncio.sleep(0 if any(stepped) else HELD_BLOCK_MS / 1000)
            return
        block_ms = 0 if any(stepped) else HELD_BLOCK_MS if held_back else BLOCK_MS
        count = self._page_size.count(streams=len(ready))
        taken = await self._streams.take(ready, consumer=self._consumer, count=count, block_ms=block_ms)
        self._page_size.saw(taken)
        pages = [list(some) for _, some in groupby(taken, key=attrgetter("shard"))]
        for entries in pages:
            self._lost.took(entries)
        by_shard = [(self._backlogs.get(entries[0].shard), entries) for entries in pages]
        for backlog, entries in by_shard:
            await self._give_back(entries if backlog is None else self._reused(entries))
        # Only then: what has been admitted must reach `_distribute`, whatever goes wrong.
        await self._distribute(
            [_Page(one, one.admit(entries), new=True) for one, entries in by_shard if one is not None]
        )

    async def _distribute(self, pages: list[_Page]) -> None:
        """Hand pages over to the lanes, behind those that came before.

        Where there is much to read this waits only until no more than `PAGES_AHEAD` are on their way.
        """
        payloads = [entry.payload or b"" for page in pages for _, entry in page.due]
        reads = self._reader is not None and self._reader.takes(payloads)
        if not reads and not self._on_their_way:
            await self._hand_over(pages, payloads, None)
            await asyncio.sleep(0)  # lanes first: they may have all that they waited for
            return
        last = self._on_their_way[-1] if self._on_their_way else None
        self._on_their_way.append(asyncio.create_task(self._hand_over(pages, payloads, last), name="intake hands over"))
        await self._wait_for_pages(PAGES_AHEAD)

    async def _distribute_again(self, backlog: Backlog, due: list[Due]) -> None:
        """As `_distribute`, for entries that were pending before."""
        await self._distribute([_Page(backlog, due, new=False)])

    async def _wait_for_pages(self, most: int) -> None:
        """Wait until at most so many are on their way. Raises what went wrong with one that is not any more."""
        while self._on_their_way and (len(self._on_their_way) > most or self._on_their_way[0].done()):
            await self._on_their_way.popleft()

    async def _hand_over(self, pages: list[_Page], payloads: Sequence[bytes], last: asyncio.Task[None] | None) -> None:
        """Hand pages over to the lanes once their `payloads` have been read, and after the `last` ones."""
        try:
            with self._lanes.awaiting(Counter(table for page in pages for table, _ in page.due)):
                read = await self._read_ahead(payloads)
                if last is not None:
                    await asyncio.wait({last})
            while pages:
                page = pages.pop(0)
                known, read = read[: len(page.due)], read[len(page.due) :]
                left = await page.backlog.hand_over(page.due, known)
                if page.new:  # what was pending before, whoever has the shard now looks for
                    await self._give_back(left)
        finally:
            for page in pages:
                page.backlog.let_go(page.due)

    def _reused(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries with ids under which others are under way: to tell of one would acknowledge the other unread."""
        if not self._lanes.any_under_way(entries):
            return []
        reused = [entry for entry in entries if self._lanes.has_another(entry)]
        if reused:
            self._log.error(
                "entry ids handed out again", shard=reused[0].shard, entries=[entry.entry_id for entry in reused[:10]],
                hint="Redis lost the end of this stream: what was there is gone unless its writers submit it again",
            )  # fmt: skip
        return reused

    async def _give_back(self, entries: Sequence[Entry]) -> None:
        """These cannot be taken under their ids, or their shard was given up while they were asked for.

        Whoever has it now may have looked for what is pending already, and would find the entries minutes later: they
        are added anew instead.
        """
        for entry in entries:
            await self._streams.move(entry, to_shard=entry.shard)
            self._metrics.moved.inc()

    def _follow(self, shards: list[int]) -> None:
        """Have a backlog for each owned shard, and for no other."""
        self.forget(self._backlogs.keys() - set(shards))
        for shard in shards:
            if shard not in self._backlogs:
                self._publisher.refusals.took_over(shard)
                self._lost.took_over(shard)
                self._measure_at = 0.0  # before anything is taken: what was lost while nobody read it is seen only now
                self._backlogs[shard] = Backlog(
                    shard, shards=self._shards, streams=self._streams, lanes=self._lanes, consumer=self._consumer,
                    distribute=self._distribute_again, accept=self._accept,
                    quarantine=self._quarantine,
                )  # fmt: skip

    def _readable(self) -> list[int]:
        """The owned shards that have streams, or nothing yet, under their keys."""
        return [shard for shard in self._owned() if shard not in self._foreign] if self._foreign else self._owned()

    async def _look_for_foreign_keys(self) -> None:
        """Find the shards whose key is no stream: they wait until it is gone, and the other shards go on."""
        try:
            found = await self._streams.foreign_keys(self._owned())
        except (FirnError, OSError):
            return  # what keeps Redis from answering is logged, and tried again
        for shard in found.keys() - self._foreign.keys():
            self._metrics.stream_interferences.labels("type").inc()
            self._log.error(
                "stream replaced by another type", shard=shard, key=self._streams.names.intents(shard),
                type=found[shard], hint="rename or delete the key: the shard goes on by itself, its intents are gone",
            )  # fmt: skip
        for shard in self._foreign.keys() - found.keys():
            self._log.info("shard goes on", shard=shard)
        self._foreign = found

    async def _check_epoch(self) -> None:
        """Notice an emptied Redis: its groups had to be made anew, and its content has another identity."""
        if self._groups_seen == self._streams.groups_created and self._epoch:
            return
        seen = self._streams.groups_created
        epoch = await self._streams.epoch()
        await self._streams.announce(self.announcement)
        self._groups_seen = seen
        if self._epoch and epoch != self._epoch:
            await self._wait_for_pages(0)
            self._log.error(
                "queue emptied", old_epoch=self._epoch, new_epoch=epoch,
                hint="Redis lost its data: undecided intents are gone until their writers resubmit them",
            )  # fmt: skip
            self._metrics.queue_emptied.inc()
            self._lanes.new_epoch()
            self.forget(set(self._backlogs))
            self._follow(self._readable())
        elif self._epoch:  # a stream or its group was removed: look before the new group is read, or nobody notices
            for shard in self._backlogs.keys() & self._measured.keys():
                if (backlog := self._backlogs.get(shard)) is not None:  # else it was given up during another's look
                    await self._look_at(shard, backlog)
        self._epoch = epoch

    async def _tidy(self) -> None:
        await self._streams.announce(self.announcement)  # a fail-over may have lost it, and no group with it
        for shard, backlog in list(self._backlogs.items()):
            if (await self._streams.lag(shard)).pending > self._lanes.count_under_way(shard) + backlog.entries:
                backlog.look_for_lost(min_idle_ms=int(JANITOR_S * 1000))
            await self._look_at(shard, backlog)  # before what seems settled goes
            self._lost.trimmed(shard, await self._streams.trim(shard))
            removed = await self._streams.remove_idle_consumers(
                shard, keep=self._consumer, idle_ms=int(CONSUMER_IDLE_S * 1000)
            )
            if removed:
                self._log.info("idle consumers removed", shard=shard, consumers=removed)

    async def _look_at(self, shard: int, backlog: Backlog) -> None:
        """Count what is lost of a shard; read what stands in it unanswered again where somebody else worked on it."""
        if self._groups_seen != self._streams.groups_created:
            return  # a group was missing: the next round finds out first whether all of Redis was emptied
        held_back = backlog.entries if backlog.caught_up else 0
        was_new = self._lost.is_new(shard)
        found = await self._lost.look(shard, held_back=held_back)
        if not self._has(shard, backlog):
            return
        seen, self._short[shard] = self._short.get(shard), (held_back, time.monotonic())
        if found != "pending":
            del self._short[shard]
        elif seen is None or seen[0] != held_back:
            return  # entries may have been settled since they were counted; what is lost stays missing
        elif self._short[shard][1] < seen[1] + MEASURE_S / 2:
            self._short[shard] = seen
            return
        if found is None:
            return
        pending = (await self._streams.lag(shard)).pending
        if not self._has(shard, backlog):
            return  # what stands there is its new owner's to read
        reclaimed = await self._unanswered.reclaim(shard, is_new=was_new)
        missing = held_back - pending - reclaimed
        if missing > 0:
            self._lost.tell(shard, "taken", missing, after=None)
        backlog.start_over()
        if missing > 0 or found == "replaced" or not was_new:  # else its former daemon may have read once more
            self._metrics.stream_interferences.labels(found).inc()
            self._log.error(
                "stream changed by another", shard=shard, kind=found, read_again=reclaimed, lost=max(0, missing),
                hint="see docs/recovery.md: nothing but firn's daemons may work on the intent streams and their group",
            )  # fmt: skip

    async def _read_clock(self) -> None:
        """Read the queue's clock, every `MEASURE_S`: how long intents are queued is told by it."""
        started = time.monotonic()
        if self._clock_read_at is None or started >= self._clock_read_at + MEASURE_S:
            clock_s = await self._streams.clock_ms() / 1000
            self._clock_read_at = time.monotonic()
            self._clock_ahead_s = clock_s - (started + self._clock_read_at) / 2

    async def _measure(self) -> None:
        """How far behind those shards are whose turn it is. Of new ones it is that before anything is taken."""
        now = time.monotonic()
        new = self._backlogs.keys() - self._measured.keys()
        if new:
            self._publisher.refusals.takes(new, now_ms=await self._streams.clock_ms())
        due = [shard for shard in self._backlogs if self._measured.get(shard, now) <= now]
        for place, shard in enumerate(due, 1):
            self._measured[shard] = now + MEASURE_S * (place / len(due) if shard in new else 1.0)
        self._measure_at = min(self._measured.values(), default=now + MEASURE_S)
        if self._foreign:
            await self._look_for_foreign_keys()
        for shard in due:
            if (backlog := self._backlogs.get(shard)) is not None:  # else it was given up during another's turn
                await self._measure_shard(shard, backlog, is_new=shard in new)
        paused = sum(backlog.paused_entries for backlog in self._backlogs.values())
        self._metrics.paused_intents.set(paused)
        self._metrics.held_back_intents.set(sum(backlog.entries for backlog in self._backlogs.values()) - paused)

    async def _measure_shard(self, shard: int, backlog: Backlog, *, is_new: bool) -> None:
        if is_new:
            # What was acknowledged or skipped while nobody watched.
            await self._unanswered.reclaim(shard, is_new=True)
        lag = await self._streams.lag(shard)
        if not self._has(shard, backlog):
            return  # its new owner measures it
        self._metrics.lag.labels(str(shard)).set(lag.undelivered or 0)
        self._metrics.pending.labels(str(shard)).set(lag.pending)
        since_ms = backlog.waiting_since_ms(lag)
        age_s = 0.0 if since_ms is None else max(0.0, time.time() - since_ms / 1000)
        self._metrics.oldest_age_seconds.labels(str(shard)).set(age_s)
        await self._look_at(shard, backlog)
        settled = 0 if lag.undelivered is None else lag.length - lag.undelivered - lag.pending
        if settled >= TRIM_WORTH and self._has(shard, backlog):  # else its new owner counts what goes
            self._lost.trimmed(shard, await self._streams.trim(shard))

    async def _read_ahead(self, payloads: Sequence[bytes]) -> Sequence[DecodedIntent | None]:
        """What the process that reads intents makes of these; None for each that is left to `_decode`."""
        if self._reader is None:
            return [None] * len(payloads)
        read = await self._reader.read_ahead(payloads)
        self._metrics.read_ahead.inc(len(read) - read.count(None))
        return read

    def _accept(self, entry: Entry, read: DecodedIntent | None) -> Awaitable[None] | None:
        """Hand an entry, which counts as under way, to its lane, or set it aside; `read` is what it says, if known.

        What is returned is to be awaited: then that takes a while, as next to no entry's does.
        """
        if entry.deliveries > 2 * self._limits.deliveries_max:
            self._set_aside.unread(entry, epoch=self._epoch)
            return None
        if read is not None:
            return self._put(entry, read)
        if entry.payload is not None and len(entry.payload) > LONG_DECODE_BYTES:
            return self._accept_long(entry)
        try:
            decoded = self._decode(entry)
        except InvalidIntent as error:
            identity = self._set_aside.identity_of(entry)
            return self._set_aside.refuse(entry, error, identity=identity, epoch=self._epoch)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong over one entry must not stop the others
            return self._set_aside.unreadable(entry, error, epoch=self._epoch)
        return self._put(entry, decoded)

    async def _accept_long(self, entry: Entry) -> None:
        try:
            decoded = await asyncio.to_thread(self._decode, entry)
        except InvalidIntent as error:
            identity = await asyncio.to_thread(self._set_aside.identity_of, entry)
            refusing = self._set_aside.refuse(entry, error, identity=identity, epoch=self._epoch)
            if refusing is not None:
                await refusing
            return
        except Exception as error:  # noqa: BLE001 - as above
            await self._set_aside.unreadable(entry, error, epoch=self._epoch)
            return
        rest = self._put(entry, decoded)
        if rest is not None:
            await rest

    def _put(self, entry: Entry, decoded: DecodedIntent) -> Awaitable[None] | None:
        home = shard_of(decoded.intent.table, shards=self._shards)
        if home != entry.shard:
            return self._move(entry, home)
        entry_ms = int(entry.entry_id.partition("-")[0])  # the queue's clock; an id of a writer's own may say anything
        taken_at = time.monotonic()
        self._lanes.put(
            Pending(
                decoded=decoded,
                entry=entry,
                epoch=self._epoch,
                entry_ms=entry_ms,
                taken_at=taken_at,
                queued_ms=max(0.0, to_ms(taken_at + self._clock_ahead_s - entry_ms / 1000)),
                verdict=self._verdict(entry, decoded, entry_ms),
            )
        )
        return None

    async def _move(self, entry: Entry, home: int) -> None:
        await self._streams.move(entry, to_shard=home)
        self._lanes.settled([(entry.shard, entry.entry_id)])
        self._metrics.moved.inc()

    def _decode(self, entry: Entry) -> DecodedIntent:
        if entry.payload is None:
            raise InvalidIntent(
                f"the entry must have one field, 'intent'; it has {_names_of(entry.fields)}",
                rule="malformed-entry",
                hint="XADD <stream> * intent '<json>'",
            )
        return read_intent(entry.payload, self._rules)

    def _verdict(self, entry: Entry, decoded: DecodedIntent, entry_ms: int) -> Refused | None:
        """What is wrong with a well-formed intent before its table is looked at. A repeat is answered all the same."""
        if entry.deliveries > self._limits.deliveries_max:
            return Refused(
                rule="poison",
                message=f"it was delivered {entry.deliveries} times and never decided: a daemon may have died over it",
                hint="retry",
            )
        try:
            check_age(decoded.intent.intent_id, entry_ms=entry_ms, limits=self._limits)
        except InvalidIntent as error:
            return Refused(rule=error.rule, message=str(error), hint="fix")
        return None


def _names_of(fields: Collection[bytes]) -> str:
    """The names of an entry's fields, the first few of them and as far as they can be printed."""
    names = [ascii(name[:FIELD_NAME_SHOWN_MAX].decode(errors="replace")) for name in islice(fields, FIELDS_SHOWN_MAX)]
    more = len(fields) - len(names)
    return ", ".join([*names, f"{more} more"] if more else names) or "none"
