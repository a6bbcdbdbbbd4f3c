"""Manifests and lists of any entries: Java and PyIceberg read of them what firn reads, and firn what Java writes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list

from firn.model.datafile import CONTENT_CODES
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile
from firn.model.partitioning import PartitionField, PartitionSpec, partition_type
from firn.model.transforms import VOID, parse_transform
from firn.model.types import DOUBLE, TIMESTAMP_NS, TIMESTAMPTZ_NS, UUID, FixedType, StructType, Type
from firn.storage.manifest_lists import (
    assign_first_row_ids,
    assign_sequence_numbers,
    decode_manifest_list,
    encode_manifest_list,
)
from firn.storage.manifests import decode_manifest, encode_manifest, manifest_file
from tests.interop.java_library import LONG_START, JavaLibrary
from tests.strategies.examples import examples
from tests.strategies.manifests import NAMES, SCHEMA, TYPES, VALUES, entries

ANY_PACE: Final = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TRANSFORMS: Final = ("identity", "bucket[16]", "truncate[7]", "year", "month", "day", "hour", "void")
SNAPSHOT_ID: Final = LONG_START + 5
FIRST_ROW_ID: Final = LONG_START + 1000

COUNTS: Final = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
MAPS: Final = (*COUNTS, "lower_bounds", "upper_bounds")

replace = msgspec.structs.replace


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Entries to write as one manifest of a table."""

    version: int
    content: ManifestContent
    spec: PartitionSpec
    entries: list[ManifestEntry]

    @property
    def sequence_number(self) -> int:
        return 0 if self.version == 1 else LONG_START


@st.composite
def specs(draw: st.DrawFn, without: frozenset[Type]) -> PartitionSpec:
    fields = []
    usable = [i for i, type in enumerate(TYPES) if type not in without]
    for i in range(draw(st.integers(0, 4))):
        at = draw(st.sampled_from(usable))
        fitting = [text for text in TRANSFORMS if parse_transform(text).can_transform(TYPES[at])]
        name = f"{draw(st.sampled_from(NAMES))}{i}"
        transform = draw(st.sampled_from(fitting))
        fields.append(PartitionField(source_ids=(at + 1,), field_id=1000 + i, name=name, transform=transform))
    spec = PartitionSpec(spec_id=0, fields=tuple(fields))
    # Java's JSON of a file takes a spec of void fields for an unpartitioned one.
    return spec if spec.is_partitioned else PartitionSpec(spec_id=0)


@st.composite
def written(draw: st.DrawFn, *, without: frozenset[Type] = frozenset()) -> Written:
    version = draw(st.sampled_from([1, 2, 3]))
    contents: list[ManifestContent] = ["data"] if version == 1 else ["data", "deletes"]
    content = draw(st.sampled_from(contents))
    spec = draw(specs(without))
    values = [
        st.none() if field.parsed_transform == VOID else st.none() | VALUES[typed.type]
        for field, typed in zip(spec.fields, partition_type(spec, SCHEMA).fields, strict=True)
    ]
    kinds = ["data"] if content == "data" else ["position-deletes", "equality-deletes"]
    each = st.sampled_from(kinds).flatmap(lambda kind: entries(content=kind, format_version=version))
    return Written(
        version=version,
        content=content,
        spec=spec,
        entries=[
            _plausible(entry, draw(st.tuples(*values)), version=version)
            for entry in draw(st.lists(each, min_size=1, max_size=5))
        ],
    )


def _plausible(entry: ManifestEntry, partition: tuple[Any, ...], *, version: int) -> ManifestEntry:
    """The entry with what its version has, split offsets within the file, which Java asks for, and no negative counts
    and ids, which PyIceberg reads as positive ones."""
    file = entry.data_file
    offsets = tuple(range(4, 4 + len(file.split_offsets or ()))) or None
    refers = version > 1 and file.content == "position-deletes"
    return replace(
        entry,
        snapshot_id=None if entry.snapshot_id is None else abs(entry.snapshot_id) % 2**62,
        data_file=replace(
            file,
            spec_id=0,
            partition=partition,
            split_offsets=offsets,
            file_size_in_bytes=file.file_size_in_bytes % 2**50 + 100,
            referenced_data_file=file.referenced_data_file if refers else None,
            equality_ids=None if file.equality_ids is None else tuple(abs(i) % 2**31 for i in file.equality_ids),
            **{name: _counts(getattr(file, name)) for name in COUNTS},
        ),
    )


def _counts(found: dict[int, int] | None) -> dict[int, int] | None:
    return None if found is None else {field_id: abs(count) % 2**63 for field_id, count in found.items()}


def write(table: Written, folder: Path) -> tuple[Path, list[ManifestEntry], ManifestFile]:
    """The manifest list's path; the entries and the row that firn reads back."""
    encoded = encode_manifest(
        table.entries,
        schema=SCHEMA,
        spec=table.spec,
        content=table.content,
        format_version=table.version,
        snapshot_id=SNAPSHOT_ID,
    )
    location = folder / "m.avro"
    location.write_bytes(encoded.data)
    rows: tuple[ManifestFile, ...] = (manifest_file(encoded, f"file://{location}"),)
    rows = assign_sequence_numbers(rows, snapshot_id=SNAPSHOT_ID, sequence_number=table.sequence_number)
    if table.version > 2:
        rows, _ = assign_first_row_ids(rows, FIRST_ROW_ID)
    listed = encode_manifest_list(
        rows,
        format_version=table.version,
        snapshot_id=SNAPSHOT_ID,
        parent_snapshot_id=None,
        sequence_number=table.sequence_number,
        first_row_id=FIRST_ROW_ID if table.version > 2 else None,
    )
    path = folder / "list.avro"
    path.write_bytes(listed)
    return path, read(location, rows[0], table), rows[0]


