"""A dry run of any operation changes nothing: no file of the warehouse, no node of ZooKeeper, no key of Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from firn.coordinator.commits.commit import working_on
from firn.coordinator.daemon import wall_clock_ms
from firn.coordinator.insight.dry_run import DRY_RUN
from firn.coordinator.insight.dry_runs import DryRuns
from firn.coordinator.replay.attempt import Attempt, Placement
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.engine import OPERATIONS as REPLAYED
from firn.coordinator.replay.engine import replay
from firn.coordinator.replay.reader import TableReader as Reads
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.intent import OPERATIONS, CreateOrReplaceTable, CreateTable, DropTable, Intent, RegisterTable
from firn.model.manifest import Status
from firn.model.operations import layout, refs, upkeep, views
from firn.model.operations.files import RewriteManifests
from firn.model.operations.rest import RestCommit, RestViewCommit
from firn.model.operations.tables import RenameTable, SeenTable
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Pointers
from tests.strategies.statistics_files import write_partition_statistics, write_statistics
from tests.unit.coordinator.replay.real_rows import SCHEMA, RealRows, field_is, ref
from tests.unit.coordinator.replay.test_manifests import manifest_paths
from tests.unit.coordinator.transactions.ledger import transaction
from tests.unit.coordinator.view_intents import VIEW, change, new_view, replaced
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

READS: Final = {"read", "read_range", "size", "list"}
"""The methods of a file store that change nothing."""

SEVERAL: Final = {"rename-table", "rename-view", "transaction"}
"""Operations on several names, which are replayed by code of their own."""


REGISTRATIONS: Final = {"register-table", "register-view"}
"""Operations for which the lane reads what is registered before it replays them."""


class RecordedCalls:
    """Something with methods, and the names of those that were called."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self._inner, name)


