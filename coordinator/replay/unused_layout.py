"""Partition specs and schemas that nothing in the table needs any more, which an expiry takes away when it is asked."""

from __future__ import annotations

from typing import Final

import msgspec

from firn.coordinator.replay.working import Working
from firn.model.errors import FirnError
from firn.model.metadata import TableMetadata
from firn.model.metadata_layout import remove_schemas, remove_specs

SNAPSHOTS_LOOKED_AT_MAX: Final = 1_000
"""Snapshots whose manifest lists are read to find the specs in use; of a table with more nothing is removed."""


class CleanedLayout(msgspec.Struct, frozen=True):
    """Metadata without what is unused, the ids that went, and why none did where that was not looked for."""

    metadata: TableMetadata
    spec_ids: tuple[int, ...] = ()
    schema_ids: tuple[int, ...] = ()
    kept: str | None = None


def clean_layout(working: Working, metadata: TableMetadata, *, now_ms: int) -> CleanedLayout:
    """The metadata without partition specs and schemas that neither data nor work that is under way needs.

    Those with the highest ids stay: the next would get their ids. Prevents: files that nobody can read any more,
    because the spec of their partition or a column that their deletes compare is gone; intents that were planned on a
    spec that is gone when their turn comes; and files that are taken for those of another spec, which has got its id.
    """
    if len(metadata.partition_specs) == 1 and len(metadata.schemas) == 1:
        return CleanedLayout(metadata)
    if working.following or working.waiting:
        return CleanedLayout(metadata, kept="intents wait, which may have been planned on them")
    if len(metadata.snapshots) > SNAPSHOTS_LOOKED_AT_MAX:
        return CleanedLayout(metadata, kept=f"the table has more than {SNAPSHOTS_LOOKED_AT_MAX} snapshots")
    try:
        return _without_unused(working, metadata, now_ms=now_ms)
    except FirnError as error:  # the snapshots that were asked for expire all the same
        return CleanedLayout(metadata, kept=f"which of them are in use cannot be determined: {error}")


def _without_unused(working: Working, metadata: TableMetadata, *, now_ms: int) -> CleanedLayout:
    """Raises what reading the manifest lists raises, and what metadata of other writers may raise."""
    specs, has_deletes = _specs_in_use(working, metadata)
    specs.add(max(spec.spec_id for spec in metadata.partition_specs))
    unused_specs = [spec.spec_id for spec in metadata.partition_specs if spec.spec_id not in specs]
    cleaned = remove_specs(metadata, unused_specs, now_ms=now_ms)
    unused_schemas = _unused_schemas(cleaned, has_deletes=has_deletes)
    cleaned = remove_schemas(cleaned, unused_schemas, now_ms=now_ms)
    return CleanedLayout(cleaned, tuple(unused_specs), tuple(unused_schemas))


def _specs_in_use(working: Working, metadata: TableMetadata) -> tuple[set[int], bool]:
    """The specs of all manifests, and whether there are delete files."""
    specs, has_deletes = {metadata.default_spec_id}, False
    for snapshot in metadata.snapshots:
        for manifest in working.manifests_of(snapshot):
            specs.add(manifest.partition_spec_id)
            has_deletes = has_deletes or manifest.content == "deletes"
    return specs, has_deletes


def _unused_schemas(metadata: TableMetadata, *, has_deletes: bool) -> list[int]:
    """Schemas that no snapshot was written with, and that are not the last to know a column which is still needed.

    Needed are the columns that specs and orders use, and as long as there are delete files all: equality deletes
    compare columns that may have been dropped since.
    """
    named = {snapshot.schema_id for snapshot in metadata.snapshots}
    if None in named:  # snapshots from before schemas had ids: theirs may be any
        return []
    named |= {metadata.current_schema_id, max(schema.schema_id for schema in metadata.schemas)}
    sources = {id for spec in metadata.partition_specs for field in spec.fields for id in field.source_ids}
    sources |= {id for order in metadata.sort_orders for field in order.fields for id in field.source_ids}
    known = {id for schema in metadata.schemas if schema.schema_id in named for id in schema.fields_by_id}
    unused: list[int] = []
    for schema in sorted(metadata.schemas, key=lambda one: one.schema_id, reverse=True):
        if schema.schema_id in named:
            continue
        columns = set(schema.fields_by_id)
        if (columns if has_deletes else columns & sources) <= known:
            unused.append(schema.schema_id)
        else:
            known |= columns
    return sorted(unused)
