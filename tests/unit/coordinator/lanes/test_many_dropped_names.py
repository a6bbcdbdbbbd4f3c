"""Names that were dropped cost those that are made later nothing: each is read once, however many tables are made."""

from __future__ import annotations

import pytest

from firn.coordinator.tables.table_locations import TableLocations
from firn.model.intent import DropTable
from firn.storage.pointers import MOVES_LISTED, Moves, Pointers
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench, create, new_id

DROPPED = 30


async def test_a_creation_does_not_read_dropped_names_again(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[str] = []
    learn = TableLocations._learn

    async def counted(self: TableLocations, name: str) -> None:
        learned.append(name)
        await learn(self, name)

    bench = Workbench(shards=1)
    async with bench.daemon():
        await bench.settle(*(create(f"db.t{n}") for n in range(DROPPED)))
        await bench.settle(*(DropTable(intent_id=new_id(), table=f"db.t{n}") for n in range(DROPPED)))
        await bench.commit(create("db.first"))
        monkeypatch.setattr(TableLocations, "_learn", counted)
        await bench.commit(create("db.second"))
        assert set(learned) <= {"db.first"}
        learned.clear()
        await bench.commit(create("db.t3"))
        await bench.commit(create("db.third"))
        assert set(learned) <= {"db.first", "db.second", "db.t3"}, "a name that comes back is read again, and no other"


@pytest.mark.parametrize("location", [None, f"{WAREHOUSE}/elsewhere/again"])
async def test_a_name_that_comes_back_is_taken_whichever_daemon_makes_the_next(location: str | None) -> None:
    bench = Workbench(shards=1)
    async with bench.daemon("a"):
        await bench.settle(create(), create("db.other"))
        await bench.commit(DropTable(intent_id=new_id(), table=create().table))
        async with bench.daemon("b") as other:
            known = other.lanes._shop.locations
            assert create().table not in await known.all()
            await bench.commit(create(location=location))
            assert (await known.all())[create().table]


async def test_moves_name_what_moved_since() -> None:
    pointers = Pointers(Workbench().zookeeper.connect())
    assert await pointers.moves() == Moves(0, ())
    for number in range(MOVES_LISTED + 5):
        await pointers.note_move({f"db.t{number}", "db.x"})
    moves = await pointers.moves()
    assert moves.since(moves.version) == frozenset()
    assert moves.since(moves.version - 1) == frozenset({f"db.t{MOVES_LISTED + 4}", "db.x"})
    assert len(moves.since(moves.version - MOVES_LISTED) or ()) == MOVES_LISTED + 1
    assert moves.since(0) is None, "more than are listed"
    assert moves.since(moves.version + 1) is None, "another ZooKeeper"
    await pointers._session.set("/table-moves", b"", version=-1)
    assert (await pointers.moves()).since(moves.version) is None, "an older firn names none"
