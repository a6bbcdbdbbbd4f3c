"""Tables with long histories and many manifests: what a commit does not encode, digest or copy again is all there."""

from __future__ import annotations

import json

import msgspec
import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from firn.coordinator.commits.commit import LIGHT_SNAPSHOTS_MAX, Plan, is_light
from firn.coordinator.lanes import table_commits
from firn.coordinator.tables.table_state import TableState
from firn.model.long_tuples import LONG, LongTuple
from firn.model.metadata_create import new_table_metadata
from firn.model.operations.tables import RegisterTable
from firn.model.schema import schema_from_json
from firn.model.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef
from firn.storage.manifest_lists import encode_manifest_list
from firn.storage.metadata_files import encode_metadata
from firn.storage.pointers import Pointer, Pointers
from tests.unit.coordinator.workbench import SCHEMA, TABLE, WAREHOUSE, Workbench, append, delete, new_id

OLDER = 4_000
"""Snapshots that another writer made; their log takes 128 kB."""

LOCATION = f"{WAREHOUSE}/db/events"


async def test_commits_to_a_long_history_go_on_from_the_last_and_whoever_reads_finds_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    light: list[bool] = []
    shared: list[set[type]] = []

    def noted(plan: Plan, state: TableState) -> bool:
        light.append(is_light(plan, state))
        if state.metadata is not None:
            long = (state.metadata.snapshots, state.metadata.snapshot_log, *(h.manifests for h in state.heads.values()))
            shared.append(set(map(type, long)))
        return light[-1]

    monkeypatch.setattr(table_commits, "is_light", noted)
    bench = Workbench()
    names = [f"f{number}" for number in range(LONG + 20)]
    async with bench.daemon("a"):
        await register_long_history(bench)
        for name in names:
            await bench.commit(append(name))
        assert light[:2] == [False, False]  # the table is opened, then its list and its texts are encoded
        assert light[2:].count(False) < len(names) // 10  # it is looked what expires
        assert shared[-1] == {LongTuple}  # snapshots, their log, and manifests are not copied
        await bench.commit(delete(names.pop(100)))
        await bench.commit(append("last"))
        assert sorted(await bench.live()) == sorted([*names, "last"])
    pointer = await pointer_of(bench)
    assert pointer.metadata_digest is None
    data = bench.files.read(pointer.metadata_location, bytes_max=10**7)
    metadata = TableMetadataUtil.parse_raw(data.decode())
    assert [snapshot.sequence_number for snapshot in metadata.snapshots] == [*range(1, OLDER + LONG + 20 + 2 + 1)]
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [one.snapshot_id for one in metadata.snapshots]
    async with bench.daemon("b"):
        await bench.commit(append("of another daemon"))
    pointer = await pointer_of(bench)
    data = bench.files.read(pointer.metadata_location, bytes_max=10**7)
    at = data.index(b'"snapshot-log":[') + 20
    changed = data[:at] + b"\n" + data[at + 1 :]  # in the room before the log: the same to every reader of JSON
    assert json.loads(data) == json.loads(changed)
    bench.files.replace(pointer.metadata_location, changed)
    async with bench.daemon("c"):
        assert (await bench.refuse(append("onto what was changed"))).rule == "table-unreadable"


async def register_long_history(bench: Workbench) -> None:
    """A table with many snapshots of another writer, all of them empty, that does not merge manifests."""
    empty = new_table_metadata(
        schema_from_json(SCHEMA), location=LOCATION, table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=1,
        properties={"commit.manifest-merge.enabled": "false"},
    )  # fmt: skip
    snapshots = tuple(
        Snapshot(
            snapshot_id=number,
            parent_snapshot_id=number - 1 or None,
            sequence_number=number,
            timestamp_ms=number,
            manifest_list=f"{LOCATION}/metadata/snap-{number}.avro",
            summary={"operation": "append"},
            schema_id=0,
        )
        for number in range(1, OLDER + 1)
    )
    for one in snapshots:
        assert one.manifest_list is not None
        listed = encode_manifest_list(
            (), format_version=2, snapshot_id=one.snapshot_id, parent_snapshot_id=one.parent_snapshot_id,
            sequence_number=one.sequence_number,
        )  # fmt: skip
        bench.files.create(one.manifest_list, listed)
    metadata = msgspec.structs.replace(
        empty,
        snapshots=snapshots,
        snapshot_log=tuple(SnapshotLogEntry(timestamp_ms=s.timestamp_ms, snapshot_id=s.snapshot_id) for s in snapshots),
        refs={"main": SnapshotRef(snapshot_id=OLDER, type="branch")},
        current_snapshot_id=OLDER,
        last_sequence_number=OLDER,
        last_updated_ms=OLDER,
    )
    assert OLDER > LIGHT_SNAPSHOTS_MAX
    location = f"{LOCATION}/metadata/00000-of-another.metadata.json"
    bench.files.create(location, encode_metadata(metadata))
    await bench.commit(RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=location))


async def pointer_of(bench: Workbench) -> Pointer:
    """Where the table is now."""
    return (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