def read(location: Path, row: ManifestFile, table: Written) -> list[ManifestEntry]:
    return decode_manifest(location.read_bytes(), manifest=row, specs={0: table.spec}, schemas=[SCHEMA])


def told(found: list[ManifestEntry]) -> list[str]:
    """The entries as text, in which -0.0 is not 0.0; Java keeps maps in no order."""
    return [repr(replace(entry, data_file=_ordered(entry.data_file))) for entry in found]


def _ordered(file: Any) -> Any:
    maps = {name: getattr(file, name) for name in file.__struct_fields__ if isinstance(getattr(file, name), dict)}
    return replace(file, **{name: dict(sorted(value.items())) for name, value in maps.items()})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A new folder for each example."""
    root = tmp_path_factory.mktemp("manifests")
    numbers = itertools.count()

    def new() -> Path:
        folder = root / str(next(numbers))
        folder.mkdir()
        return folder

    return new


FIXED: Final = frozenset({FixedType(5)})
"""Java writes fixed partition values as the specification has them, and reads them as bytes with a length."""


@examples(60, suppress_health_check=ANY_PACE)
@given(table=written(without=FIXED))
def test_java_reads_and_writes_the_entries_that_firn_reads_and_writes(
    java: JavaLibrary, folders: Any, table: Written
) -> None:
    folder = folders()
    path, ours, row = write(table, folder)
    spec, type = java.spec(table.spec, SCHEMA), partition_type(table.spec, SCHEMA)
    (listed,) = java.read_manifest_list(path)
    theirs = java.entries(listed, spec)
    assert told([java.entry_of(entry, spec, type) for entry in theirs]) == told(ours)

    again = java.write_manifest(theirs, spec, folder / "n.avro", version=table.version, snapshot_id=SNAPSHOT_ID)
    java.write_manifest_list(
        [again],
        folder / "list-of-java.avro",
        version=table.version,
        snapshot_id=SNAPSHOT_ID,
        sequence_number=table.sequence_number,
        row_id=FIRST_ROW_ID,
    )
    (found,) = decode_manifest_list((folder / "list-of-java.avro").read_bytes(), location="list-of-java.avro")
    # With Java's counts, numbers and ranges of every partition field.
    as_ours = replace(found, manifest_path=row.manifest_path, manifest_length=row.manifest_length)
    assert in_one_order(as_ours, type) == in_one_order(row, type)
    assert told(read(folder / "n.avro", found, table)) == told(ours)


def in_one_order(row: ManifestFile, partition: StructType) -> ManifestFile:
    """The row without ranges of UUIDs: Java finds them by comparing two signed numbers, the specification has bytes."""
    ranges = None if row.partitions is None else tuple(
        replace(summary, lower_bound=None, upper_bound=None) if field.type == UUID else summary
        for field, summary in zip(partition.fields, row.partitions, strict=True)
    )  # fmt: skip
    return replace(row, partitions=ranges)


UNLIKE_IN_PYICEBERG: Final = frozenset({TIMESTAMP_NS, TIMESTAMPTZ_NS, DOUBLE})
"""Types whose partition values PyIceberg does not know; doubles it may read as floats."""


@examples(30, suppress_health_check=ANY_PACE)
@given(table=written(without=UNLIKE_IN_PYICEBERG))
def test_pyiceberg_reads_the_entries_that_firn_reads(folders: Any, table: Written) -> None:
    path, ours, row = write(table, folders())
    io = PyArrowFileIO()
    (listed,) = read_manifest_list(io.new_input(f"file://{path}"))
    assert (listed.sequence_number, listed.min_sequence_number) == (row.sequence_number, row.min_sequence_number)
    assert (listed.added_files_count, listed.existing_rows_count) == (row.added_files_count, row.existing_rows_count)
    theirs = listed.fetch_manifest_entry(io, discard_deleted=False)
    for entry, one in zip(ours, theirs, strict=True):
        file, other = entry.data_file, one.data_file
        assert (int(one.status), one.snapshot_id) == (int(entry.status), entry.snapshot_id)
        assert one.sequence_number == entry.sequence_number
        assert (other.file_path, other.record_count, other.file_size_in_bytes) == (
            file.file_path, file.record_count, file.file_size_in_bytes,
        )  # fmt: skip
        assert int(other.content) == CONTENT_CODES[file.content]
        assert repr([other.partition[i] for i in range(len(file.partition))]) == repr(list(file.partition))
        for name in MAPS:
            assert plain(getattr(other, name)) == getattr(file, name), name
        assert other.equality_ids == (None if file.equality_ids is None else list(file.equality_ids))


def plain(found: Any) -> dict[int, Any] | None:
    """A map that PyIceberg decodes when it is asked."""
    return None if found is None else dict(found)
