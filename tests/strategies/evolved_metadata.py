"""Metadata of tables with a life behind them: every kind of change, in any order, each as firn itself makes it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from firn.model import rest_updates as rest
from firn.model.errors import FirnError
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import (
    add_encryption_key,
    add_snapshot,
    remove_snapshots,
    set_properties,
    set_statistics,
    upgrade,
    with_metadata_log,
)
from firn.model.metadata_create import new_table_metadata
from firn.model.partition_update import AddField, RemoveField, RenameField, evolve_spec
from firn.model.refs import set_ref
from firn.model.rest_apply import apply_updates
from firn.model.schema_change import (
    AddColumn,
    DropColumn,
    MakeOptional,
    MoveFirst,
    RenameColumn,
    SchemaChange,
    UpdateDoc,
    UpdateType,
)
from firn.model.schema_update import apply_changes
from firn.model.sorting import SortBy, replace_order
from firn.model.types import DOUBLE, LONG, TIMESTAMP, DecimalType, Type
from tests.strategies.metadata import LOCATION, REFS, START_MS, STRING_MAPS, UUID, snapshot
from tests.strategies.schemas import NAMES, PRIMITIVES_V1, TEXT, schemas, schemas_v1, types

TRANSFORMS: Final = (
    "identity", "bucket[1]", "bucket[16]", "bucket[2147483647]", "truncate[1]", "truncate[100]", "year", "month", "day",
    "hour", "void",
)  # fmt: skip
WIDER: Final[tuple[Type, ...]] = (LONG, DOUBLE, DecimalType(38, 0), DecimalType(38, 2), TIMESTAMP)
SNAPSHOT_IDS: Final = st.integers(1, 2**63 - 1)
SIZES: Final = st.integers(0, 2**63 - 1)
BLOBS: Final = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["apache-datasketches-theta-v1", "of-tomorrow"]),
            "snapshot-id": SNAPSHOT_IDS,
            "sequence-number": SIZES,
            "fields": st.lists(st.integers(1, 50), max_size=2),
        },
        optional={"properties": st.dictionaries(TEXT, TEXT, min_size=1, max_size=2)},
    ),
    max_size=2,
)
CONTEXTS: Final = st.binary(max_size=9).map(lambda key: b64encode(key).decode())

Change = Callable[[st.DrawFn, TableMetadata, int], TableMetadata]


def _column(draw: st.DrawFn, metadata: TableMetadata) -> str:
    return draw(st.sampled_from(sorted(metadata.current_schema.names_by_id.values()) or ["none is left"]))


def _schema(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    name, new_name = _column(draw, metadata), draw(NAMES)
    new_type = plain(draw(types() if metadata.format_version > 2 else PRIMITIVES_V1))
    wider: Type = draw(st.sampled_from(WIDER))
    choices: list[SchemaChange] = [
        AddColumn(name=new_name, parent="", type=new_type, doc=draw(st.none() | TEXT)),
        DropColumn(name=name),
        RenameColumn(name=name, new_name=new_name),
        MakeOptional(name=name),
        MoveFirst(name=name),
        UpdateDoc(name=name, doc=draw(TEXT)),
        UpdateType(name=name, type=wider),
    ]
    schema, _ = apply_changes(
        metadata.current_schema,
        [draw(st.sampled_from(choices))],
        last_column_id=metadata.last_column_id,
        format_version=metadata.format_version,
    )
    updates: list[rest.Update] = [rest.AddSchema(schema=schema), rest.SetCurrentSchema(schema_id=rest.LAST_ADDED)]
    return apply_updates(metadata, updates, now_ms=now_ms)


def _spec(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    fields = [field.name for field in metadata.default_spec.fields]
    add = AddField(
        source=_column(draw, metadata), transform=draw(st.sampled_from(TRANSFORMS)), name=draw(st.none() | NAMES)
    )
    choices: list[Any] = [add]
    if fields:
        name = draw(st.sampled_from(fields))
        choices += [RemoveField(name=name), RenameField(name=name, new_name=draw(NAMES))]
    spec = evolve_spec(
        metadata.default_spec,
        metadata.current_schema,
        [draw(st.sampled_from(choices))],
        format_version=metadata.format_version,
        specs=metadata.partition_specs,
        last_partition_id=metadata.last_partition_id,
    )
    updates: list[rest.Update] = [rest.AddSpec(spec=spec), rest.SetDefaultSpec(spec_id=rest.LAST_ADDED)]
    return apply_updates(metadata, updates, now_ms=now_ms)


def _order(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    keys = [
        SortBy(
            source=_column(draw, metadata),
            transform=draw(st.sampled_from(TRANSFORMS)),
            direction=draw(st.sampled_from(["asc", "desc"])),
            null_order=draw(st.sampled_from([None, "nulls-first", "nulls-last"])),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    order = replace_order(
        keys, metadata.current_schema, orders=metadata.sort_orders, format_version=metadata.format_version
    )
    updates: list[rest.Update] = [
        rest.AddSortOrder(sort_order=order),
        rest.SetDefaultSortOrder(sort_order_id=rest.LAST_ADDED),
    ]
    return apply_updates(metadata, updates, now_ms=now_ms)


def _snapshot(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    branch = draw(st.sampled_from(["main", "main", "audit", None]))
    head = metadata.head(branch or "main")
    new = snapshot(
        metadata,
        draw(SNAPSHOT_IDS),
        parent=head.snapshot_id if head else None,
        at=now_ms - START_MS,
        schema_id=draw(st.sampled_from([None, metadata.current_schema_id])),
        summary={"operation": draw(st.sampled_from(["append", "replace", "overwrite", "delete"])), **draw(STRING_MAPS)},
        key_id=draw(st.none() | TEXT.filter(bool)) if metadata.format_version > 2 else None,
    )
    return add_snapshot(metadata, new, branch=branch, now_ms=now_ms)


def _one_id(draw: st.DrawFn, metadata: TableMetadata) -> int:
    ids = [one.snapshot_id for one in metadata.snapshots]
    return draw(st.sampled_from(ids)) if ids else 1


def _ref(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    ref = msgspec.structs.replace(draw(REFS), snapshot_id=_one_id(draw, metadata), extra={})
    return set_ref(metadata, draw(TEXT | st.just("audit")), ref, now_ms=now_ms)


def _statistics(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    partition = draw(st.booleans())
    found: dict[str, Any] = {
        "snapshot-id": _one_id(draw, metadata),
        "statistics-path": f"{LOCATION}/metadata/{draw(TEXT)}.stats",
        "file-size-in-bytes": draw(SIZES),
    }
    if not partition:
        found |= {"file-footer-size-in-bytes": draw(SIZES), "blob-metadata": draw(BLOBS)}
    return set_statistics(metadata, found, partition=partition, now_ms=now_ms)


def _key(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    key: dict[str, Any] = {"key-id": draw(TEXT), "encrypted-key-metadata": draw(CONTEXTS)}
    more = {"encrypted-by-id": draw(TEXT), "properties": draw(STRING_MAPS)}
    key |= {name: value for name, value in more.items() if value}
    return add_encryption_key(metadata, key, now_ms=now_ms)


def _expire(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    return remove_snapshots(metadata, [_one_id(draw, metadata)], now_ms=now_ms)


def _properties(draw: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    return set_properties(metadata, draw(STRING_MAPS), now_ms=now_ms)


def _upgrade(_: st.DrawFn, metadata: TableMetadata, now_ms: int) -> TableMetadata:
    return upgrade(metadata, metadata.format_version + 1, now_ms=now_ms)


CHANGES: Final[tuple[Change, ...]] = (
    _schema, _schema, _spec, _spec, _order, _snapshot, _snapshot, _snapshot, _ref, _statistics, _key, _expire,
    _properties, _upgrade,
)  # fmt: skip


@st.composite
def evolved_tables(draw: st.DrawFn, *, versions: tuple[int, ...] = (1, 2, 3), changes_max: int = 12) -> TableMetadata:
    """Metadata after some changes; what firn refuses of them is left out. Nothing in it that is unknown to others."""
    version = draw(st.sampled_from(versions))
    schema = draw(schemas() if version > 2 else schemas_v1())
    metadata = new_table_metadata(
        plain(schema), location=LOCATION, table_uuid=UUID, now_ms=START_MS, format_version=version
    )
    for step, change in enumerate(draw(st.lists(st.sampled_from(CHANGES), max_size=changes_max)), 1):
        try:
            changed = change(draw, metadata, START_MS + 1000 * step)
        except FirnError:
            continue
        if changed.format_version > max(versions):
            continue
        location = f"{LOCATION}/metadata/{step}.json"
        metadata = with_metadata_log(changed, location, previous_updated_ms=metadata.last_updated_ms)
    return metadata


def plain(value: Any) -> Any:
    """`value` without the JSON members that firn keeps although it does not know them, at every level."""
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {name: {} if name == "extra" else plain(getattr(value, name)) for name in value.__struct_fields__}
    return type(value)(**fields)
