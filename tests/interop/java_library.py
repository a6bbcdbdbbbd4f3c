"""Iceberg's Java library asked itself, in Spark's virtual machine: metadata, manifests, values, without any engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from firn.model.datafile import DataFile
from firn.model.manifest import ManifestEntry, Status
from firn.model.partitioning import PartitionSpec, partition_from_json, spec_to_json
from firn.model.schema import Schema, schema_to_json
from firn.model.types import StructType
from firn.model.values import value_to_json

LONG_START = 2**40
"""Ids that are handed to Java begin here: py4j makes an Integer of what fits in one, and then no Long is found."""


class JavaLibrary:
    """Calls of the library; what has no public way in is called by reflection."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        self.jvm: JVMView = jvm
        self.iceberg: Any = jvm.org.apache.iceberg
        self._gateway: Any = spark.sparkContext._gateway
        self._io = self.iceberg.hadoop.HadoopFileIO(spark.sparkContext._jsc.hadoopConfiguration())
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._hidden: dict[tuple[str, str], Any] = {}

    def hidden(self, owner: str, name: str, target: Any, *arguments: Any) -> Any:
        """What a method of the class `owner` returns, whoever may call it; `target` None for a static one.

        `name` is how the method ends in Java's spelling: ``add(org.apache.iceberg.ManifestEntry)``.
        """
        key = (owner, name)
        if key not in self._hidden:
            methods = self._loader.loadClass(f"org.apache.iceberg.{owner}").getDeclaredMethods()
            found = next(one for one in methods if f".{name}" in one.toString())
            found.setAccessible(True)
            self._hidden[key] = found
        array = self._gateway.new_array(self.jvm.java.lang.Object, len(arguments))
        for i, argument in enumerate(arguments):
            array[i] = argument
        return self._hidden[key].invoke(target, array)

    # -- metadata ----------------------------------------------------------------------------------------------------
    def metadata(self, text: str) -> Any:
        """Java's metadata of this JSON text."""
        return self.iceberg.TableMetadataParser.fromJson("file:///t/v1.metadata.json", text)

    def rewritten_metadata(self, text: str) -> Any:
        """The JSON that Java writes of the metadata that it reads of `text`."""
        return json.loads(self.iceberg.TableMetadataParser.toJson(self.metadata(text)))

    def schema(self, schema: Schema) -> Any:
        return self.iceberg.SchemaParser.fromJson(json.dumps(schema_to_json(schema)))

    def spec(self, spec: PartitionSpec, schema: Schema) -> Any:
        return self.iceberg.PartitionSpecParser.fromJson(self.schema(schema), json.dumps(spec_to_json(spec)))

    # -- manifests ---------------------------------------------------------------------------------------------------
    def read_manifest_list(self, path: Path) -> list[Any]:
        """Java's rows of a manifest list."""
        file = self._io.newInputFile(f"file://{path}")
        return list(self.hidden("ManifestLists", "read(org.apache.iceberg.io.InputFile)", None, file))

    def entries(self, manifest: Any, spec: Any) -> list[Any]:
        """Java's entries of a manifest, tombstones included, with all that they inherit."""
        specs = self.jvm.java.util.HashMap()
        specs.put(spec.specId(), spec)
        read = self.iceberg.ManifestFiles.read
        if manifest.content().name() == "DELETES":
            read = self.iceberg.ManifestFiles.readDeleteManifest
        entries = self.hidden("ManifestReader", "entries()", read(manifest, self._io, specs))
        copies = []
        each = entries.iterator()
        while each.hasNext():
            copies.append(self.hidden("ManifestEntry", "copy()", each.next()))
        entries.close()
        return copies

    def write_manifest(self, entries: list[Any], spec: Any, path: Path, *, version: int, snapshot_id: int) -> Any:
        """A manifest that Java writes of its entries, each with the status it has; Java's row of it."""
        deletes = entries[0].file().content().name() != "DATA"
        write = self.iceberg.ManifestFiles.writeDeleteManifest if deletes else self.iceberg.ManifestFiles.write
        writer = write(version, spec, self._io.newOutputFile(f"file://{path}"), snapshot_id)
        for entry in entries:
            self.hidden("ManifestWriter", "addEntry(org.apache.iceberg.ManifestEntry)", writer, entry)
        writer.close()
        return writer.toManifestFile()

    def write_manifest_list(
        self,
        manifests: list[Any],
        path: Path,
        *,
        version: int,
        snapshot_id: int,
        sequence_number: int,
        row_id: int,
    ) -> None:
        """A manifest list that Java writes of its rows."""
        signature = (
            "write(int,org.apache.iceberg.io.OutputFile,org.apache.iceberg.encryption.EncryptionManager,long,"
            "java.lang.Long,long,java.lang.Long)"
        )
        plain = self.iceberg.encryption.PlaintextEncryptionManager.instance()
        file = self._io.newOutputFile(f"file://{path}")
        arguments = (version, file, plain, snapshot_id, None, sequence_number, row_id if version > 2 else None)
        writer = self.hidden("ManifestLists", signature, None, *arguments)
        for manifest in manifests:
            writer.add(manifest)
        writer.close()

    def entry_of(self, entry: Any, spec: Any, type: StructType) -> ManifestEntry:
        """Java's entry as firn's; `spec` is Java's, `type` that of its partitions."""
        return ManifestEntry(
            status=Status[entry.status().name()],
            snapshot_id=entry.snapshotId(),
            sequence_number=entry.dataSequenceNumber(),
            file_sequence_number=entry.fileSequenceNumber(),
            data_file=data_file_of(json.loads(self.iceberg.ContentFileParser.toJson(entry.file(), spec)), type),
        )

    # -- partitions --------------------------------------------------------------------------------------------------
    def partition_path(self, row: Sequence[Any], schema: Schema, identity: Any, spec: Any) -> str:
        """The path of the partition that Java puts a row of `schema` into.

        `row` has a value for each column, `identity` is Java's spec that partitions by all of them: so that values
        come to Java as JSON, whatever their types.
        """
        values = [value_to_json(field.type, value) for field, value in zip(schema.fields, row, strict=True)]
        text = json.dumps(
            {"spec-id": 0, "content": "data", "file-path": "f", "file-format": "avro", "partition": values,
             "file-size-in-bytes": 1, "record-count": 1}
        )  # fmt: skip
        file = self.iceberg.ContentFileParser.fromJson(self.iceberg.util.JsonUtil.mapper().readTree(text), identity)
        key = self.iceberg.PartitionKey(spec, self.schema(schema))
        key.partition(file.partition())
        return str(spec.partitionToPath(key))


