"""Names against a simple model: whatever is made, renamed, replaced and dropped, in whatever order and how often."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from firn.coordinator.fsck.run import check_table
from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import CreateOrReplaceTable, DropTable, Intent, RenameTable
from firn.model.operations.tables import SeenTable
from firn.model.operations.views import DropView, RenameView, SetCurrentViewVersion
from firn.model.outcome import Committed, Outcome, Rejected, decode_outcome
from firn.storage.memory_streams import MemoryRedis
from firn.storage.pointers import Pointers
from tests.strategies.examples import examples
from tests.unit.coordinator.view_intents import new_view, replaced
from tests.unit.coordinator.workbench import (
    SCHEMA,
    WAREHOUSE,
    Workbench,
    append,
    content_file,
    create,
    decision,
    new_id,
)

NAMES: Final = ("db.a", "db.b", "db.c")
Action = Literal[
    "create", "create-view", "append", "replace-table", "replace-view", "set-version", "rename", "drop", "again",
    "restart",
]  # fmt: skip


class Step(msgspec.Struct, frozen=True):
    """Something to do to one of the names. `stale` is as planned by a writer who saw an earlier state; of a restart,
    that Redis keeps what it has.
    """

    action: Action
    name: str
    other: str
    stale: bool


class Thing(msgspec.Struct):
    """What a name should stand for: a table with its files, or a view with its query."""

    kind: Literal["table", "view"]
    location: str
    files: list[str] = []
    query: str = ""
    seen: Any = None
    """Of a view, the outcome of its last change; of a table, what a replacement has to name."""
    queries: dict[int, str] = {}


OFTEN: Final[tuple[Action, ...]] = (
    "create", "create-view", "create-view", "append", "append", "replace-table", "replace-view", "replace-view",
    "replace-view", "set-version", "set-version", "rename", "rename", "rename", "drop", "again", "restart",
)  # fmt: skip
STEPS = st.builds(
    Step,
    st.sampled_from(OFTEN),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from([False, False, False, True]),
)


class World:
    """A deployment, and what it should be."""

    def __init__(self) -> None:
        self.bench = Workbench()
        self.things: dict[str, Thing] = {}
        self.told: list[tuple[Intent, Outcome]] = []
        self.unknown: set[str] = set()
        """Intents that were refused without a journal, when Redis was emptied: nobody knows of them any more."""
        self.stale: list[Any] = []
        self.files = 0

    async def run(self, steps: list[Step]) -> None:
        """All steps, over as many lives of the daemon as they ask for; then everything is looked at."""
        lives: list[list[Step]] = [[]]
        for step in steps:
            lives[-1].append(step)
            if step.action == "restart":
                lives.append([])
        for number, life in enumerate(lives):
            async with self.bench.daemon(f"life-{number}"):
                for step in life:
                    await self.take(step)
            if life and not life[-1].stale:
                self.empty_redis()
        await self.check()

    def empty_redis(self) -> None:
        """All outcomes are forgotten that are in no journal."""
        self.bench.redis = MemoryRedis()
        self.bench.streams = self.bench.redis.connect(names=self.bench.names)
        self.unknown |= {o.intent_id for _, o in self.told if isinstance(o, Rejected) and o.digest is not None}

    async def take(self, step: Step) -> None:
        """One step: the intent that it is, and whether it must be committed."""
        thing = self.things.get(step.name)
        match step.action:
            case "restart":
                return
            case "again":
                for intent, outcome in self.told[-3:]:
                    if intent.intent_id not in self.unknown:
                        assert decision(await self.again(intent)) == decision(outcome)
                return
        made = await self.intent_of(step, thing)
        if made is None:
            return
        intent, allowed = made
        (outcome,) = await self.bench.settle(intent)
        assert isinstance(outcome, Committed) == allowed, (step, outcome)
        self.told.append((intent, outcome))
        if isinstance(outcome, Committed):
            await self.apply(step, thing, outcome)

    async def again(self, intent: Intent) -> Outcome:
        """What is answered to an intent that is submitted once more: on its own reply stream, to hear this answer."""
        reply_to = f"{self.bench.names.replies}{new_id()}"
        await self.bench.send(msgspec.structs.replace(intent, reply_to=reply_to))
        (reply,) = await self.bench.streams.replies(reply_to, block_ms=10_000)
        return decode_outcome(reply.data)

    async def intent_of(self, step: Step, thing: Thing | None) -> tuple[Intent, bool] | None:
        name, kind = step.name, None if thing is None else thing.kind
        match step.action:
            case "create":
                return create(name), thing is None
            case "create-view":
                return new_view(f"SELECT '{name}'", table=name), thing is None
            case "append":
                self.files += 1
                home = f"{WAREHOUSE}/nowhere" if thing is None else thing.location
                file = msgspec.structs.replace(content_file("x"), file_path=f"{home}/data/{self.files}.parquet")
                return append(table=name, data_files=(file,)), kind == "table"
            case "drop" if kind == "view":
                assert thing is not None
                return DropView(intent_id=new_id(), table=name, **base_of(thing.seen)), True
            case "drop":
                return DropTable(intent_id=new_id(), table=name), kind == "table"
            case "rename" if step.other != name:
                free = step.other not in self.things
                if kind == "view":
                    assert thing is not None
                    base = base_of(thing.seen)
                    return RenameView(intent_id=new_id(), table=name, new_name=step.other, **base), free
                return RenameTable(intent_id=new_id(), table=name, new_name=step.other), kind == "table" and free
            case "replace-table" if kind != "view":
                seen = None if thing is None or step.stale else await self.seen(name)
                right = (thing is None) == (seen is None)
                return CreateOrReplaceTable(intent_id=new_id(), table=name, schema=SCHEMA, seen=seen), right
            case "replace-view" | "set-version" if thing is not None and kind == "view":
                old = next((one for one in self.stale if one.details != thing.seen.details), None)
                seen = old if step.stale and old is not None else thing.seen
                current = base_of(seen) == base_of(thing.seen)
                if step.action == "replace-view":
                    return replaced(seen, f"SELECT {len(self.told)}", table=name), current
                version = min(thing.queries)
                back = SetCurrentViewVersion(intent_id=new_id(), table=name, version_id=version, **base_of(seen))
                return back, current
        return None

    async def seen(self, name: str) -> SeenTable:
        metadata = await self.bench.metadata(name)
        return SeenTable(
            uuid=metadata.table_uuid,
            schema_id=metadata.current_schema_id,
            last_column_id=metadata.last_column_id,
            last_partition_id=metadata.last_partition_id,
        )

    async def apply(self, step: Step, thing: Thing | None, outcome: Committed) -> None:
        """What the step does to the model."""
        match step.action:
            case "create" | "create-view":
                kind: Literal["table", "view"] = "table" if step.action == "create" else "view"
                self.things[step.name] = Thing(kind, (await self.pointer(step.name)).location)
            case "append":
                assert thing is not None
                thing.files.append(str(self.files))
            case "replace-table":
                location = (await self.pointer(step.name)).location
                self.things[step.name] = Thing("table", location)
            case "drop":
                del self.things[step.name]
            case "rename":
                self.things[step.other] = self.things.pop(step.name)
        now = self.things.get(step.name)
        if now is not None and now.kind == "view" and "version-id" in outcome.details:
            now.seen = outcome
            self.stale.append(outcome)
            version = outcome.details["version-id"]
            if step.action != "set-version":
                now.queries[version] = f"SELECT '{step.name}'" if step.action == "create-view" else self.last_query()
            now.query = now.queries[version]

    def last_query(self) -> str:
        return str(self.told[-1][0].representations[0]["sql"])  # type: ignore[union-attr]

    async def pointer(self, name: str) -> Any:
        return (await Pointers(self.bench.zookeeper.connect()).read(name)).pointer

    async def check(self) -> None:
        """Every name is what it should be, and every journal whole."""
        pointers = Pointers(self.bench.zookeeper.connect())
        found = {name: (await pointers.read(name)).pointer for name in await pointers.list()}
        assert {name for name, pointer in found.items() if not pointer.dropped} == self.things.keys()
        reader = TableReader(self.bench.files, limits=self.bench.limits)
        for name, thing in self.things.items():
            pointer = found[name]
            assert (pointer.kind, pointer.location) == (thing.kind, thing.location)
            if thing.kind == "table":
                assert await self.bench.live(name) == sorted(thing.files)
            else:
                (query,) = reader.view(pointer.metadata_location).current_version.representations
                assert query.sql == thing.query  # type: ignore[union-attr]
        for pointer in found.values():
            verdict = check_table(pointer, files=self.bench.files, limits=self.bench.limits)
            breaches = [one for one in verdict.findings if one.message != "the data file is gone"]  # none has any
            assert not breaches, breaches


def base_of(outcome: Committed) -> dict[str, Any]:
    return {"base_version_id": outcome.details["version-id"], "base_timestamp_ms": outcome.details["timestamp-ms"]}


@given(st.lists(STEPS, min_size=1, max_size=25))
@examples(25)
def test_names_are_what_a_simple_model_says(steps: list[Step]) -> None:
    asyncio.run(World().run(steps))
