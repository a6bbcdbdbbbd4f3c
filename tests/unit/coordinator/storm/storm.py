"""Several daemons and writers, and everything that can go wrong between them, as the dice of one seed will have it.

At the end the storm is over: every intent gets an outcome, and what was ever told of it, what the journals say and what
is in the tables have to agree.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.client import AsyncClient, AsyncTicket, Unknown
from firn.coordinator.client.intents import sealed
from firn.coordinator.config import DaemonSettings, HttpSettings, Settings, WarehouseSettings
from firn.coordinator.daemon import Daemon, wall_clock_ms
from firn.coordinator.fsck.run import check_table
from firn.model.errors import FirnError
from firn.model.intent import Append, DropTable, Intent
from firn.model.journal import Segment
from firn.model.limits import Limits
from firn.model.outcome import Committed, Outcome, Rejected, decode_outcome
from firn.storage.intent_streams import Settlement
from firn.storage.memory_streams import MemoryStreams
from firn.storage.pointers import Pointer, Pointers
from tests.unit.coordinator.storm.weather import Failover, Host, ShakyFiles, Weather, shaky_session, shaky_streams
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench, append, create, new_id

DAY_MS: Final = 86_400_000
KEPT: Final = {"db.kept": "metastore", "db.files": "file-system"}
"""Tables that stay."""

FLEETING: Final = ("db.fleeting", "db.passing")
"""Names whose tables come and go."""

SETTLED_S: Final = 60.0
RESUBMIT_S: Final = 0.25

LIMITS: Final = (
    Limits(),
    Limits(dedupe_intents_max=1, ids_ahead_bytes_max=64, table_states_bytes_max=1),
    Limits(dedupe_intents_max=20, swap_attempts_max=3, table_states_bytes_max=1),
)
"""Daemons of one fleet need not agree on what they remember."""


class Life:
    """One daemon, from its start to its end or death."""

    def __init__(self, storm: Storm, name: str) -> None:
        self.host = Host()
        self.name = name
        self._storm = storm
        bench, dice = storm.bench, storm.weather.dice
        behind_ms = dice.choice((0, 0, 0, DAY_MS, -DAY_MS))
        self.session = shaky_session(bench.zookeeper, self.host, storm.weather)
        self.streams = shaky_streams(bench.redis, self.host, storm.weather)
        storm.listen(self.streams)
        settings = Settings(
            warehouse=WarehouseSettings(location=bench.warehouse), http=HttpSettings(port=-1),
            daemon=DaemonSettings(id=name, shards=bench.shards, drain_s=1), limits=dice.choice(LIMITS),
        )  # fmt: skip
        self.daemon = Daemon(
            settings, session=self.session, streams=self.streams,
            files=ShakyFiles(bench.files, self.host, storm.weather), wall_ms=lambda: wall_clock_ms() - behind_ms,
        )  # fmt: skip

    async def start(self) -> bool:
        """Whether it came up: in a storm a start may fail, as a process that ends with an error."""
        try:
            await self.daemon.start()
        except FirnError:
            await self.kill()
            return False
        return True

    async def kill(self) -> None:
        """As a crash does: nothing is given up, the session ends when the server thinks so."""
        self.host.die()
        daemon = self.daemon
        await cancel_all([*daemon._tasks, *daemon.lanes._tasks.values()], again_s=0.1)
        daemon._remove_listener()
        self._storm.bench.zookeeper.end(self.session.session_id)

    async def end(self) -> None:
        """In good order."""
        self.host.go_on()
        await self.daemon.stop()
        await self.session.close()


class Storm:
    """A deployment under one seed."""

    def __init__(self, seed: int) -> None:
        self.weather = Weather(dice=random.Random(seed))
        self.bench = Workbench(shards=2)
        self.bench.zookeeper._now_ms = self.bench.redis.now_ms = lambda: wall_clock_ms() + self._queue_ahead_ms
        self._queue_ahead_ms = 0
        self._failover = Failover(self.bench.redis)
        self._lives: list[Life] = []
        self._names = 0
        self._files = 0
        self._clients: list[AsyncClient] = []
        self.intents: dict[str, Intent] = {}
        """All that was submitted, by id; of those with one id the first."""
        self.others: list[Intent] = []
        """Those with another's id."""
        self._tickets: list[AsyncTicket] = []
        self.told: defaultdict[tuple[str, str | None], list[Outcome]] = defaultdict(list)
        """What daemons meant to tell, by id and, for refusals that no journal has, the digest."""
        self._locations: dict[str, str] = {}
        self.forgot = False
        """Whether Redis has lost outcomes: then nobody knows any more of a refusal that no journal has."""

    # -- what writers do -------------------------------------------------------------------------------------------

    def client(self) -> AsyncClient:
        made = AsyncClient(connect=self.bench.redis.connect, resubmit_after_s=RESUBMIT_S)
        self._clients.append(made)
        return made

    async def submit(self, intent: Intent, client: AsyncClient | None = None) -> None:
        """Submit an intent; its writer may be gone before it hears of it."""
        dice = self.weather.dice
        intent = sealed(intent, reply_to="firn:replies:nobody")  # its digest leaves that out
        if self.intents.setdefault(intent.intent_id, intent).digest != intent.digest:
            self.others.append(intent)
        client = client or (dice.choice(self._clients) if dice.random() < 0.8 else self.client())
        try:
            self._tickets.append(await client.submit(intent))
        except FirnError:
            return  # the client is closed, or has another intent of this id under way

    def new_append(self, table: str) -> Append:
        self._files += 1
        dice = self.weather.dice
        made_ms = wall_clock_ms() + self._queue_ahead_ms
        made_ms += dice.choice((0,) * 12 + (-50, 50, -60_000, 60_000, 3_000_000, -DAY_MS // 2, -DAY_MS, DAY_MS))
        location = self._locations.get(table, f"{WAREHOUSE}/{table.replace('.', '/')}")
        plain = append(f"f{self._files:03}", table=table, intent_id=new_id(made_ms))
        files = tuple(
            msgspec.structs.replace(f, file_path=f"{location}/data/f{self._files:03}.parquet") for f in plain.data_files
        )
        return msgspec.structs.replace(plain, data_files=files)

    async def write(self) -> None:
        """One thing that a writer does."""
        dice = self.weather.dice
        what = dice.random()
        if what < 0.70:
            table = dice.choice((*KEPT, *KEPT, *KEPT, *FLEETING))
            for _ in range(dice.choice((1, 1, 1, 5))):
                await self.submit(self.new_append(table))
        elif what < 0.85 and self.intents:  # again, by whom it may be, however long ago
            for intent in dice.choices([*self.intents.values()], k=3):
                await self.submit(intent, self.client() if dice.random() < 0.5 else None)
        elif what < 0.90 and self.intents:  # a writer's mistake: other content under an id
            known = dice.choice([*self.intents.values()])
            await self.submit(
                msgspec.structs.replace(self.new_append(known.table), intent_id=known.intent_id), self.client()
            )
        else:
            table = dice.choice(FLEETING)
            await self.submit(DropTable(intent_id=new_id(), table=table) if what < 0.94 else create(table))
            await self.look_where(table)

    async def look_where(self, table: str) -> None:
        try:
            pointer = (await Pointers(self.bench.zookeeper.connect()).read(table)).pointer
        except FirnError:
            return
        self._locations[table] = pointer.location

    # -- what goes wrong -------------------------------------------------------------------------------------------

    async def start_daemon(self) -> None:
        self._names += 1
        life = Life(self, f"d{self._names}")
        if await life.start():
            self._lives.append(life)

    async def strike(self) -> None:
        """One thing that goes wrong at once."""
        dice, redis = self.weather.dice, self.bench.redis
        life = dice.choice(self._lives) if self._lives else None
        match dice.choice(STRIKES):
            case "kill" if life is not None:
                self._lives.remove(life)
                await life.kill()
            case "stop" if life is not None:  # and the session ends meanwhile, or does not
                life.host.stop()
                await asyncio.sleep(dice.uniform(0, 0.05))
                if dice.random() < 0.7:
                    self.bench.zookeeper.expire(life.session, told=False)
                asyncio.get_running_loop().call_later(dice.uniform(0.01, 0.4), life.host.go_on)
            case "expire" if life is not None:
                self.bench.zookeeper.expire(life.session, told=dice.random() < 0.5)
            case "suspend" if life is not None:
                life.session.suspend()
                asyncio.get_running_loop().call_later(dice.uniform(0.01, 0.2), life.session.resume)
            case "failover":
                self._failover.happen()
                self.forgot = True
            case "emptied":
                redis.flush_all()
                self.forgot = True
            case "no-groups":
                redis.lose_groups()
            case "no-outcomes":
                for key in [key for key in redis.keys if ":outcome:" in key]:
                    del redis.keys[key]
                self.forgot = True
            case "redis-down":
                redis.down = True
                await asyncio.sleep(dice.uniform(0.01, 0.1))
                redis.down = False
            case "queue-clock":
                self._queue_ahead_ms = dice.choice((0, 3_000_000, -3_000_000, DAY_MS, -DAY_MS))
            case "writer-dies" if len(self._clients) > 1:
                await self._clients.pop(dice.randrange(len(self._clients))).close()
        if len(self._lives) < 2:
            await self.start_daemon()

    # -- the whole -------------------------------------------------------------------------------------------------

    async def run(self, steps: int) -> None:
        """A storm, the calm after it, and the reckoning."""
        self.weather.storms = False
        await self.start_daemon()
        first = self.client()
        for table, catalog in KEPT.items():
            await self.submit(create(table, catalog=catalog), first)
        for ticket in self._tickets:
            assert isinstance(await ticket.result(SETTLED_S), Committed)
        self._failover.replicate()
        self.weather.storms = True
        await self.start_daemon()
        for _ in range(steps):
            await self.write()
            if self.weather.dice.random() < 0.15:
                await self.strike()
            if self.weather.dice.random() < 0.5:
                await asyncio.sleep(self.weather.dice.uniform(0, 0.02))
            if self.weather.dice.random() < 0.3:
                self._failover.replicate()
        self.weather.storms, self._queue_ahead_ms = False, 0
        for life in self._lives:
            life.host.go_on()
        if not self._lives:
            await self.start_daemon()
        outcomes = await self.outcomes_of_all()
        await self.settle_pointers()
        for life in self._lives:
            await life.end()
        for client in self._clients:
            await client.close()
        await Reckoning(self, outcomes).check()

    async def settle_pointers(self) -> None:
        """The znode of a file-system table only follows it: what it missed in the storm comes with the next commit."""
        client = self.client()
        for table in KEPT:
            await self.submit(append("last", table=table), client)
            assert isinstance(await self._tickets[-1].result(SETTLED_S), Committed)

    async def outcomes_of_all(self) -> Mapping[str, Outcome]:
        """Every writer asks once more for what it submitted, until it is told."""
        client = self.client()
        tickets = [await client.submit(intent) for intent in self.intents.values()]
        ends_at = asyncio.get_running_loop().time() + SETTLED_S
        found = [await ticket.result(max(0.0, ends_at - asyncio.get_running_loop().time())) for ticket in tickets]
        left = [one for one in found if isinstance(one, Unknown)]
        assert not left, (left, self._left())
        return {one.intent_id: one for one in found if not isinstance(one, Unknown)}

    def _left(self) -> list[str]:
        """Where what is not decided may be, for whoever has to find out."""
        groups = {n: (s.group, len(s.entries), s.last) for n, s in self.bench.redis.streams.items() if s.group}
        found = [f"{n}: {len(g.pending)} pending, last {g.last} of {last}, {c}" for n, (g, c, last) in groups.items()]
        for life in self._lives:
            lanes = life.daemon.lanes
            found.append(
                f"{life.name} {life.session.state}: owns {life.daemon.ownership.owned()}, depths {lanes.depths}, "
                f"stalled {lanes.stalled}, unreadable {lanes.unreadable}, under way {lanes.all_under_way()}, "
                f"{life.daemon.health().reasons}, {[t.exception() for t in life.daemon._tasks if t.done()]}"
            )
        return found

    def listen(self, streams: MemoryStreams) -> None:
        """Note what a daemon means to tell, whether or not it arrives."""
        settle = streams.settle

        async def noted(batch: Sequence[Settlement], **more: Any) -> None:
            for one in batch:
                if one.intent_id is not None:
                    outcome = decode_outcome(one.outcome)
                    digest = outcome.digest if isinstance(outcome, Rejected) else None
                    self.told[one.intent_id, digest].append(outcome)
            await settle(batch, **more)

        streams.settle = noted  # type: ignore[method-assign]


STRIKES: Final = (
    "kill", "kill", "stop", "stop", "expire", "suspend", "failover", "failover", "emptied", "no-groups", "no-outcomes",
    "redis-down", "queue-clock", "writer-dies",
)  # fmt: skip


class Reckoning:
    """What was told, what the journals say, and what is in the tables: all of it has to agree."""

    def __init__(self, storm: Storm, outcomes: Mapping[str, Outcome]) -> None:
        self._storm = storm
        self._bench = storm.bench
        self._outcomes = outcomes

    async def check(self) -> None:
        pointers = Pointers(self._bench.zookeeper.connect())
        found = {name: (await pointers.read(name)).pointer for name in await pointers.list()}
        journals = {name: await self._bench.journal(name) for name in found}
        self.check_journals(journals)
        self.check_told(journals)
        for name, pointer in found.items():
            await self.check_content(pointer, journals[name])
            verdict = check_table(pointer, files=self._bench.files, limits=self._bench.limits)
            breaches = [one for one in verdict.findings if one.message != "the data file is gone"]  # none has any
            assert not breaches, breaches

    def check_journals(self, journals: Mapping[str, Sequence[Segment]]) -> None:
        """Every intent is decided once at most."""
        counts = Counter(d.intent_id for segments in journals.values() for s in segments for d in s.decided)
        assert max(counts.values()) == 1, [one for one, count in counts.items() if count > 1]

    def check_told(self, journals: Mapping[str, Sequence[Segment]]) -> None:
        """Whoever was told something final was told what the journal says, each time."""
        decided = {d.intent_id: d for segments in journals.values() for s in segments for d in s.decided}
        for (intent_id, digest), outcomes in self._storm.told.items():
            ours = [one for one in outcomes if not (isinstance(one, Rejected) and one.rule == "intent-id-reuse")]
            known = decided.get(intent_id)
            for one in ours:
                if digest is not None:  # a refusal that no journal has
                    assert known is None or known.digest != digest or self._storm.forgot, (one, known)
                else:
                    assert known is not None, one
                    assert _essence(one) == _essence(known.outcome), (one, known.outcome)
        for intent_id, outcome in self._outcomes.items():
            known = decided.get(intent_id)
            if isinstance(outcome, Committed):
                assert known is not None
                assert _essence(known.outcome) == _essence(outcome)

    async def check_content(self, pointer: Pointer, journal: Sequence[Segment]) -> None:
        """What is in a table is what was committed to it since it was made, each file once."""
        expected: list[str] = []
        intents = {(i.intent_id, i.digest): i for i in (*self._storm.intents.values(), *self._storm.others)}
        for decided in (d for segment in journal for d in segment.decided):
            if not isinstance(decided.outcome, Committed):
                continue
            intent = intents[decided.intent_id, decided.digest]
            if isinstance(intent, Append):
                expected += [f.file_path.rpartition("/")[2].removesuffix(".parquet") for f in intent.data_files]
            else:
                expected = []
        if not pointer.dropped:
            assert await self._bench.live(pointer.table) == sorted(expected)


def _essence(outcome: Outcome) -> Any:
    """What of an outcome never changes."""
    match outcome:
        case Committed():
            return outcome.table, outcome.snapshot_id, outcome.sequence_number, outcome.batch
        case Rejected():
            return outcome.table, outcome.rule, outcome.message
