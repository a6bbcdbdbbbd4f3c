"""Table metadata for tests: histories written by hand, and arbitrary valid metadata."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.snapshot import MetadataLogEntry, Snapshot, SnapshotRef
from firn.model.sorting import UNSORTED, SortField, SortOrder
from firn.model.types import LONG, STRING, NestedField, StructType
from tests.strategies.schemas import LONGS, TEXT, schemas, schemas_v1

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
LOCATION = "s3://bucket/wh/db/events"
START_MS = 1_700_000_000_000

SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            NestedField(field_id=1, name="id", type=LONG, required=True),
            NestedField(field_id=2, name="data", type=STRING, required=False),
        )
    ),
)
BY_BUCKET = PartitionSpec(
    spec_id=0, fields=(PartitionField(source_ids=(1,), field_id=1000, name="id_bucket", transform="bucket[16]"),)
)
BY_DATA = SortOrder(order_id=1, fields=(SortField(source_ids=(2,), transform="identity"),))


def table(
    spec: PartitionSpec = UNPARTITIONED, order: SortOrder = UNSORTED, *, schema: Schema = SCHEMA, **settings: Any
) -> TableMetadata:
    """An empty table, made at `START_MS`."""
    given = {"location": LOCATION, "table_uuid": UUID, "now_ms": START_MS, **settings}
    return new_table_metadata(schema, spec, order, **given)


def snapshot(
    metadata: TableMetadata, snapshot_id: int, *, parent: int | None = None, at: int = 0, **fields: Any
) -> Snapshot:
    """A snapshot that `metadata` takes next, at `START_MS` + `at`."""
    v3 = metadata.format_version > 2
    given = {
        "parent_snapshot_id": parent,
        "sequence_number": metadata.next_sequence_number,
        "timestamp_ms": START_MS + at,
        "manifest_list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema_id": 0,
        "first_row_id": metadata.next_row_id if v3 else None,
        "added_rows": 10 if v3 else None,
    }
    return Snapshot(snapshot_id=snapshot_id, **{**given, **fields})


def appended(
    metadata: TableMetadata, *snapshot_ids: int, branch: str | None = "main", step: int = 1000, **fields: Any
) -> TableMetadata:
    """The table with snapshots one after the other on a branch, each at `START_MS` + its id × `step`.

    A new branch starts at the head of main; `branch` None stages on top of main.
    """
    for snapshot_id in snapshot_ids:
        head = metadata.head(branch or "main") or metadata.head("main")
        at = snapshot_id * step
        new = snapshot(metadata, snapshot_id, **{"parent": head.snapshot_id if head else None, "at": at, **fields})
        metadata = add_snapshot(metadata, new, branch=branch, now_ms=START_MS + at)
    return metadata


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | LONGS | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
EXTRAS = st.dictionaries(TEXT.map("x-{}".format), JSON_VALUES, max_size=2)
STRING_MAPS = st.dictionaries(TEXT, TEXT, max_size=3)
POSITIVE = st.integers(1, 2**31 - 1)
REFS = st.builds(
    SnapshotRef,
    snapshot_id=st.just(0),
    type=st.just("branch"),
    min_snapshots_to_keep=st.none() | POSITIVE,
    max_snapshot_age_ms=st.none() | POSITIVE,
    max_ref_age_ms=st.none() | POSITIVE,
    extra=EXTRAS,
) | st.builds(
    SnapshotRef,
    snapshot_id=st.just(0),
    type=st.just("tag"),
    max_ref_age_ms=st.none() | POSITIVE,
    extra=EXTRAS,
)


@st.composite
def tables(draw: st.DrawFn, versions: tuple[int, ...] = (1, 2, 3)) -> TableMetadata:
    """Valid metadata of a table with some history, members that nobody knows at every level, and any text."""
    version = draw(st.sampled_from(versions))
    schema = draw(schemas() if version > 2 else schemas_v1())
    metadata = new_table_metadata(schema, location=LOCATION, table_uuid=UUID, now_ms=START_MS, format_version=version)
    for snapshot_id in draw(st.lists(st.integers(1, 2**63 - 1), max_size=4, unique=True)):
        head = metadata.head()
        new = snapshot(
            metadata,
            snapshot_id,
            parent=head.snapshot_id if head else None,
            at=draw(st.integers(0, 10**6)),
            schema_id=draw(st.none() | st.just(0)),
            summary={"operation": draw(st.sampled_from(["append", "overwrite"])), **draw(STRING_MAPS)},
            extra=draw(EXTRAS),
        )
        metadata = add_snapshot(metadata, new, branch=draw(st.sampled_from(["main", None])), now_ms=START_MS)
    refs = dict(metadata.refs)
    ids = [one.snapshot_id for one in metadata.snapshots]
    if ids:
        for name, ref in draw(st.dictionaries(TEXT.map("r-{}".format), REFS, max_size=3)).items():
            refs[name] = msgspec.structs.replace(ref, snapshot_id=draw(st.sampled_from(ids)))
    log = tuple(
        MetadataLogEntry(metadata_file=name, timestamp_ms=metadata.last_updated_ms)
        for name in draw(st.lists(TEXT, max_size=2))
    )
    return msgspec.structs.replace(
        metadata, refs=refs, metadata_log=log, properties=draw(STRING_MAPS), extra=draw(EXTRAS)
    )
