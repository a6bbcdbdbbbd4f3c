"""An append of very many files names manifests that list all of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from firn.coordinator.client import TableView
from firn.coordinator.client.intents import new_intent_id
from firn.model.intent import Append, CreateTable
from firn.model.types import LONG
from firn.pipeline import written_manifests
from firn.pipeline.parquet_sink import ParquetSink
from firn.pipeline.write_target import WriteTarget
from firn.pipeline.written_manifests import append_members
from firn.storage.file_stores import open_files
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan
from tests.unit.coordinator.workbench import Workbench

FILES = open_files({"file": {}})
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
SPEC = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}]}


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_files_over_the_limit_are_committed_by_manifest(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_manifests, "INLINE_FILES_MAX", 3)
    bench = Workbench(files=FILES, warehouse=str(tmp_path))
    async with bench.daemon():
        create = CreateTable(
            intent_id=new_intent_id(), table="db.t", schema=SCHEMA, partition_spec=SPEC, format_version=version
        )
        made = await bench.commit(create)
        assert made.metadata_location is not None
        view = TableView.from_metadata(made.metadata_location, FILES, name="db.t")
        intent_id = new_intent_id()
        target = WriteTarget.of(view, run=intent_id, files={"file": {}})
        with ParquetSink(target, name="0") as sink:
            sink.write(pa.RecordBatch.from_pydict({"id": pa.array(range(10), pa.int64())}))
            written = sink.close()
        members = append_members(written, view.metadata, run=intent_id, store=FILES)
        assert ("manifests" in members) == (version > 1)
        outcome = await bench.commit(Append(intent_id=intent_id, table="db.t", **members))
        assert outcome.metadata_location is not None
        after = TableView.from_metadata(outcome.metadata_location, FILES, name="db.t")
        plan = plan_scan(after.metadata, files=StoredManifests(FILES))
        assert {task.file.partition for task in plan.tasks} == {(i,) for i in range(10)}
        assert after.schema.fields[0].type == LONG
