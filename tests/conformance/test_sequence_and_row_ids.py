"""Iceberg's own facts on how sequence numbers and row ids are assigned, told by real manifests and manifest lists."""

import json
from pathlib import Path

import msgspec
import pytest

from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.manifest import ManifestEntry, Status
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot, remove_snapshots, upgrade, with_ref
from firn.model.partitioning import UNPARTITIONED
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot, SnapshotRef, snapshot_from_json, snapshot_to_json
from firn.model.sorting import SortOrder
from firn.model.types import LONG, NestedField, StructType
from firn.storage.manifest_lists import assign_first_row_ids, decode_manifest_list, encode_manifest_list
from firn.storage.manifest_merge import merge_entries, merge_plan, rewrite_without
from firn.storage.manifests import decode_manifest, encode_manifest, manifest_file

CASES = json.loads((Path(__file__).parent / "data" / "sequence_and_row_ids.json").read_text())
ROWS = CASES["files"]
SCHEMA = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="id", type=LONG, required=True),)))
SPECS = {0: UNPARTITIONED}
FIRST_SNAPSHOT_ID = 1000


def table_of(format_version, *, next_row_id=0):
    return TableMetadata(
        format_version=format_version,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location="file:///t",
        last_updated_ms=1,
        last_column_id=1,
        schemas=(SCHEMA,),
        current_schema_id=0,
        partition_specs=(UNPARTITIONED,),
        default_spec_id=0,
        last_partition_id=999,
        sort_orders=(SortOrder(order_id=0),),
        next_row_id=next_row_id if format_version == 3 else None,
    )


class Table:
    """A table of manifests in memory, just enough to commit what the cases do."""

    def __init__(self, format_version):
        self.metadata = table_of(format_version)
        self.files: dict[str, bytes] = {}
        self.snapshots: list[Snapshot] = []
        self.next_row_ids: list[int | None] = []

    def run(self, step):
        match step["op"]:
            case "append" | "overwrite" | "row-delta":
                self.commit(step, branch=step.get("branch", "main"))
            case "stage":
                self.commit(step, branch=None)
            case "cherry-pick":
                picked = self.snapshots[step["snapshot"]]
                added = [e for e in self.entries(picked) if e.status is Status.ADDED]
                names = [e.data_file.file_path for e in added if e.snapshot_id == picked.snapshot_id]
                self.commit({"add": names}, branch="main")
            case "rewrite-manifests":
                self.commit({"rewrite": True}, branch="main")
            case "rollback":
                target = self.snapshots[step["to"]]
                ref = SnapshotRef(snapshot_id=target.snapshot_id, type="branch")
                self.metadata = with_ref(self.metadata, "main", ref)
                assert target.sequence_number == step["current_seq"]
                assert self.metadata.last_sequence_number == step["last_seq"]
            case "expire":
                gone = [self.snapshots[i].snapshot_id for i in step["snapshots"]]
                self.metadata = remove_snapshots(self.metadata, gone, now_ms=2)
            case "upgrade":
                self.metadata = upgrade(self.metadata, 3, now_ms=2)

    def commit(self, step, *, branch):
        version = self.metadata.format_version
        snapshot_id = FIRST_SNAPSHOT_ID + len(self.snapshots)
        ref = self.metadata.refs.get(branch or "main") or self.metadata.refs.get("main")
        parent = None if ref is None else self.metadata.snapshot_by_id(ref.snapshot_id)
        manifests = [] if parent is None else self.manifests(parent)
        data = [m for m in manifests if m.content == "data"]
        deletes = [m for m in manifests if m.content == "deletes"]
        data = [self.without(m, set(step.get("remove", ())), snapshot_id) for m in data]
        added = [added_entry(name, step) for name in step.get("add", ())]
        if added:
            data.insert(0, self.write(added, "data", snapshot_id))
        if removed := delete_files(step):
            deletes.insert(0, self.write(removed, "deletes", snapshot_id))
        if step.get("rewrite"):
            data = [
                self.write(merge_entries([self.read(m) for m in data], snapshot_id=snapshot_id), "data", snapshot_id)
            ]
        if step.get("merge"):
            data = [merged for bin_ in merge_plan(data, min_count=1) for merged in self.merge(bin_, snapshot_id)]
        manifests = [*data, *deletes]
        first = added_rows = None
        if version == 3:
            first = self.metadata.next_row_id or 0
            assigned, next_row_id = assign_first_row_ids(manifests, first)
            manifests, added_rows = list(assigned), next_row_id - first
        number = self.metadata.last_sequence_number + 1
        location = f"list-{snapshot_id}"
        self.files[location] = encode_manifest_list(
            manifests,
            format_version=version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=number,
            first_row_id=first,
        )
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=number,
            timestamp_ms=snapshot_id,
            manifest_list=location,
            first_row_id=first,
            added_rows=added_rows,
        )
        self.metadata = add_snapshot(self.metadata, snapshot, branch=branch, now_ms=snapshot_id)
        self.snapshots.append(snapshot)
        self.next_row_ids.append(self.metadata.next_row_id)

    def without(self, manifest, removed, snapshot_id):
        entries = self.read(manifest)
        if not any(e.is_live and e.data_file.file_path in removed for e in entries):
            return manifest
        return self.write(rewrite_without(entries, removed, snapshot_id=snapshot_id), "data", snapshot_id)

    def merge(self, packed, snapshot_id):
        if not packed.merge:
            return packed.manifests
        entries = merge_entries([self.read(m) for m in packed.manifests], snapshot_id=snapshot_id)
        return [self.write(entries, "data", snapshot_id)]

    def write(self, entries, content, snapshot_id):
        encoded = encode_manifest(
            entries,
            schema=SCHEMA,
            spec=UNPARTITIONED,
            content=content,
            format_version=self.metadata.format_version,
            snapshot_id=snapshot_id,
        )
        path = f"manifest-{len(self.files)}"
        self.files[path] = encoded.data
        return manifest_file(encoded, path)

    def read(self, manifest):
        committed = manifest.sequence_number >= 0
        return decode_manifest(
            self.files[manifest.manifest_path], manifest=manifest, specs=SPECS, schemas=[SCHEMA], committed=committed
        )

    def manifests(self, snapshot):
        return decode_manifest_list(
            self.files[snapshot.manifest_list], location=snapshot.manifest_list, snapshot_id=snapshot.snapshot_id
        )

    def entries(self, snapshot):
        return [entry for manifest in self.manifests(snapshot) for entry in self.read(manifest)]