class EveryOperation:
    """A table with everything that an operation can be about, and an intent of each operation that would commit."""

    def __init__(self, bench: Workbench, warehouse: Path) -> None:
        self.bench, self.warehouse = bench, warehouse
        self.intents: dict[str, Intent] = {}

    async def prepare(self) -> None:
        """Make the tables and views, then the intents."""
        bench = self.bench
        gone = await bench.commit(CreateTable(intent_id=new_id(), table="db.gone", schema=SCHEMA))
        await bench.commit(DropTable(intent_id=new_id(), table="db.gone"))
        table = await RealRows.create(bench, version=2)
        kept = table.data((1, "eu"), (2, "eu"), (3, "us"))
        old = table.data((4, "us"))
        first = await table.commit(table.append(kept))
        await table.commit(table.append(old))
        moved = table.positions({kept.file_path: [0]}, like=kept)
        base = await table.commit(table.delta(first, moved, isolation="snapshot"))
        await bench.commit(self.of(refs.CreateBranch, ref_name="dev", snapshot_id=first))
        await bench.commit(self.of(refs.CreateBranch, ref_name="old", snapshot_id=first))
        await table.commit(table.append(table.data((5, "us")), branch="dev"))
        await bench.commit(self.of(refs.CreateBranch, ref_name="ahead", snapshot_id=base))
        await table.commit(table.append(table.data((6, "us")), branch="ahead"))
        await bench.commit(self.of(refs.CreateTag, ref_name="v1", snapshot_id=first))
        picked = await table.commit(table.append(table.data((7, "us")), branch="dev"))
        await table.commit(table.append(table.data((8, "us")), stage=True, wap_id="w"))
        seen = await bench.commit(new_view("SELECT 1"))
        seen = await bench.commit(replaced(seen, "SELECT 2"))
        dropped = await bench.commit(new_view("SELECT 3", table="db.old_view"))
        await bench.commit(change(views.DropView, dropped, table="db.old_view"))
        merges = {"commit.manifest.min-count-to-merge": "2"}  # a commit would begin merges now
        await bench.commit(self.of(upkeep.UpdateProperties, updates=merges))
        metadata = await table.metadata()
        (entry,) = [one for one in await table.entries() if one.data_file.file_path == old.file_path]
        rewritten = table.manifest([msgspec.structs.replace(entry, status=Status.EXISTING)])
        statistics = write_statistics(bench.files, f"{metadata.location}/metadata/1.puffin", base)
        await bench.commit(self.of(upkeep.SetStatistics, statistics=statistics))
        partitions = write_partition_statistics(bench.files, f"{metadata.location}/metadata/1.parquet", base)
        await bench.commit(self.of(upkeep.SetPartitionStatistics, partition_statistics=partitions))
        seen_table = SeenTable(
            uuid=metadata.table_uuid,
            schema_id=metadata.current_schema_id,
            last_column_id=metadata.last_column_id,
            last_partition_id=metadata.last_partition_id,
        )
        intents: list[Intent] = [
            table.append(table.data((10, "us"))),
            table.delete(old),
            table.delete_where(field_is("id", 4)),
            table.overwrite(base, [table.data((4, "us"))], [old]),
            table.replace_partitions(base, table.data((11, "us")), isolation="snapshot"),
            table.replace(base, [old], [table.data((4, "us"))]),
            self.of(RewriteManifests, removed_manifests=((await manifest_paths(table))[0],), manifests=(rewritten,)),
            table.delta(base, table.positions({kept.file_path: [0, 1]}, like=kept), removed_delete_files=(ref(moved),)),
            self.of(CreateTable, table="db.new", schema=SCHEMA),
            self.of(CreateOrReplaceTable, schema=SCHEMA, seen=seen_table),
            self.of(RegisterTable, table="db.back", metadata_location=gone.metadata_location),
            self.of(DropTable),
            self.of(RenameTable, new_name="db.renamed"),
            self.of(refs.CreateBranch, ref_name="new"),
            self.of(refs.CreateTag, ref_name="new", snapshot_id=base),
            self.of(refs.SetRef, ref_name="v1", snapshot_id=base, expected_snapshot_id=first),
            self.of(refs.RemoveRef, ref_name="v1", expected_snapshot_id=first),
            self.of(refs.RenameBranch, ref_name="dev", new_name="new"),
            self.of(refs.FastForward, to="ahead"),
            self.of(refs.SetRetention, ref_name="dev", max_ref_age_ms=10**12),
            self.of(refs.Rollback, snapshot_id=first),
            self.of(refs.SetCurrentSnapshot, snapshot_id=first),
            self.of(refs.CherryPick, snapshot_id=picked),
            self.of(refs.Publish, wap_id="w"),
            self.of(upkeep.ExpireSnapshots, older_than_ms=2**62, retain_last=1, clean_expired_metadata=True),
            self.of(upkeep.UpdateProperties, updates={"owner": "me"}),
            self.of(upkeep.SetLocation, location=f"{metadata.location}/elsewhere"),
            self.of(upkeep.SetStatistics, statistics=statistics),
            self.of(upkeep.RemoveStatistics, snapshot_id=base),
            self.of(upkeep.SetPartitionStatistics, partition_statistics=partitions),
            self.of(upkeep.RemovePartitionStatistics, snapshot_id=base),
            self.of(upkeep.UpgradeFormat, format_version=3),
            self.of(layout.UpdateSchema, base_schema_id=0, changes=(
                {"action": "add-column", "name": "note", "type": "string"},
            )),
            self.of(layout.UpdateSpec, base_schema_id=0, base_spec_id=0, changes=(
                {"action": "add-field", "source": "region", "transform": "identity"},
            )),
            self.of(layout.UpdateSortOrder, base_schema_id=0, base_sort_order_id=0, sort_by=({"source": "id"},)),
            new_view("SELECT 1", table="db.new_view"),
            self.of(views.RegisterView, table="db.back_view", metadata_location=dropped.metadata_location),
            replaced(seen, "SELECT 5"),
            change(views.UpdateViewProperties, seen, updates={"owner": "me"}),
            change(views.SetCurrentViewVersion, seen, version_id=1),
            change(views.RenameView, seen, new_name="db.renamed_view"),
            change(views.DropView, seen),
            self.of(RestCommit, requirements=({"type": "assert-table-uuid", "uuid": metadata.table_uuid},), updates=(
                {"action": "set-properties", "updates": {"owner": "me"}},
                {"action": "set-statistics", "statistics": statistics},
            )),
            self.of(RestViewCommit, table=VIEW, updates=({"action": "set-properties", "updates": {"owner": "me"}},)),
            transaction(table.append(table.data((12, "us"))), self.of(refs.CreateBranch, ref_name="new")),
        ]  # fmt: skip
        self.intents = {OPERATIONS[type(intent)]: intent for intent in intents}
        assert len(self.intents) == len(intents)

    def of(self, kind: type, **members: Any) -> Any:
        return kind(**{"intent_id": new_id(), "table": TABLE, **members})

    def everything(self) -> tuple[Any, ...]:
        """All files with their content and times, all nodes of ZooKeeper, all keys and streams of Redis."""
        redis, zookeeper = self.bench.redis, self.bench.zookeeper
        stored = {
            path: (path.read_bytes() if path.is_file() else None, path.stat().st_mtime_ns)
            for path in self.warehouse.rglob("*")
        }
        streams = {
            name: (dict(stream.entries), stream.last, repr(stream.group)) for name, stream in redis.streams.items()
        }
        nodes = {path: zookeeper.node(path) for path in zookeeper._nodes}
        return stored, nodes, streams, dict(redis.keys), repr(redis.hashes)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    warehouse = tmp_path / "wh"
    warehouse.mkdir()
    return warehouse