def data_file_of(said: dict[str, Any], type: StructType) -> DataFile:
    """The file that Java's JSON of it describes."""

    def pairs(key: str) -> dict[int, Any] | None:
        found = said.get(key)
        return None if found is None else dict(zip(found["keys"], found["values"], strict=True))

    def bounds(key: str) -> dict[int, bytes] | None:
        found = pairs(key)
        return None if found is None else {i: bytes.fromhex(value) for i, value in found.items()}

    def numbers(key: str) -> tuple[int, ...] | None:
        found = said.get(key)
        return None if found is None else tuple(found)

    return DataFile(
        content=said["content"].lower().replace("_", "-"),
        file_path=said["file-path"],
        file_format=said["file-format"].lower(),
        spec_id=said["spec-id"],
        partition=partition_from_json(type, said.get("partition", [])),
        record_count=said["record-count"],
        file_size_in_bytes=said["file-size-in-bytes"],
        column_sizes=pairs("column-sizes"),
        value_counts=pairs("value-counts"),
        null_value_counts=pairs("null-value-counts"),
        nan_value_counts=pairs("nan-value-counts"),
        lower_bounds=bounds("lower-bounds"),
        upper_bounds=bounds("upper-bounds"),
        key_metadata=None if said.get("key-metadata") is None else bytes.fromhex(said["key-metadata"]),
        split_offsets=numbers("split-offsets"),
        equality_ids=numbers("equality-ids"),
        sort_order_id=said.get("sort-order-id"),
        first_row_id=said.get("first-row-id"),
        referenced_data_file=said.get("referenced-data-file"),
        content_offset=said.get("content-offset"),
        content_size_in_bytes=said.get("content-size-in-bytes"),
    )
