"""Files of purged tables and names of dropped ones go after their time, and nothing that anybody may name does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from firn.coordinator.outcomes.reservations import Reservations
from firn.model.errors import InvalidInput
from firn.model.intent import DropTable, RegisterTable
from firn.model.operations.tables import RenameTable
from firn.model.operations.upkeep import UpdateProperties
from firn.model.pointer import Pointer
from firn.model.reservation import Reservation, Scope
from firn.pipeline.dropped_tables import DAY_MS, Delays, Swept, dropped_names, sweep_dropped
from firn.storage.pointers import PointerChange, Pointers
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench, append, create, new_id, path_of
from tests.unit.pipeline.hostile_world import LoopUpkeep

GONE, OTHER = "db.gone", "db.other"
HOME = f"{WAREHOUSE}/db/gone"
DAYS_8, DAYS_31 = 8 * DAY_MS, 31 * DAY_MS


async def pointer_of(bench: Workbench, table: str = GONE) -> Pointer:
    return (await Pointers(bench.zookeeper.connect()).read(table)).pointer


async def put(bench: Workbench, pointer: Pointer) -> None:
    pointers = Pointers(bench.zookeeper.connect())
    version = (await pointers.read(pointer.table)).version
    await pointers.swap([PointerChange(table=pointer.table, pointer=pointer, expected=version)], leases=())


def below(bench: Workbench, folder: str) -> list[str]:
    return sorted(file.location for file in bench.files.list(folder))


async def sweep(bench: Workbench, *, after_ms: int) -> dict[str, Swept]:
    """Sweep so long after the drop of the table."""
    dropped_ms = (await pointer_of(bench)).dropped_ms or 0
    upkeep = LoopUpkeep(bench, {})
    return {one.table: one for one in await asyncio.to_thread(sweep_dropped, upkeep, now_ms=dropped_ms + after_ms)}


async def with_tables(bench: Workbench, *, purge: bool = True) -> None:
    """Two tables with a file each, of which one is dropped."""
    for table in (GONE, OTHER):
        await bench.commit(create(table))
        intent = append("a", table=table)
        for file in intent.data_files:
            bench.files.create(file.file_path, b"rows")
        await bench.commit(intent)
    await bench.commit(DropTable(intent_id=new_id(), table=GONE, purge=purge))


async def test_purged_files_go_after_the_delay_then_the_journal_and_the_name() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench)
        others, own = below(bench, f"{WAREHOUSE}/db/other"), below(bench, HOME)
        assert await sweep(bench, after_ms=6 * DAY_MS) == {}
        assert below(bench, HOME) == own
        swept = await sweep(bench, after_ms=DAYS_8)
        assert swept[GONE].status == "purged"
        left = below(bench, HOME)
        assert left == [one for one in own if "/_journal/" in one]
        assert swept[GONE].files == len(own) - len(left)
        assert await sweep(bench, after_ms=DAYS_8) == {}
        assert (await bench.refuse(append("b", table=GONE))).rule == "unknown-table"
        assert (await sweep(bench, after_ms=DAYS_31))[GONE].status == "forgotten"
        assert below(bench, HOME) == []
        assert await Pointers(bench.zookeeper.connect()).list() == [OTHER]
        assert below(bench, f"{WAREHOUSE}/db/other") == others
        await bench.commit(create(GONE))
        await bench.commit(append("c", table=GONE))


async def test_a_name_is_used_again_between_purge_and_its_end() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench)
        await sweep(bench, after_ms=DAYS_8)
        await bench.commit(create(GONE))
        await bench.commit(append("b", table=GONE))
        assert await sweep(bench, after_ms=DAYS_31 * 1000) == {}
        assert await bench.live(GONE) == ["b"]


async def test_files_of_a_table_that_is_not_purged_stay_and_so_does_its_name() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, purge=False)
        own = below(bench, HOME)
        assert await sweep(bench, after_ms=DAYS_31) == {}
        assert below(bench, HOME) == own
        for location in own:
            bench.files.delete(location)
        assert (await sweep(bench, after_ms=DAYS_31))[GONE].status == "forgotten"


async def register_again(bench: Workbench) -> None:
    at = (await pointer_of(bench)).metadata_location
    await bench.commit(RegisterTable(intent_id=new_id(), table=GONE, metadata_location=at))


async def register_under_another_name(bench: Workbench) -> None:
    at = (await pointer_of(bench)).metadata_location
    await bench.commit(RegisterTable(intent_id=new_id(), table="db.again", metadata_location=at))


async def intend_to_register(bench: Workbench) -> None:
    await bench.daemons[0].stop()
    at = (await pointer_of(bench)).metadata_location
    await bench.send(RegisterTable(intent_id=new_id(), table="db.again", metadata_location=at))


async def reserve(bench: Workbench) -> None:
    scope = Scope(files=(path_of("a", table=GONE),))
    one = Reservation(reservation_id="r", table=GONE, holder="job", scope=scope, begun_ms=0, until_ms=0)
    await Reservations(bench.streams).begin(one, lease_ms=600_000)


async def place_over(bench: Workbench) -> None:
    await put(bench, msgspec.structs.replace(await pointer_of(bench, OTHER), also_at=(f"{WAREHOUSE}/db",)))


async def place_inside(bench: Workbench) -> None:
    await put(bench, msgspec.structs.replace(await pointer_of(bench, OTHER), also_at=(f"{HOME}/data/x",)))


async def be_at_the_warehouse(bench: Workbench) -> None:
    await put(bench, msgspec.structs.replace(await pointer_of(bench), also_at=(WAREHOUSE,)))


async def be_outside(bench: Workbench) -> None:
    await put(bench, msgspec.structs.replace(await pointer_of(bench), also_at=("memory://elsewhere/t",)))


async def not_know_when(bench: Workbench) -> None:
    await put(bench, msgspec.structs.replace(await pointer_of(bench), dropped_ms=None))


async def name_a_file(bench: Workbench) -> None:
    intent = append("b", table=OTHER)
    (file,) = intent.data_files
    data_files = (msgspec.structs.replace(file, file_path=path_of("a", table=GONE)),)
    await put(bench, msgspec.structs.replace(await pointer_of(bench, OTHER), also_at=(HOME,)))
    await bench.commit(msgspec.structs.replace(intent, data_files=data_files))
    await put(bench, msgspec.structs.replace(await pointer_of(bench, OTHER), also_at=()))


async def write_a_newer_segment(bench: Workbench) -> None:
    bench.files.create(f"{HOME}/metadata/_journal/0000000099-x.jsonl.gz", b"")


async def have_another_table_inside(bench: Workbench) -> None:
    bench.files.create(f"{HOME}/inner/metadata/v1.metadata.json", b"{}")


async def have_another_journal_inside(bench: Workbench) -> None:
    bench.files.create(f"{HOME}/inner/metadata/_journal/0000000001-x.jsonl.gz", b"")


KEPT = [
    register_again, register_under_another_name, intend_to_register, reserve, place_over, place_inside,
    be_at_the_warehouse, be_outside, not_know_when, name_a_file, write_a_newer_segment, have_another_table_inside,
    have_another_journal_inside,
]  # fmt: skip


@pytest.mark.parametrize("why", KEPT, ids=lambda why: why.__name__)
async def test_nothing_goes_while(why: Callable[[Workbench], Awaitable[None]]) -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench)
        await why(bench)
        before = below(bench, WAREHOUSE)
        names = await Pointers(bench.zookeeper.connect()).list()
        found = await sweep(bench, after_ms=DAYS_31)
        assert below(bench, WAREHOUSE) == before
        assert await Pointers(bench.zookeeper.connect()).list() == names
        assert {one.status for one in found.values()} <= {"kept"}


async def test_the_journal_stays_where_anothers_leads_to_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create("db.first"))
        await bench.commit(append("a", table="db.first"))
        await bench.commit(RenameTable(intent_id=new_id(), table="db.first", new_name=GONE))
        await bench.commit(create("db.first"))
        await bench.commit(DropTable(intent_id=new_id(), table=GONE, purge=True))
        swept = await sweep(bench, after_ms=DAYS_31)
        assert swept[GONE].status == "kept"
        await bench.commit(UpdateProperties(intent_id=new_id(), table="db.first", updates={"a": "b"}))
        assert await sweep(bench, after_ms=DAYS_31)
        assert (await bench.refuse(append("b", table=GONE))).rule == "unknown-table"


async def test_a_sweep_that_was_killed_goes_on() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench)
        await sweep(bench, after_ms=DAYS_8)
        segments = below(bench, HOME)
        assert len(segments) > 2
        for location in segments[:-1]:
            bench.files.delete(location)
        assert (await sweep(bench, after_ms=DAYS_31))[GONE].status == "forgotten"
        assert below(bench, HOME) == []


async def test_files_that_others_may_share_are_not_purged() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(GONE))
        await bench.commit(UpdateProperties(intent_id=new_id(), table=GONE, updates={"gc.enabled": "false"}))
        refused = await bench.refuse(DropTable(intent_id=new_id(), table=GONE, purge=True))
        assert "gc.enabled" in refused.message
        await bench.commit(DropTable(intent_id=new_id(), table=GONE))


async def test_dropped_names_are_listed_with_what_is_due() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench)
        (found,) = await asyncio.to_thread(dropped_names, LoopUpkeep(bench, {}), Delays())
        dropped_ms = (await pointer_of(bench)).dropped_ms
        assert dropped_ms is not None
        assert (found.table, found.purge, found.dropped_ms) == (GONE, True, dropped_ms)
        assert found.purge_due_ms == dropped_ms + 7 * DAY_MS
        assert found.forget_due_ms == dropped_ms + 30 * DAY_MS


@pytest.mark.parametrize(
    ("purge", "forget", "force"), [(0, DAY_MS, True), (3_600_000, DAY_MS, False), (8 * DAY_MS, 7 * DAY_MS, True)]
)
def test_delays_that_leave_no_time_are_refused(purge: int, forget: int, force: bool) -> None:
    with pytest.raises(InvalidInput):
        Delays(purge_after_ms=purge, forget_after_ms=forget).check(force=force)


async def test_a_sweep_reports_each_name_and_its_files() -> None:
    bench = Workbench()
    names: list[tuple[int, int, str]] = []
    reports: list[tuple[str, int, int | None]] = []
    async with bench.daemon():
        await with_tables(bench)
        dropped_ms = (await pointer_of(bench)).dropped_ms or 0
        await asyncio.to_thread(
            sweep_dropped,
            LoopUpkeep(bench, {}),
            now_ms=dropped_ms + DAYS_8,
            begins=lambda *one: names.append(one),
            progress=lambda *one: reports.append(one),
        )
    assert names == [(1, 1, GONE)]
    assert reports == [("file", 1, None)]