def placement(warehouse: Path) -> Placement:
    return Placement(warehouse=str(warehouse), allowed=(str(warehouse),))


def local_files() -> FileStore:
    return open_files({"file": {}})


async def prepared(warehouse: Path) -> EveryOperation:
    """Every operation on tables in a local warehouse; the daemon that made them has ended."""
    bench = Workbench(files=local_files(), warehouse=str(warehouse))
    every = EveryOperation(bench, warehouse)
    async with bench.daemon():
        await every.prepare()
    assert set(every.intents) == set(OPERATIONS.values()), "an operation is missing here"
    return every


async def test_a_dry_run_of_every_operation_changes_nothing(warehouse: Path) -> None:
    every = await prepared(warehouse)
    files = RecordedCalls(every.bench.files)
    pointers = Pointers(every.bench.zookeeper.connect())
    runs = DryRuns(streams=every.bench.redis.connect(), files=files, pointers=pointers, placement=placement(warehouse))
    before = every.everything()
    for operation, intent in every.intents.items():
        (told,) = await runs.of([intent])
        assert told.status == "would-commit", (operation, told.outcome)
        assert every.everything() == before, f"a dry run of {operation} changed something"
    assert files.called <= READS
    await runs.of(list(every.intents.values()))  # one after the other, each on what those before it left
    assert every.everything() == before
    assert files.called <= READS


async def test_replay_of_every_operation_only_reads(warehouse: Path) -> None:
    every = await prepared(warehouse)
    bench, limits = every.bench, every.bench.limits
    assert set(every.intents) - SEVERAL == {OPERATIONS[kind] for kind in REPLAYED}
    reader = TableReader(bench.files, limits=limits)
    pointers, journal = Pointers(bench.zookeeper.connect()), JournalFiles(bench.files, bytes_max=10**8)
    known = await pointers.list()
    methods = {name for name in vars(Reads) if not name.startswith("_")}
    for operation, intent in every.intents.items():
        if operation in SEVERAL:
            continue
        state = TableState(intent.table, reader=reader, journal=journal, limits=limits)
        state.load(await pointers.read(intent.table) if intent.table in known else None)
        before = every.everything()
        recorded: Any = RecordedCalls(reader)
        attempt = Attempt(batch=DRY_RUN, token=DRY_RUN, number=0, now_ms=wall_clock_ms())
        working = working_on(state, reader=recorded, attempt=attempt, placement=placement(warehouse), limits=limits)
        (decision,) = replay(working, [intent])
        assert isinstance(decision, Applied) or operation in REGISTRATIONS, (operation, decision)
        assert recorded.called <= methods, operation
        assert every.everything() == before, operation
