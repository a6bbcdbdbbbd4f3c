"""Properties, location and format version: merged key by key, kept inside their bounds, never backwards."""

from __future__ import annotations

from typing import Any

import pytest

from firn.coordinator.fsck.run import check_table
from firn.model.intent import DropTable
from firn.model.operations.upkeep import SetLocation, UpdateProperties, UpgradeFormat
from firn.model.outcome import Committed, Rejected
from firn.storage.pointers import Pointers
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, content_file, create, delete, new_id

HOME = f"{WAREHOUSE}/db/events"


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


@pytest.fixture(params=["metastore", "file-system"])
def catalog(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_properties_of_several_writers_are_merged_key_by_key(catalog: str) -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create(catalog=catalog, properties={"owner": "me", "old": "1"}))
        outcomes = await bench.gathered(
            daemon,
            intent(UpdateProperties, updates={"a": "1"}),
            append("x"),
            intent(UpdateProperties, updates={"b": "2", "owner": "you"}, removals=("old", "never")),
            append("y"),
        )
        properties = (await bench.metadata()).properties
    assert len({o.batch for o in outcomes}) == 1
    assert all(isinstance(o, Committed) for o in outcomes)
    assert (properties["a"], properties["b"], properties["owner"]) == ("1", "2", "you")
    assert "old" not in properties
    assert await bench.live() == ["blocker", "x", "y"]


async def test_what_is_expected_must_hold_when_the_turn_comes() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"epoch": "1"}))
        outcomes = await bench.settle(
            *(intent(UpdateProperties, updates={"epoch": "2"}, expect={"epoch": "1", "frozen": None}) for _ in range(2))
        )
        assert [type(o) for o in outcomes] == [Committed, Rejected]
        assert outcomes[1].rule == "expectation-failed"  # type: ignore[union-attr]
        await bench.commit(intent(UpdateProperties, updates={"frozen": "yes"}))
        late = await bench.refuse(intent(UpdateProperties, updates={"epoch": "3"}, expect={"frozen": None}))
        assert (await bench.metadata()).properties["epoch"] == "2"
    assert (late.rule, late.hint) == ("expectation-failed", "replan")


async def test_changing_nothing_writes_no_metadata() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"a": "1"}))
        before = await bench.metadata()
        await bench.commit(intent(UpdateProperties, updates={"a": "1"}, removals=("b",)))
        await bench.commit(intent(UpgradeFormat, format_version=2))
        await bench.commit(intent(SetLocation, location=f"{HOME}/"))
        assert await bench.metadata() == before


