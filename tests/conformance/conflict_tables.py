"""Tables and intents from the steps of the conflict cases: files by the names that the cases give them."""

from __future__ import annotations

import itertools
import re
import struct
from typing import Any

import msgspec

from firn.model.deletion_vector import DeletionVector
from firn.model.intent import (
    Append,
    ContentFile,
    CountMap,
    CreateTable,
    DeleteFileRef,
    DeleteFiles,
    DeleteWhere,
    Overwrite,
    Replace,
    ReplacePartitions,
    RowDelta,
    Transaction,
    ValueMap,
)
from firn.model.operations.upkeep import ExpireSnapshots, UpdateProperties, UpgradeFormat
from firn.model.outcome import Committed, Outcome
from firn.model.partitioning import PartitionSpec
from firn.storage.data_files import NewFile
from firn.storage.manifest_reader import StoredManifests
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, new_id

FOLDER = f"{WAREHOUSE}/db/events/data"
ROWS = 10

BUCKET_SCHEMA = [(3, "id", "int", True), (4, "data", "string", True)]
DATE_SCHEMA = [(1, "id", "long", True), (2, "data", "string", False), (3, "date", "string", True)]
TABLES: dict[str, Any] = {
    "bucket": (BUCKET_SCHEMA, [(4, "data_bucket", "bucket[16]")]),
    "date": (DATE_SCHEMA, [(3, "date", "identity")]),
    "unpartitioned": (BUCKET_SCHEMA, []),
    "identity_data": (BUCKET_SCHEMA, [(4, "data", "identity")]),
    "identity x (string)": ([(1, "id", "int", False), (2, "x", "string", False)], [(2, "x", "identity")]),
}

# Partition, and bounds of the id where it has any.
DATA: dict[str, tuple[Any, tuple[int, int] | None]] = {
    "A": (0, None), "A2": (0, None), "B": (1, None), "C": (2, None), "D": (3, None), "E": (0, None), "F": (1, None),
    "G": (10, None), "N": (None, None), "U": (None, None), "X": (0, None), "Y": (1, None),
    "DAY1": ("2018-06-08", (0, 4)), "DAY2": ("2018-06-09", (5, 9)), "DAY2M": ("2018-06-09", (5, 9)),
    "DAY2R": ("2018-06-09", (10, 14)), "PA": ("a", None), "PB": ("b", None), "PA2": ("a", None),
    "X ids 0..2 bucket 0": (0, (0, 2)), "Y ids 8..10 bucket 0": (0, (8, 10)), "X ids 0..2": (0, (0, 2)),
    "g1 x=Aa": ("Aa", None), "g2 x=BB": ("BB", None),
}  # fmt: skip
EMPTY = frozenset({"E", "F", "G"})
VECTOR_RANGE = re.compile(r"\[(\d+),(\d+)\)")


