"""Appends of many files: the files are listed in manifests that the writer writes, and the intent names those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from firn.model.content_file import bind_content_file
from firn.model.intent import ContentFile, WrittenManifest
from firn.model.manifest import ManifestEntry, Status
from firn.model.metadata import TableMetadata
from firn.model.table_properties import MANIFEST_TARGET_SIZE_BYTES, METADATA_PATH
from firn.storage.files import FileStore
from firn.storage.manifests import encode_manifests

INLINE_FILES_MAX: Final = 2_000
"""Files that an append lists itself: with the metrics of some dozens of columns that is a few megabytes."""


def append_members(
    files: Sequence[ContentFile], metadata: TableMetadata, *, run: str, store: FileStore
) -> dict[str, Any]:
    """The members of an append that bring these files: inline, or by manifests in the table's metadata folder.

    Manifests of v1 tables must say which snapshot they are of, which a writer cannot know: those list files inline.
    """
    if len(files) <= INLINE_FILES_MAX or metadata.format_version < 2:
        return {"data_files": tuple(files)}
    folder = (METADATA_PATH.of(metadata.properties) or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")
    of_spec: dict[int, list[ManifestEntry]] = {}
    for at, file in enumerate(files):
        bound = bind_content_file(file, metadata, where=f"data-files[{at}]")
        of_spec.setdefault(bound.spec_id, []).append(ManifestEntry(status=Status.ADDED, data_file=bound))
    written = []
    for spec_id, entries in of_spec.items():
        spec = metadata.spec_by_id(spec_id)
        assert spec is not None
        encoded = encode_manifests(
            entries,
            schema=metadata.current_schema,
            spec=spec,
            content="data",
            format_version=metadata.format_version,
            snapshot_id=None,
            older_schemas=metadata.schemas,
            target_bytes=MANIFEST_TARGET_SIZE_BYTES.sane(metadata.properties),
        )
        for number, one in enumerate(encoded):
            path = f"{folder}/{run}-{spec_id}-m{number}.avro"
            store.create(path, one.data)
            written.append(
                WrittenManifest(
                    manifest_path=path,
                    manifest_length=len(one.data),
                    partition_spec_id=spec_id,
                    files_count=one.counts.added_files,
                    rows_count=one.counts.added_rows,
                )
            )
    schema_ids = {file.schema_id for file in files if file.schema_id is not None}
    return {"manifests": tuple(written), "schema_ids": tuple(sorted(schema_ids))}