@pytest.mark.parametrize(
    ("kind", "members", "rule"),
    [
        (UpdateProperties, {"updates": {"a": "1"}, "removals": ("a",)}, "invalid-field"),
        (UpdateProperties, {"updates": {"commit.manifest.min-count-to-merge": "many"}}, "invalid-property"),
        (UpdateProperties, {"updates": {"firn.append-mode": "often"}}, "invalid-property"),
        (UpdateProperties, {"updates": {"schema.name-mapping.default": "{"}}, "invalid-property"),
        (UpdateProperties, {"updates": {"firn.journal-head": f"{HOME}/x"}}, "reserved-property"),
        (UpdateProperties, {"removals": ("firn.journal-head",)}, "reserved-property"),
        (UpdateProperties, {"updates": {"encryption.key-id": "k"}}, "reserved-property"),
        (UpdateProperties, {"updates": {"format-version": "3"}}, "reserved-property"),
        (UpdateProperties, {"updates": {"current-snapshot-id": "1"}}, "reserved-property"),
        (UpdateProperties, {"updates": {"write.data.path": "memory://elsewhere/x"}}, "location-not-allowed"),
        (UpdateProperties, {"updates": {"write.metadata.path": WAREHOUSE}}, "location-not-allowed"),
        (UpdateProperties, {"updates": {"write.data.path": f"{WAREHOUSE}/db/x/../y"}}, "location-not-allowed"),
        (UpdateProperties, {"updates": {"write.data.path": f"{WAREHOUSE}/db/other/data"}}, "location-taken"),
        (UpdateProperties, {"updates": {"write.object-storage.path": f"{WAREHOUSE}/db"}}, "location-taken"),
        (SetLocation, {"location": "memory://elsewhere/x"}, "location-not-allowed"),
        (SetLocation, {"location": f"{WAREHOUSE}/db/other"}, "location-taken"),
        (SetLocation, {"location": f"{WAREHOUSE}/db"}, "location-taken"),
        (UpgradeFormat, {"format_version": 1}, "format-downgrade"),
        (UpgradeFormat, {"format_version": 3, "table": "db.none"}, "unknown-table"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_rule_and_changes_nothing(
    kind: type, members: dict[str, Any], rule: str
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.settle(create(), create("db.other"))
        before = await bench.metadata()
        outcome = await bench.refuse(intent(kind, **members))
        assert outcome.rule == rule
        assert outcome.message
        assert await bench.metadata() == before


async def test_a_table_is_not_created_with_files_in_anothers_place() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        other = create("db.other", properties={"write.data.path": f"{HOME}/data"})
        assert (await bench.refuse(other)).rule == "location-taken"


async def test_new_files_go_to_the_new_location_and_old_ones_stay(catalog: str) -> None:
    bench = Workbench()
    moved = f"{WAREHOUSE}/new/events"
    elsewhere = content_file("b", table="new.events")
    async with bench.daemon():
        await bench.commit(create(catalog=catalog))
        await bench.commit(append("a"))
        if catalog == "file-system":
            assert (await bench.refuse(intent(SetLocation, location=moved))).rule == "location-fixed"
            return
        assert (await bench.refuse(append("b", data_files=(elsewhere,)))).rule == "location-not-allowed"
        await bench.commit(intent(SetLocation, location=moved))
        outcome = await bench.commit(append("b", data_files=(elsewhere,)))
        # A writer that had written its files before the move.
        await bench.commit(append("c"))
        await bench.commit(delete("a"))
    assert outcome.metadata_location is not None
    assert outcome.metadata_location.startswith(f"{moved}/metadata/")
    assert await bench.live() == ["b", "c"]
    pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    assert (pointer.location, pointer.also_at) == (moved, (HOME,))


@pytest.mark.parametrize("place", [HOME, f"{WAREHOUSE}/new/events/inner", f"{WAREHOUSE}/data/events"])
async def test_no_table_is_made_where_a_moved_one_has_files_whichever_daemon_makes_it(place: str) -> None:
    bench = Workbench(shards=1)
    async with bench.daemon("a"):
        await bench.settle(create(), create("db.first"))
        async with bench.daemon("b") as other:
            # The other daemon has read all places before the table moves.
            await other.lanes._shop.locations.all()
            known = other.lanes._shop.locations
            await bench.commit(intent(SetLocation, location=f"{WAREHOUSE}/new/events"))
            await bench.commit(intent(UpdateProperties, updates={"write.data.path": f"{WAREHOUSE}/data/events"}))
            places = (await known.all())[TABLE]
        assert set(places) == {f"{WAREHOUSE}/new/events", HOME, f"{WAREHOUSE}/data/events"}
        assert (await bench.refuse(create("db.second", location=place))).rule == "location-taken"


async def test_a_dropped_tables_places_are_free() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(intent(SetLocation, location=f"{WAREHOUSE}/new/events"))
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        await bench.commit(create("db.second", location=f"{WAREHOUSE}/new/events"))


@pytest.mark.parametrize(("start", "to"), [(1, 2), (1, 3), (2, 3)])
async def test_a_table_is_upgraded_between_appends_of_one_batch(start: int, to: int, catalog: str) -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create(catalog=catalog, format_version=start))
        await bench.commit(append("a"))
        outcomes = await bench.gathered(
            daemon, append("b"), intent(UpgradeFormat, format_version=to), append("c"), delete("a", "b"), append("d")
        )
        assert all(isinstance(o, Committed) for o in outcomes), outcomes
        assert len({o.batch for o in outcomes}) == 1
        again = await bench.commit(append("e"))
        metadata = await bench.metadata()
        versioned = await Pointers(bench.zookeeper.connect()).read(TABLE)
        found = check_table(versioned.pointer, files=bench.files, limits=bench.limits).findings
    assert [one.message for one in found if one.invariant != "nothing-missing"] == []  # files are names here
    assert metadata.format_version == to
    assert outcomes[1].details == {"format-version": to}
    assert await bench.live() == ["blocker", "c", "d", "e"]
    if to == 3:
        last = metadata.snapshot_by_id(again.snapshot_id or 0)
        assert last is not None
        assert last.first_row_id is not None
        assert metadata.next_row_id == last.first_row_id + (last.added_rows or 0)
