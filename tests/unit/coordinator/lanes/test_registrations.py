"""Metadata that a table is registered from may be of any size, on any store: it costs its own table only."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from firn.model.intent import CreateOrReplaceTable, CreateTable, DropTable, RegisterTable
from firn.model.limits import Limits
from firn.model.operations.layout import UpdateSchema
from firn.model.operations.tables import SeenTable
from firn.model.operations.upkeep import UpdateProperties
from firn.model.operations.views import RegisterView, UpdateViewProperties
from firn.model.outcome import Committed, Rejected
from firn.storage.files import FileStore
from firn.storage.manifest_lists import encode_manifest_list
from firn.storage.manifest_reader import StoredManifests
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import encode_metadata
from tests.unit.coordinator.view_intents import change, new_view, replaced
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create, delete, new_id

FOLDER = f"{WAREHOUSE}/foreign"
NUMBERED = f"{FOLDER}/metadata/v1.metadata.json"
GZIPPED = f"{FOLDER}/metadata/00001-a.gz.metadata.json"

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"

LIMITS = Limits(json_values_max=2_000, metadata_bytes_max=1_000_000, properties_max=50, columns_max=50)

REGISTRATIONS: dict[str, Any] = {
    "table": (RegisterTable, {"metadata_location": GZIPPED}, "metadata-too-large"),
    "folder": (RegisterTable, {"location": FOLDER, "catalog": "file-system"}, "metadata-too-large"),
    "view": (RegisterView, {"metadata_location": GZIPPED}, "metadata-too-large"),
    "create": (
        CreateTable,
        {"location": FOLDER, "catalog": "file-system", "schema": create().schema},
        "metadata-too-large",
    ),
}

BOMBS = {
    "empty arrays in an unknown member": (b'{"format-version":2,"zzz":[' + b"[]," * 100_000 + b"[]]}", ".zzz"),
    "empty objects in an unknown member": (b'{"format-version":2,"zzz":[' + b"{}," * 100_000 + b"{}]}", ".zzz"),
    "properties": (json.dumps({"properties": {f"p{n}": "" for n in range(10_000)}}).encode(), ".properties"),
    "snapshots": (json.dumps({"snapshots": [{"snapshot-id": n} for n in range(10_000)]}).encode(), ".snapshots"),
    "depth": (b'{"zzz":' + b"[" * 1_900, "levels"),
    "bytes": (b'{"zzz":"' + b"x" * 2_000_000 + b'"}', "1000000"),
}


class Gate(MemoryFiles):
    """Files whose foreign metadata is not read until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.asked = threading.Event()

    def read(self, location: str, *, bytes_max: int) -> bytes:
        if location.startswith(FOLDER):
            self.asked.set()
            assert self.opened.wait(20)
        return super().read(location, bytes_max=bytes_max)


def registration(how: str) -> Any:
    kind, members, _ = REGISTRATIONS[how]
    return kind(intent_id=new_id(), table="db.foreign", **members)


def plant(files: FileStore, text: bytes) -> None:
    files.create(NUMBERED, text)
    files.create(GZIPPED, gzip.compress(text))


@pytest.mark.parametrize("how", REGISTRATIONS)
@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_bomb_is_refused_with_its_file_and_member(how: str, bomb: str) -> None:
    bench = Workbench(limits=LIMITS)
    text, named = BOMBS[bomb]
    plant(bench.files, text)
    async with bench.daemon():
        refused = await bench.refuse(registration(how))
        await bench.commit(create())
        await bench.commit(append("a"))
    assert (refused.rule, refused.hint) == (REGISTRATIONS[how][2], "fix")
    assert FOLDER in refused.message
    assert named in refused.message


@pytest.mark.parametrize("how", REGISTRATIONS)
async def test_tables_are_made_while_metadata_of_another_is_read(how: str) -> None:
    files = Gate()
    bench = Workbench(files=files)
    plant(files, b"{}")
    intent = registration(how)
    async with bench.daemon():
        await bench.commit(create())
        await bench.send(intent)
        try:
            assert await asyncio.to_thread(files.asked.wait, 20)
            await bench.commit(append("a"))
            for n in range(5):
                await bench.commit(create(f"db.t{n}"))
        finally:
            files.opened.set()
        outcome = await bench.outcome(intent)
    assert isinstance(outcome, Rejected)
    assert outcome.hint == "fix"


def properties(step: int) -> dict[str, str]:
    return {f"p{step}-{n}": "" for n in range(20)}


def columns(step: int) -> tuple[dict[str, Any], ...]:
    return tuple({"action": "add-column", "name": f"c{step}_{n}", "type": "long"} for n in range(20))


GROWTH: dict[str, Callable[[int, Committed], Any]] = {
    "properties": lambda step, _: UpdateProperties(intent_id=new_id(), table=TABLE, updates=properties(step)),
    "columns": lambda step, _: UpdateSchema(
        intent_id=new_id(), table=TABLE, base_schema_id=min(step, 2), changes=columns(step)
    ),
    "properties of a view": lambda step, seen: change(UpdateViewProperties, seen, updates=properties(step)),
    "definitions of a view": lambda step, seen: replaced(seen, f"SELECT {step}", properties=properties(step)),
    "replacements": lambda step, _: CreateOrReplaceTable(
        intent_id=new_id(), table=TABLE, schema=create().schema, properties=properties(step),
        seen=SeenTable(uuid=UUID, schema_id=0, last_column_id=len(create().schema["fields"]), last_partition_id=999),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", GROWTH)
async def test_nothing_grows_beyond_its_limits_by_small_steps(what: str) -> None:
    bench = Workbench(limits=LIMITS)
    outcomes: list[Committed | Rejected] = []
    async with bench.daemon():
        seen = await bench.commit(new_view() if "view" in what else create(table_uuid=UUID))
        for step in range(4):
            (outcome,) = await bench.settle(GROWTH[what](step, seen))
            outcomes.append(outcome)
            seen = outcome if isinstance(outcome, Committed) else seen
    assert [type(outcome) for outcome in outcomes] == [Committed, Committed, Rejected, Rejected]
    assert {outcome.rule for outcome in outcomes if isinstance(outcome, Rejected)} == {"metadata-too-large"}


@pytest.mark.parametrize("where", ["registered", "found later"])
async def test_a_list_that_names_a_manifest_twice_is_refused_and_named(where: str) -> None:
    """A hundred thousand times over, it would be a hundred thousand reads of one file."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        metadata = await bench.metadata()
        snapshot = metadata.current_snapshot
        assert snapshot is not None
        assert snapshot.manifest_list is not None
        manifests = StoredManifests(bench.files).manifests(metadata, snapshot)
        repeated = encode_manifest_list(
            manifests * 1_000, format_version=2, snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id, sequence_number=snapshot.sequence_number,
        )  # fmt: skip
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        if where == "registered":
            bench.files.replace(snapshot.manifest_list, repeated)
        at = f"{metadata.location}/metadata/00009-a.metadata.json"
        bench.files.create(at, encode_metadata(metadata))
        register = RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=at)
        outcomes = await bench.settle(register)
        bench.files.replace(snapshot.manifest_list, repeated)
        if isinstance(outcomes[0], Committed):
            outcomes = await bench.settle(delete("a"))
        await bench.commit(create("db.other"))
    (refused,) = outcomes
    assert isinstance(refused, Rejected)
    assert manifests[0].manifest_path in refused.message
    assert "is listed twice" in refused.message
