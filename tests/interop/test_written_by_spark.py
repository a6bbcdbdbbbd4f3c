"""Tables that Spark's Iceberg wrote are read equal by firn: metadata, every manifest, the rows of every reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from datasketches import compact_theta_sketch
from pyspark.sql import SparkSession

from firn.model.deletion_vector import DeletionVector
from firn.model.metadata import TableMetadata
from firn.model.metadata_json import metadata_to_json
from firn.model.puffin import DELETION_VECTOR, NDV, THETA_SKETCH
from firn.model.reserved import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.manifest_lists import check_totals
from firn.storage.manifest_reader import StoredManifests
from firn.storage.metadata_files import decompressed
from firn.storage.puffin import Blob, PuffinFile, encode_puffin
from firn.storage.theta import sketch_from_bytes, sketch_of
from tests.interop.readers import FILES, METADATA_BYTES_MAX, firn_metadata, firn_rows, spark_rows
from tests.interop.rows import expected_rows, table_rows
from tests.interop.spark_tables import SPARK_TABLES

Written = Callable[[str], str]


@pytest.fixture(scope="session")
def written(spark: SparkSession, warehouse: Path) -> Written:
    """The metadata location of tables by their name in `SPARK_TABLES`, each written on first use."""
    done: dict[str, str] = {}

    def get(name: str) -> str:
        if name not in done:
            for statement in SPARK_TABLES[name]:
                spark.sql(statement.replace("{t}", f"wh.db.{name}").replace("{n}", f"db.{name}"))
            newest = FileSystemTables(FILES).newest(str(warehouse / "db" / name))
            assert newest is not None
            done[name] = newest
        return done[name]

    return get


def refs_of(metadata: TableMetadata) -> list[str]:
    return sorted(metadata.refs)


@pytest.mark.parametrize("name", SPARK_TABLES)
def test_rows_of_every_reference_are_read_equal(spark: SparkSession, written: Written, name):
    location = written(name)
    metadata = firn_metadata(location)
    assert metadata.refs
    for ref, points in metadata.refs.items():
        rows, schema = firn_rows(location, ref=ref)
        options = {} if ref == "main" else {"versionAsOf" if points.type == "tag" else "branch": ref}
        expected = table_rows(spark_rows(spark, f"wh.db.{name}", options=options), schema)
        assert expected_rows(rows, schema) == expected, ref


@pytest.mark.parametrize("name", SPARK_TABLES)
def test_metadata_survives_a_round_trip(written: Written, name):
    """But for the sequence number 0, which Java leaves out where the specification requires it."""
    location = written(name)
    data = decompressed(
        FILES.read(location, bytes_max=METADATA_BYTES_MAX), location=location, bytes_max=METADATA_BYTES_MAX
    )
    as_written = json.loads(data)
    again = json.loads(msgspec.json.encode(metadata_to_json(firn_metadata(location))))
    for document in (as_written, again):
        for snapshot in document["snapshots"]:
            snapshot.setdefault("sequence-number", 0)
    assert again == as_written


@pytest.mark.parametrize("name", SPARK_TABLES)
def test_every_manifest_of_every_snapshot_adds_up(written: Written, name):
    metadata = firn_metadata(written(name))
    reader = StoredManifests(FILES)
    for snapshot in metadata.snapshots:
        manifests = reader.manifests(metadata, snapshot)
        check_totals(snapshot, manifests)
        for manifest in manifests:
            # Reading compares the entries with what the manifest list says of them.
            assert reader.entries(metadata, manifest)


@pytest.mark.parametrize(
    "name", ["copy_on_write_v3", "merge_on_read_v3", "merge_on_read_orc_v3", "maintained_v3", "upgraded"]
)
def test_rows_have_the_ids_that_spark_gives_them(spark: SparkSession, written: Written, name):
    columns = ["id", ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name]
    rows, schema = firn_rows(written(name), columns=columns)
    frame = spark.table(f"wh.db.{name}").select(*columns)
    assert table_rows(frame.toArrow(), schema) == expected_rows(rows, schema)


FILTERS: Final = (
    "id = 11", "id < 5", "name = 'n3'", "name like 'm%'", "region is null", "region = 'eu' and id > 20", "not (id > 7)",
    "amount >= 2.5", "id in (1, 2, 30)",
)  # fmt: skip


@pytest.mark.parametrize("name", ["partitioned_v2", "merge_on_read_v3", "evolved_spec_v1", "evolved_spec_v3"])
def test_filters_keep_the_rows_that_spark_keeps(spark: SparkSession, written: Written, name):
    location = written(name)
    for where in FILTERS:
        rows, schema = firn_rows(location, where=where)
        expected = table_rows(spark_rows(spark, f"wh.db.{name}", where=where), schema)
        assert expected_rows(rows, schema) == expected, where


# -- bytes ------------------------------------------------------------------------------------------------------------
def deletion_vector_files(metadata: TableMetadata) -> set[str]:
    reader = StoredManifests(FILES)
    return {
        entry.data_file.file_path
        for snapshot in metadata.snapshots
        for manifest in reader.manifests(metadata, snapshot)
        if manifest.content == "deletes"
        for entry in reader.entries(metadata, manifest)
        if entry.data_file.is_deletion_vector
    }


@pytest.mark.parametrize("name", ["merge_on_read_v3", "merge_on_read_orc_v3", "upgraded"])
def test_deletion_vectors_are_the_bytes_that_firn_would_write(written: Written, name):
    locations = deletion_vector_files(firn_metadata(written(name)))
    assert locations
    for location in locations:
        puffin = PuffinFile.parse(FILES.read(location, bytes_max=10**8), location=location)
        for blob, vector in zip(puffin.metadata.blobs, puffin.deletion_vectors().values(), strict=True):
            assert blob.type == DELETION_VECTOR
            assert DeletionVector.of(list(vector)).to_blob() == puffin.read(blob)
        assert rewritten(puffin) == puffin.data


def rewritten(puffin: PuffinFile) -> bytes:
    """The file as firn writes it from its blobs."""
    blobs = [
        Blob(
            type=blob.type,
            fields=blob.fields,
            data=puffin.read(blob),
            snapshot_id=blob.snapshot_id,
            sequence_number=blob.sequence_number,
            compression=blob.compression_codec,
            properties=blob.properties,
        )
        for blob in puffin.metadata.blobs
    ]
    return encode_puffin(blobs, properties=puffin.metadata.properties)[0]


def test_statistics_are_read_and_their_sketches_count_the_rows(spark: SparkSession, written: Written):
    metadata_location = written("statistics")
    metadata = firn_metadata(metadata_location)
    (statistics,) = metadata.statistics
    location = statistics["statistics-path"]
    puffin = PuffinFile.parse(FILES.read(location, bytes_max=10**8), location=location)
    counted: dict[int, Any] = {}
    rows, schema = firn_rows(metadata_location)
    for blob in puffin.metadata.blobs:
        assert blob.type == THETA_SKETCH
        (field_id,) = blob.fields
        ours = sketch_of((row[field_id] for row in rows), schema.fields_by_id[field_id].type)
        assert ours == sketch_from_bytes(puffin.read(blob), location=location)
        # The same bytes, too, but for what only Java writes and compact sketches do not need: the sampling probability
        # and a flag. firn leaves them out, as the C++ library does.
        assert without_java_marks(ours.to_bytes()) == without_java_marks(puffin.read(blob))
        sketch = compact_theta_sketch.deserialize(puffin.read(blob))
        assert str(round(sketch.get_estimate())) == blob.properties[NDV]
        counted[field_id] = round(sketch.get_estimate())
    table = spark.table("wh.db.statistics")
    assert counted == {
        field.field_id: table.select(field.name).dropna().distinct().count() for field in metadata.current_schema.fields
    }
    assert metadata.partition_statistics


def without_java_marks(sketch: bytes) -> bytes:
    """A compact sketch without the flag of sketches of one value, and without the probability that longer ones have."""
    if sketch[0] == 1:
        return sketch[:5] + bytes([sketch[5] & ~0x20]) + sketch[6:]
    return sketch[:12] + bytes(4) + sketch[16:]