class ConflictTable:
    """One table on a workbench; files are known by their names in the case."""

    def __init__(self, bench: Workbench, kind: str, version: int) -> None:
        self.bench = bench
        self.schema, self.fields = TABLES[kind]
        self.version = version
        self.kind = kind
        self.paths: dict[str, ContentFile] = {}
        self.names: dict[tuple[str, int | None], str] = {}
        self.base: int | None = None
        self._count = itertools.count(1)

    async def create(self) -> None:
        fields = [
            {"id": id, "name": name, "type": type, "required": required} for id, name, type, required in self.schema
        ]
        spec = [
            {"source-id": source, "field-id": 1000 + at, "name": name, "transform": transform}
            for at, (source, name, transform) in enumerate(self.fields)
        ]
        await self.bench.commit(
            CreateTable(
                intent_id=new_id(), table=TABLE, schema={"type": "struct", "fields": fields},
                partition_spec={"spec-id": 0, "fields": spec}, format_version=self.version,
            )
        )  # fmt: skip

    # -- files -----------------------------------------------------------------------------------------------------

    def known(self, name: str) -> ContentFile:
        """The newest file of that name; one that was never added is nowhere."""
        return self.paths.get(name) or self._data(name)

    def data_files(self, names: list[str]) -> tuple[ContentFile, ...]:
        """New files of these names. A name that is there twice is the same file twice."""
        made = {name: self._data(name) for name in names}
        self.paths.update(made)
        return tuple(made[name] for name in names)

    def delete_files(self, names: list[str]) -> tuple[ContentFile, ...]:
        made = [self._delete(name) for name in names]
        self.paths.update(zip(names, made, strict=True))
        return tuple(made)

    def _data(self, name: str) -> ContentFile:
        partition, bounds = DATA[name]
        file = ContentFile(
            file_path=f"{FOLDER}/{next(self._count):03}.parquet",
            file_format="parquet",
            spec_id=0,
            partition=(partition,) if self.fields else (),
            record_count=0 if name in EMPTY else ROWS,
            file_size_in_bytes=100,
        )
        return self._named(name, file if bounds is None else _with_bounds(file, self.schema[0][2], bounds))

    def _delete(self, name: str) -> ContentFile:
        if "_EQ" in name:
            return self._equality(name)
        if name == "parquet position delete":
            return self._positions(name, "A", scoped=False)
        vector_of = re.match(r"DV\((\w+)", name)
        target = vector_of[1] if vector_of else "A" if name.startswith("DV") else re.split(r"_DEL|_POS", name)[0]
        if "_POS" in name or (self.version < 3 and "DV" not in name):
            return self._positions(name, target, scoped="referenced_data_file" in name)
        return self._vector(name, target)

    def _equality(self, name: str) -> ContentFile:
        target = name.removesuffix("_EQ")
        file = msgspec.structs.replace(
            self._bare(target), content="equality-deletes", equality_ids=(1,), record_count=1,
        )  # fmt: skip
        if name == "DAY2R_EQ":
            file = _with_bounds(file, self.schema[0][2], (10, 10))
        return self._named(name, file)

    def _positions(self, name: str, target: str, *, scoped: bool) -> ContentFile:
        """A position delete file with real bytes: where rows of one file are taken twice, they are read."""
        file = msgspec.structs.replace(self._bare(target), content="position-deletes")
        vector = _positions_of(name)
        data, entry = encode_position_deletes(
            {self.known(target).file_path: vector},
            NewFile(location=file.file_path, spec=PartitionSpec(spec_id=0, fields=()), partition=()),
        )
        self.bench.files.create(file.file_path, data)
        file = msgspec.structs.replace(
            file, record_count=vector.cardinality, file_size_in_bytes=len(data),
            referenced_data_file=entry.referenced_data_file if scoped else None,
        )  # fmt: skip
        return self._named(name, file)

    def _vector(self, name: str, target: str) -> ContentFile:
        """A deletion vector with real bytes: where vectors meet, they are read."""
        data_file, path = self.known(target).file_path, f"{FOLDER}/{next(self._count):03}.puffin"
        vector = _positions_of(name)
        data, puffin = encode_puffin([deletion_vector_blob(vector, data_file=data_file)])
        self.bench.files.create(path, data)
        bucket = re.search(r"bucket (\d+)", name)
        file = msgspec.structs.replace(
            self._bare(target), content="position-deletes", file_format="puffin", file_path=path,
            record_count=vector.cardinality, file_size_in_bytes=len(data), referenced_data_file=data_file,
            content_offset=puffin.blobs[0].offset,
            content_size_in_bytes=None if "without" in name else puffin.blobs[0].length,
        )  # fmt: skip
        return self._named(name, file if bucket is None else msgspec.structs.replace(file, partition=(int(bucket[1]),)))

    def _bare(self, target: str) -> ContentFile:
        return msgspec.structs.replace(
            self._data(target), value_counts=None, null_value_counts=None, lower_bounds=None, upper_bounds=None
        )

    def _named(self, name: str, file: ContentFile) -> ContentFile:
        self.names[file.file_path, file.content_offset] = name
        return file

    # -- steps -----------------------------------------------------------------------------------------------------

    async def do(self, step: dict[str, Any]) -> Outcome | None:
        """One step of the setup or of the others, planned on what the table is now."""
        if step["op"] == "inject":
            when = "after" if "commit_lands_but_raises" in step else "before"
            self.bench.sessions["a"].drop_next_write(when)
            return None
        if step["op"] == "expire_snapshot":
            return await self._expire(step["which"])
        (outcome,) = await self.bench.settle(self.intent(step, base=await self.head()))
        return outcome

    async def _expire(self, which: str) -> Outcome:
        snapshots = (await self.bench.metadata()).snapshots
        later = [s.snapshot_id for s in snapshots if s.snapshot_id != self.base]
        wanted = self.base if which == "base" else later[0]
        assert wanted is not None
        intent = ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=(wanted,), older_than_ms=0)
        (outcome,) = await self.bench.settle(intent)
        return outcome

    async def head(self) -> int | None:
        return (await self.bench.metadata()).current_snapshot_id

    def intent(self, step: dict[str, Any], *, base: int | None) -> Any:
        """The step as an intent. Steps that ask for no validation are not validated, as in Java."""
        base = None if step.get("from_snapshot", "") is None else base
        common: dict[str, Any] = {"intent_id": new_id(), "table": TABLE}
        if "branch" in step:
            common["branch"] = step["branch"]
        match step["op"]:
            case "transaction":
                members = [self.intent(one, base=base) for one in step["ops"]]
                own = (msgspec.structs.replace(member, intent_id=common["intent_id"]) for member in members)
                return Transaction(members=tuple(own), **common)
            case "append":
                return Append(data_files=self.data_files(step["add"]), **common)
            case "delete" if "remove" in step:
                return DeleteFiles(removed_data_files=self._removed(step), **common)
            case "delete":
                case_sensitive = step.get("case_sensitive") is not False
                return DeleteWhere(row_filter=step["row_filter"], case_sensitive=case_sensitive, **common)
            case "rewrite_files":
                return self._replace(step, common, base=base)
            case "set_property":
                return UpdateProperties(updates={step["key"]: step["value"]}, **common)
            case "set_format_version":
                return UpgradeFormat(format_version=step["version"], **common)
        return self._validated(step, common | {"base_snapshot_id": base})

    def _validated(self, step: dict[str, Any], members: dict[str, Any]) -> Any:
        asks_data = step.get("no_conflicting_data", False)
        asks_deletes = step.get("no_conflicting_deletes", False) or step.get("no_conflicting_delete_files", False)
        if not asks_data and not asks_deletes and (step["op"] != "row_delta" or "from_snapshot" not in step):
            members["validate"] = "none"
        members["isolation"] = "serializable" if asks_data else "snapshot"
        if step["op"] == "replace_partitions":
            append_only = step.get("append_only", False)
            return ReplacePartitions(data_files=self.data_files(step["add"]), append_only=append_only, **members)
        members["case_sensitive"] = step.get("case_sensitive") is not False
        members["conflict_filter"] = step.get("conflict_filter")
        removed = self._removed(step)
        if step["op"] == "overwrite":
            added = self.data_files(step["add"])
            row_filter = step.get("row_filter")
            return Overwrite(data_files=added, removed_data_files=removed, row_filter=row_filter, **members)
        removed_deletes = self._removed_deletes(step)
        referenced = tuple(self.known(name).file_path for name in step.get("data_files_exist", ()))
        return RowDelta(
            data_files=self.data_files(step["add"]),
            delete_files=self.delete_files(step["add_deletes"]),
            removed_data_files=removed,
            removed_delete_files=removed_deletes,
            referenced_data_files=referenced,
            **members,
        )

    def _replace(self, step: dict[str, Any], common: dict[str, Any], *, base: int | None) -> Replace:
        removed, removed_deletes = self._removed(step), self._removed_deletes(step)
        return Replace(
            base_snapshot_id=1 if base is None else base,
            removed_data_files=removed,
            removed_delete_files=removed_deletes,
            data_files=self.data_files(step["add"]),
            delete_files=self.delete_files(step.get("add_deletes", [])),
            data_sequence_number=1 if "data_sequence_number" in step else None,
            **common,
        )

    def _removed(self, step: dict[str, Any]) -> tuple[str, ...]:
        return tuple(self.known(name).file_path for name in step.get("remove", ()))

    def _removed_deletes(self, step: dict[str, Any]) -> tuple[DeleteFileRef, ...]:
        found = [self.paths.get(name) or self._delete(name) for name in step.get("remove_deletes", ())]
        return tuple(DeleteFileRef(file_path=file.file_path, content_offset=file.content_offset) for file in found)

    # -- what is there ---------------------------------------------------------------------------------------------

    async def live(self) -> list[str]:
        """Names of live data and delete files."""
        return sorted(name for manifest in await self.manifests() for name, status in manifest if status != "DELETED")

    async def manifests(self) -> list[list[tuple[str, str]]]:
        """Names and statuses of the files in each manifest of the current snapshot."""
        metadata, reader = await self.bench.metadata(), StoredManifests(self.bench.files)
        if metadata.current_snapshot is None:
            return []
        return [
            [(self._name(entry.data_file), entry.status.name) for entry in reader.entries(metadata, manifest)]
            for manifest in reader.manifests(metadata, metadata.current_snapshot)
        ]

    def _name(self, file: Any) -> str:
        offset = file.content_offset if file.is_deletion_vector else None
        return self.names.get((file.file_path, offset), "merged")


def _positions_of(name: str) -> DeletionVector:
    """The rows that a delete file of this name deletes."""
    if found := VECTOR_RANGE.search(name):
        return DeletionVector.of_range(start=int(found[1]), stop=int(found[2]))
    return DeletionVector.of(range(2) if "(" in name and "DV" not in name else range(1))


def _with_bounds(file: ContentFile, type: str, bounds: tuple[int, int]) -> ContentFile:
    layout = "<q" if type == "long" else "<i"
    lower, upper = (struct.pack(layout, bound).hex() for bound in bounds)
    return msgspec.structs.replace(
        file,
        value_counts=CountMap((1,), (file.record_count,)),
        null_value_counts=CountMap((1,), (0,)),
        lower_bounds=ValueMap((1,), (lower,)),
        upper_bounds=ValueMap((1,), (upper,)),
    )


def committed(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Committed)
