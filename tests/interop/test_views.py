"""Views that firn commits are Iceberg's own: its Java library and PyIceberg read them, and mean the same by them.

Spark opens views through catalogs only, never by their path, so Java's reader of view metadata is asked itself, in
Spark's virtual machine. PyIceberg reads the JSON, which it does not decompress.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.view.metadata import ViewMetadata as TheirViewMetadata
from pyspark.sql import SparkSession

from firn.coordinator.tables.table_reader import TableReader
from firn.model.limits import Limits
from firn.model.operations.views import RenameView, SetCurrentViewVersion, UpdateViewProperties
from firn.model.view import SqlRepresentation, ViewMetadata
from firn.model.view_json import view_metadata_from_json, view_metadata_to_json
from firn.storage.file_stores import open_files
from firn.storage.pointers import Pointers
from tests.unit.coordinator.view_intents import change, new_view, replaced
from tests.unit.coordinator.workbench import Workbench

FILES = open_files({"file": {}})
NEW = "db.renamed"
WIDE: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "day", "type": "date", "required": False},
        {"id": 2, "name": "total", "type": "decimal(12,2)", "required": True, "doc": "of the day"},
        {"id": 3, "name": "tags", "required": False,
         "type": {"type": "list", "element-id": 4, "element": "string", "element-required": False}},
    ],
}  # fmt: skip


async def committed_view(warehouse: Path) -> str:
    """A view with all that can happen to one; its metadata file."""
    bench = Workbench(files=FILES, warehouse=str(warehouse))
    async with bench.daemon():
        first = await bench.commit(
            new_view("SELECT 1", "spark", "trino", default_catalog="prod", default_namespace=("a", "b c"),
                     properties={"comment": "daily"}, summary={"engine-name": "dbt"}, writer="dbt")
        )  # fmt: skip
        second = await bench.commit(replaced(first, "SELECT '\u00e4 \"quoted\"\n'", "trino", "spark", schema=WIDE))
        back = await bench.commit(change(SetCurrentViewVersion, second, version_id=1))
        await bench.commit(change(UpdateViewProperties, back, updates={"owner": "me"}, removals=("comment",)))
        third = await bench.commit(replaced(back, "SELECT 3", "spark", "trino", "duckdb", schema=WIDE))
        await bench.commit(change(RenameView, third, new_name=NEW))
        return (await Pointers(bench.zookeeper.connect()).read(NEW)).pointer.metadata_location


def ours(location: str) -> ViewMetadata:
    return TableReader(FILES, limits=Limits()).view(location)


def queries_of(metadata: ViewMetadata) -> dict[str, str]:
    return {
        one.dialect: one.sql for one in metadata.current_version.representations if isinstance(one, SqlRepresentation)
    }


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Any:
    found = spark.sparkContext._jvm
    assert found is not None
    return found


def read_by_java(jvm: Any, location: str) -> Any:
    return jvm.org.apache.iceberg.view.ViewMetadataParser.read(jvm.org.apache.iceberg.Files.localInput(location))


async def test_java_reads_a_committed_view_as_it_is(jvm: Any, tmp_path: Path) -> None:
    location = await committed_view(tmp_path)
    view, theirs = ours(location), read_by_java(jvm, location)
    assert theirs.uuid() == view.view_uuid
    assert theirs.location() == view.location
    assert theirs.currentVersionId() == view.current_version_id == 3
    assert dict(theirs.properties()) == view.properties == {"owner": "me"}
    assert [one.versionId() for one in theirs.versions()] == [1, 2, 3]
    assert [one.versionId() for one in theirs.history()] == [1, 2, 1, 3]
    assert [one.timestampMillis() for one in theirs.history()] == [e.timestamp_ms for e in view.version_log]
    current = theirs.currentVersion()
    assert {one.dialect(): one.sql() for one in current.representations()} == queries_of(view)
    assert current.timestampMillis() == view.current_version.timestamp_ms
    first = theirs.version(1)
    assert (first.defaultCatalog(), list(first.defaultNamespace().levels())) == ("prod", ["a", "b c"])
    assert dict(first.summary())["engine-name"] == "dbt"
    assert [(c.fieldId(), c.name(), c.type().toString(), c.doc()) for c in theirs.schema().columns()] == [
        (1, "day", "date", None), (2, "total", "decimal(12, 2)", "of the day"), (3, "tags", "list<string>", None),
    ]  # fmt: skip


async def test_what_java_writes_of_it_is_the_same_view(jvm: Any, tmp_path: Path) -> None:
    location = await committed_view(tmp_path)
    text = jvm.org.apache.iceberg.view.ViewMetadataParser.toJson(read_by_java(jvm, location))
    again = view_metadata_from_json(json.loads(text))
    assert again == ours(location)


async def test_java_changes_a_committed_view_and_firn_reads_what_came_of_it(jvm: Any, tmp_path: Path) -> None:
    location = await committed_view(tmp_path)
    package = jvm.org.apache.iceberg.view
    before = read_by_java(jvm, location)
    # Version 2 has two of the three dialects of version 3, which Java refuses as firn does, unless it is allowed.
    with pytest.raises(Py4JJavaError, match="loss of view dialects"):
        package.ViewMetadata.buildFrom(before).setCurrentVersionId(2).build()
    allowed = {"replace.drop-dialect.allowed": "true"}
    changed = package.ViewMetadata.buildFrom(before).setProperties(allowed).setCurrentVersionId(2).build()
    after = view_metadata_from_json(json.loads(package.ViewMetadataParser.toJson(changed)))
    assert after.current_version_id == 2
    assert [entry.version_id for entry in after.version_log] == [1, 2, 1, 3, 2]


async def test_pyiceberg_reads_a_committed_view(tmp_path: Path) -> None:
    location = await committed_view(tmp_path)
    theirs = TheirViewMetadata.model_validate_json(gzip.decompress(FILES.read(location, bytes_max=10**6)))
    view = ours(location)
    assert theirs.model_dump(mode="json", by_alias=True)["current-version-id"] == 3
    assert {one.root.dialect: one.root.sql for one in theirs.versions[-1].representations} == queries_of(view)
    assert [(entry.timestamp_ms, entry.version_id) for entry in theirs.version_log] == [
        (entry.timestamp_ms, entry.version_id) for entry in view.version_log
    ]
    assert len(theirs.schemas) == len(view.schemas) == 2
    assert view_metadata_from_json(view_metadata_to_json(view)) == view
