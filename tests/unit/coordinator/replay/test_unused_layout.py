"""Partition specs and schemas that an expiry takes away: only what neither data nor waiting work needs."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.errors import Unavailable
from firn.model.operations.layout import UpdateSchema, UpdateSpec
from firn.model.operations.refs import CreateTag
from firn.model.operations.upkeep import ExpireSnapshots
from firn.model.outcome import Committed
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

EU = ((1, "eu"), (2, "eu"))


def expire(**members: Any) -> ExpireSnapshots:
    return ExpireSnapshots(
        intent_id=new_id(), table=TABLE, older_than_ms=2**62, **{"clean_expired_metadata": True, **members}
    )


async def change(table: RealRows, kind: Any, *changes: dict[str, Any]) -> None:
    """A change of the schema or of the default spec."""
    before = await table.metadata()
    bases = {"base_schema_id": before.current_schema_id}
    if kind is UpdateSpec:
        bases["base_spec_id"] = before.default_spec_id
    await table.bench.commit(kind(intent_id=new_id(), table=TABLE, changes=changes, **bases))
    table.created = await table.metadata()


async def by_region(table: RealRows) -> None:
    await change(table, UpdateSpec, {"action": "add-field", "source": "region", "transform": "identity"})


async def layout(table: RealRows) -> tuple[list[int], list[int]]:
    metadata = await table.metadata()
    return [spec.spec_id for spec in metadata.partition_specs], [schema.schema_id for schema in metadata.schemas]


async def test_specs_and_schemas_stay_until_no_snapshot_has_them() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        old = table.data(*EU)
        await table.commit(table.append(old))
        await by_region(table)
        await change(table, UpdateSchema, {"action": "add-column", "name": "note", "type": "string"})
        first = await bench.commit(expire())
        await table.commit(table.append(table.data((3, "us"))))
        second = await bench.commit(expire())
        assert await layout(table) == ([0, 1], [1])
        await table.commit(table.delete(old))
        await bench.commit(expire(clean_expired_metadata=False))
        assert await layout(table) == ([0, 1], [1])
        await table.commit(table.append(table.data((4, "us"))))
        third = await bench.commit(expire())
        assert await layout(table) == ([1], [1])
        await table.commit(table.append(table.data((5, "eu"))))
        assert await table.unsound() == ()
    assert first.details == {"removed-count": 0}
    assert second.details["removed-schemas"] == [0]
    assert third.details["removed-specs"] == [0]
    assert await table.ids() == [3, 4, 5]


async def test_nothing_goes_while_intents_wait_that_may_have_been_planned_on_it() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        late = table.append(table.data(*EU))
        await by_region(table)
        table.created = await table.metadata()
        outcomes = await bench.gathered(daemon, expire(), late, blocker="b")
    assert isinstance(outcomes[0], Committed)
    assert "wait" in outcomes[0].details["specs-and-schemas-kept"]
    assert isinstance(outcomes[1], Committed)


@pytest.mark.parametrize("deletes", [False, True])
async def test_a_schema_stays_that_alone_knows_a_column_which_deletes_may_compare(deletes: bool) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        base = await table.commit(table.append(table.data(*EU)))
        await change(table, UpdateSchema, {"action": "add-column", "name": "key", "type": "long"})
        if deletes:
            await table.commit(table.delta(base, table.equality(1)))
        await change(table, UpdateSchema, {"action": "drop-column", "name": "key"})
        await change(table, UpdateSchema, {"action": "add-column", "name": "note", "type": "string"})
        await table.commit(table.append(table.data((3, "us"))))
        await bench.commit(expire())
        assert (await layout(table))[1] == ([1, 2] if deletes else [2])
    assert await table.ids() == ([2, 3] if deletes else [1, 2, 3])


async def test_a_schema_stays_that_alone_knows_a_column_which_a_spec_in_use_partitions_by() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        eu, us = table.data(*EU), table.data((3, "us"))
        await table.commit(table.append(eu, us))
        await change(table, UpdateSchema, {"action": "add-column", "name": "note", "type": "string"})
        await change(table, UpdateSpec, {"action": "remove-field", "name": "region"})
        await change(table, UpdateSchema, {"action": "drop-column", "name": "region"})
        await table.commit(table.delete(us))
        await bench.commit(expire())
        assert await layout(table) == ([0, 1], [1, 2])
        assert await table.unsound() == ()


async def test_the_id_of_a_spec_or_schema_is_never_given_to_another() -> None:
    """Late files would be taken for those of another partitioning, late changes for those of another schema."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*EU)))
        await change(table, UpdateSchema, {"action": "add-column", "name": "note", "type": "string"})
        await by_region(table)
        planned = table.created
        late = table.append(table.data((5, "eu"), (6, "eu")))
        await change(table, UpdateSpec, {"action": "remove-field", "name": "region"})
        await change(table, UpdateSchema, {"action": "drop-column", "name": "note"})
        await bench.commit(expire())
        await change(table, UpdateSchema, {"action": "add-column", "name": "zone", "type": "string"})
        await change(table, UpdateSpec, {"action": "add-field", "source": "zone", "transform": "identity"})
        again = await table.metadata()
        ids = (again.current_schema_id, again.default_spec_id)
        await table.commit(late)
        (file,) = [one.data_file for one in await table.entries() if one.data_file.partition]
        assert await table.unsound() == ()
    assert (planned.default_spec_id, planned.current_schema_id) == (1, 1)
    assert ids == (2, 2)
    assert (file.spec_id, file.partition) == (1, ("eu",))


@pytest.mark.parametrize("damage", ["gone", "damaged", "not answering"])
async def test_nothing_goes_where_a_manifest_list_cannot_be_read_and_snapshots_expire_all_the_same(
    damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        first = await table.commit(table.append(table.data(*EU)))
        kept = await table.commit(table.append(table.data((3, "us"))))
        await bench.commit(CreateTag(intent_id=new_id(), table=TABLE, ref_name="keep", snapshot_id=kept))
        await by_region(table)
        await change(table, UpdateSchema, {"action": "add-column", "name": "note", "type": "string"})
        await table.commit(table.append(table.data((4, "us"))))
        before = await layout(table)
        tagged = (await table.metadata()).snapshot_by_id(kept)
    assert tagged is not None
    assert tagged.manifest_list is not None
    assert isinstance(bench.files, MemoryFiles)
    read = bench.files.read
    if damage != "not answering":
        bench.files.delete(tagged.manifest_list)
    if damage == "damaged":
        bench.files.create(tagged.manifest_list, b"no list")

    def answer(location: str, *, bytes_max: int) -> bytes:
        if damage == "not answering" and location == tagged.manifest_list:
            raise Unavailable(f"{location}: no answer")
        return read(location, bytes_max=bytes_max)

    monkeypatch.setattr(bench.files, "read", answer)
    async with bench.daemon("b"):
        expired = await bench.commit(expire())
        assert await layout(table) == before
    assert expired.details["removed"] == [first]
    assert tagged.manifest_list in expired.details["specs-and-schemas-kept"]