def added_entry(name, step):
    file = DataFile(
        file_path=name,
        file_format="parquet",
        spec_id=0,
        record_count=ROWS[name],
        file_size_in_bytes=10,
        first_row_id=step.get("first_row_id_set"),
    )
    return ManifestEntry(status=Status.ADDED, sequence_number=step.get("data_seq"), data_file=file)


def delete_files(step):
    if "equality_deletes" in step:
        file = DataFile(
            content="equality-deletes",
            file_path="eq",
            file_format="parquet",
            spec_id=0,
            record_count=step["equality_deletes"],
            file_size_in_bytes=10,
            equality_ids=(1,),
        )
    elif "vector_of" in step:
        file = DataFile(
            content="position-deletes",
            file_path="dv",
            file_format="puffin",
            spec_id=0,
            record_count=15,
            file_size_in_bytes=10,
            referenced_data_file=step["vector_of"],
            content_offset=4,
            content_size_in_bytes=35,
        )
    else:
        return []
    return [ManifestEntry(status=Status.ADDED, data_file=file)]


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case['id']}-{case['origin']}")


@named([case for case in CASES["cases"] if "steps" in case])
def test_numbers_are_assigned_as_iceberg_assigns_them(case):
    table = Table(case["format"])
    for step in case["steps"]:
        table.run(step)
    expected = case["expected"]
    ref = table.metadata.refs[expected.get("branch", "main")]
    last = table.metadata.snapshot_by_id(ref.snapshot_id)
    entries = {entry.data_file.file_path: entry for entry in table.entries(last)}
    manifests = table.manifests(last)
    found = {
        "snapshot_seq": [s.sequence_number for s in table.snapshots],
        "first_row_id": [s.first_row_id for s in table.snapshots],
        "added_rows": [s.added_rows for s in table.snapshots],
        "next_row_id": table.next_row_ids,
        "table_next_row_id": table.metadata.next_row_id,
        "last_sequence_number": table.metadata.last_sequence_number,
        "manifest_lists": len(table.metadata.snapshots),
        "manifest_seq": [m.sequence_number for m in manifests],
        "data_manifests": [m.first_row_id for m in manifests if m.content == "data"],
        "delete_manifests": [m.first_row_id for m in manifests if m.content == "deletes"],
    }
    wanted = {name: value for name, value in expected.items() if name in found}
    assert {name: found[name] for name in wanted} == wanted
    for name, first_row_id in expected.get("file_first_row_id", {}).items():
        assert entries[name].data_file.first_row_id == first_row_id
    for name, entry in expected.get("entries", {}).items():
        assert entries[name].sequence_number == entry["data_seq"]
        assert entries[name].file_sequence_number == entry["file_seq"]
        assert entries[name].status.name == entry["status"]
        if "snapshot" in entry:
            assert entries[name].snapshot_id == table.snapshots[entry["snapshot"]].snapshot_id
    assert wanted or expected.keys() & {"entries", "file_first_row_id"}


@named([case for case in CASES["cases"] if "snapshot" in case])
def test_a_snapshot_with_impossible_row_ids_is_refused(case):
    table = table_of(case["format"], next_row_id=case.get("table_next_row_id", 0))
    snapshot = Snapshot(snapshot_id=1, sequence_number=1, timestamp_ms=2, manifest_list="list", **case["snapshot"])
    with pytest.raises(InvalidInput, match=case["expected"]["error"]):
        add_snapshot(table, snapshot, branch="main", now_ms=2)
    if "table_next_row_id" not in case:  # wrong in itself, so reading it fails as well
        with pytest.raises(InvalidInput, match=case["expected"]["error"]):
            snapshot_from_json(json.loads(msgspec.json.encode(snapshot_to_json(snapshot))))
