"""Tables of other writers: their counters are raised to what history shows, and what cannot be read is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace as changed

from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import CountMap, DropTable, RegisterTable
from firn.model.metadata import TableMetadata
from firn.model.operations.layout import UpdateSchema, UpdateSpec
from firn.model.operations.refs import CreateTag
from firn.model.outcome import Committed, Rejected
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.manifest_lists import decode_manifest_list, encode_manifest_list
from firn.storage.metadata_files import decompressed
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, content_file, create, delete, new_id

LOCATION = f"{WAREHOUSE}/db/events"
FOREIGN = f"{LOCATION}/metadata/00099-foreign.metadata.json"
BY_NAME = {"spec-id": 0, "fields": [{"source-id": 3, "field-id": 1000, "name": "name", "transform": "bucket[4]"}]}

Edit = Callable[[dict[str, Any]], Any]


def document_at(bench: Workbench, location: str) -> dict[str, Any]:
    text = decompressed(bench.files.read(location, bytes_max=10**8), location=location, bytes_max=10**8)
    return dict(json.loads(text))


class Foreign:
    """A table with a tag on its first snapshot and two newer ones, that firn has forgotten."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.document: dict[str, Any] = {}

    async def make(self, *, version: int = 3) -> None:
        bench = self.bench
        await bench.commit(create(format_version=version, partition_spec=BY_NAME))
        file = changed(content_file("a"), partition=(1,), value_counts=CountMap((1, 2, 3), (10, 10, 10)))
        first = await bench.commit(append(data_files=(file,)))
        assert first.snapshot_id is not None
        await bench.commit(CreateTag(intent_id=new_id(), table=TABLE, ref_name="t", snapshot_id=first.snapshot_id))
        for name in ("b", "c"):
            await bench.commit(append(data_files=(changed(content_file(name), partition=(2,)),)))
        location = (await bench.commit(delete("a"))).metadata_location
        assert location is not None
        self.document = json.loads(
            decompressed(bench.files.read(location, bytes_max=10**8), location=location, bytes_max=10**8)
        )
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))

    async def register(self, edit: Edit = lambda _: None) -> Committed | Rejected:
        edit(self.document)
        self.bench.files.replace(FOREIGN, json.dumps(self.document).encode())
        intent = RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=FOREIGN)
        (outcome,) = await self.bench.settle(intent)
        assert isinstance(outcome, Committed | Rejected)
        return outcome

    def list_of(self, number: int) -> str:
        return str(self.document["snapshots"][number]["manifest-list"])

    def manifest_of(self, number: int) -> str:
        location = self.list_of(number)
        data = self.bench.files.read(location, bytes_max=10**8)
        return decode_manifest_list(data, location=location)[0].manifest_path

    def relist(self, number: int, **members: Any) -> None:
        """Change the first row of a manifest list."""
        location, snapshot = self.list_of(number), self.document["snapshots"][number]
        first, *rest = decode_manifest_list(self.bench.files.read(location, bytes_max=10**8), location=location)
        data = encode_manifest_list(
            [changed(first, **members), *rest], format_version=self.document["format-version"],
            snapshot_id=snapshot["snapshot-id"], parent_snapshot_id=snapshot.get("parent-snapshot-id"),
            sequence_number=snapshot["sequence-number"], first_row_id=snapshot.get("first-row-id"),
        )  # fmt: skip
        self.bench.files.replace(location, data)
        for one in self.document["snapshots"]:
            one["summary"] = {"operation": one["summary"]["operation"]}


def put(**members: Any) -> Edit:
    return lambda document: document.update({name.replace("_", "-"): value for name, value in members.items()})


async def columns_and_fields(bench: Workbench) -> tuple[list[int], list[int]]:
    add = {"action": "add-column", "name": "fresh", "type": "int"}
    await bench.commit(UpdateSchema(intent_id=new_id(), table=TABLE, base_schema_id=0, changes=(add,)))
    field = {"action": "add-field", "source": "id", "transform": "bucket[3]"}
    await bench.commit(UpdateSpec(intent_id=new_id(), table=TABLE, base_schema_id=1, base_spec_id=0, changes=(field,)))
    metadata = await bench.metadata()
    schema, spec = metadata.current_schema, metadata.default_spec
    return [field.field_id for field in schema.fields], [field.field_id for field in spec.fields]


@pytest.mark.parametrize("restart", [False, True])
async def test_counters_that_the_metadata_disproves_are_raised(restart: bool) -> None:
    bench = Workbench()
    foreign = Foreign(bench)
    async with bench.daemon():
        await foreign.make()
        claimed = put(last_column_id=1, last_partition_id=999, next_row_id=0)
        assert isinstance(await foreign.register(claimed), Committed)
        if not restart:
            await check_ids(bench)
    if restart:
        async with bench.daemon("b"):
            await check_ids(bench)


async def check_ids(bench: Workbench) -> None:
    given = max(one.first_row_id + one.added_rows for one in (await bench.metadata()).snapshots)  # type: ignore[operator]
    await bench.commit(append(data_files=(changed(content_file("d"), partition=(0,)),)))
    metadata = await bench.metadata()
    assert metadata.current_snapshot is not None
    assert (metadata.current_snapshot.first_row_id or 0) >= given
    columns, fields = await columns_and_fields(bench)
    assert len(set(columns)) == len(columns) == 4
    assert len(set(fields)) == len(fields) == 2


