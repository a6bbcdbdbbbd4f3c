"""A manifest's container: opened, with all that can be checked without reading an entry."""

from __future__ import annotations

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, Unsupported
from firn.model.manifest import ManifestFile
from firn.storage.avro import DEFAULT_LIMITS, AvroFile, AvroLimits, open_avro
from firn.storage.manifest_schema import FORMAT_VERSIONS


def open_manifest(data: bytes, *, manifest: ManifestFile, limits: AvroLimits = DEFAULT_LIMITS) -> AvroFile:
    """The container of a manifest, with whatever can be checked of it without reading its entries.

    Raises CorruptFile naming the check that failed, Unsupported for a format version that firn does not know.
    """
    location = manifest.manifest_path
    if len(data) != manifest.manifest_length:
        raise CorruptFile(location, f"{len(data)} bytes where the manifest list says {manifest.manifest_length}")
    file = open_avro(data, location=location, limits=limits)
    _check_header(file, manifest)
    listed = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    known = [count for count in listed if count is not None]
    if len(known) == len(listed) and sum(known) != file.record_count:
        raise CorruptFile(
            location, f"{plural(file.record_count, 'entry', 'entries')} where the manifest list says {sum(known)}"
        )
    return file


def _check_header(file: AvroFile, manifest: ManifestFile) -> None:
    """Refuse another table's or another spec's manifest; values that old writers left out are not asked for."""
    version = file.integer("format-version")
    if version is not None and version not in FORMAT_VERSIONS:
        raise Unsupported(f"manifest of format version {version}", where=file.location)
    spec_id = file.integer("partition-spec-id")
    if spec_id is not None and spec_id != manifest.partition_spec_id:
        raise CorruptFile(
            file.location, f"partition spec {spec_id} where the manifest list says {manifest.partition_spec_id}"
        )
    content = file.text("content")
    if content is not None and content != manifest.content:
        raise CorruptFile(file.location, f"content {content[:40]!r} where the manifest list says {manifest.content}")