def without_row_ids(document: dict[str, Any]) -> None:
    """Snapshots that do not show which row ids they gave."""
    document["next-row-id"] = 5
    for snapshot in document["snapshots"]:
        snapshot.update({"first-row-id": 0, "added-rows": 0})


def older_column(document: dict[str, Any]) -> None:
    """Column 3 is in no schema any more, and files have it."""
    document["last-column-id"] = 2
    document["schemas"][0]["fields"].pop()
    document["partition-specs"] = [{"spec-id": 0, "fields": []}]


BROKEN: dict[str, tuple[Callable[[Foreign], Any], str]] = {
    "row ids of a manifest list": (lambda f: without_row_ids(f.document), "next-row-id is 5"),
    "too great a row id": (lambda f: overflow(f.document), "63 bits"),
    "sequence number": (lambda f: put(last_sequence_number=1)(f.document), "last-sequence-number"),
    "no sequence number left": (lambda f: put(last_sequence_number=2**63 - 1)(f.document), "last-sequence-number"),
    "no column id left": (lambda f: put(last_column_id=2**31 - 1)(f.document), "last-column-id"),
    "no partition field id left": (lambda f: put(last_partition_id=2**31 - 1)(f.document), "last-partition-id"),
    "a list is gone": (lambda f: f.bench.files.delete(f.list_of(-1)), "snap-"),
    "an old list is gone": (lambda f: f.bench.files.delete(f.list_of(1)), "snap-"),
    "a list is none": (lambda f: f.bench.files.replace(f.list_of(-1), b"x" * 100), "snap-"),
    "a manifest is gone": (lambda f: f.bench.files.delete(f.manifest_of(-1)), "-m"),
    "a tag's manifest is gone": (lambda f: f.bench.files.delete(f.manifest_of(0)), "-m"),
    "a manifest is cut": (lambda f: cut(f, f.manifest_of(-1)), "-m"),
    "a manifest has other counts": (lambda f: f.relist(-1, existing_files_count=7), "-m"),
    "a manifest of an unknown spec": (lambda f: f.relist(-1, partition_spec_id=7), "-m"),
    "a manifest younger than its snapshot": (lambda f: f.relist(-1, sequence_number=99), "snap-"),
    "a manifest with other rows' ids": (lambda f: f.relist(-1, first_row_id=2**62), "snap-"),
}


def overflow(document: dict[str, Any]) -> None:
    document["snapshots"][-1].update({"first-row-id": 2**63 - 1, "added-rows": 1})


def cut(foreign: Foreign, location: str) -> None:
    foreign.bench.files.replace(location, foreign.bench.files.read(location, bytes_max=10**8)[:-20])


@pytest.mark.parametrize("name", BROKEN)
async def test_what_cannot_be_read_or_trusted_is_refused_and_named(name: str) -> None:
    bench = Workbench()
    foreign = Foreign(bench)
    break_it, said = BROKEN[name]
    async with bench.daemon():
        await foreign.make()
        outcome = await foreign.register(lambda _: break_it(foreign))
    assert isinstance(outcome, Rejected)
    assert (outcome.rule, outcome.hint) == ("invalid-table", "fix")
    assert said in outcome.message
    assert "memory://" in outcome.message


async def test_a_column_that_files_have_and_no_schema_is_not_given_again() -> None:
    bench = Workbench()
    foreign = Foreign(bench)
    async with bench.daemon():
        await bench.commit(create(format_version=2))
        file = changed(content_file("a"), value_counts=CountMap((1, 2, 3), (10, 10, 10)))
        location = (await bench.commit(append(data_files=(file,)))).metadata_location
        assert location is not None
        foreign.document = json.loads(
            decompressed(bench.files.read(location, bytes_max=10**8), location=location, bytes_max=10**8)
        )
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        outcome = await foreign.register(older_column)
    assert isinstance(outcome, Rejected)
    assert (outcome.rule, outcome.hint) == ("invalid-table", "fix")
    assert "last-column-id is 2" in outcome.message


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"BZh9"])
async def test_metadata_in_another_codec_is_refused_by_its_name(magic: bytes) -> None:
    bench = Workbench()
    bench.files.create(FOREIGN, magic + bytes(20))
    async with bench.daemon():
        intent = RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=FOREIGN)
        (outcome,) = await bench.settle(intent)
    assert isinstance(outcome, Rejected)
    assert (outcome.rule, outcome.hint) == ("invalid-table", "fix")
    assert "compressed with" in outcome.message
    assert FOREIGN in outcome.message


async def test_another_writer_puts_no_counter_back() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog="file-system", format_version=3))
        await bench.commit(append("a", "b"))
        before = await bench.metadata()
        tables = FileSystemTables(bench.files)
        newest = tables.newest(LOCATION)
        assert newest is not None
        document = json.loads(bench.files.read(newest, bytes_max=10**8))
        document.update({"snapshots": [], "refs": {}, "current-snapshot-id": None, "snapshot-log": []})
        document.update({"next-row-id": 0, "last-sequence-number": 0, "last-column-id": 3})
        tables.put(tables.location_of(LOCATION, version=3, codec="none"), json.dumps(document).encode())
        await bench.commit(append("c"))
        after = newest_of(bench)
    assert after.last_sequence_number > before.last_sequence_number
    assert after.current_snapshot is not None
    assert after.current_snapshot.first_row_id == before.next_row_id == 20


def newest_of(bench: Workbench) -> TableMetadata:
    location = FileSystemTables(bench.files).newest(LOCATION)
    assert location is not None
    return TableReader(bench.files, limits=bench.limits).metadata(location)
