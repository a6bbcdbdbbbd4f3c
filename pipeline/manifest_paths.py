"""The files that manifests name, without all that they say of them: to tell what is reachable."""

from __future__ import annotations

from typing import Any

import msgspec

from firn.model.errors import CorruptFile
from firn.model.manifest import ManifestFile, Status
from firn.storage.avro import open_avro
from firn.storage.files import FileStore


class NamedFiles(msgspec.Struct, frozen=True):
    """Locations as a manifest has them: `live` files, and those that it says are `gone`."""

    live: tuple[str, ...]
    gone: tuple[str, ...]


def files_named_by(manifest: ManifestFile, files: FileStore, *, bytes_max: int) -> NamedFiles:
    """The files that a manifest names; no matter by which partition spec or schema.

    Avro has no end mark, and a live file that is overlooked is one that somebody deletes: so length and counts must be
    what the manifest list says. Raises CorruptFile, NotFound, Unavailable.
    """
    location = manifest.manifest_path
    data = files.read(location, bytes_max=bytes_max)
    if len(data) != manifest.manifest_length:
        raise CorruptFile(location, f"{len(data)} bytes where the manifest list says {manifest.manifest_length}")
    live: list[str] = []
    gone: list[str] = []
    for block in open_avro(data, location=location).read_blocks():
        for record in block:
            status, path = _status_and_path(record, location)
            (gone if status == Status.DELETED else live).append(path)
    expected = manifest.live_files_count
    if expected is not None and expected != len(live):
        raise CorruptFile(location, f"{len(live)} live files where the manifest list says {expected}")
    return NamedFiles(tuple(live), tuple(gone))


def _status_and_path(record: dict[str, Any], location: str) -> tuple[int, str]:
    try:
        status, path = record["f0"], record["f2"]["f100"]
    except (KeyError, TypeError):
        raise CorruptFile(location, "an entry has no status or no file path") from None
    if not isinstance(path, str) or status not in (Status.EXISTING, Status.ADDED, Status.DELETED):
        raise CorruptFile(location, f"an entry of status {status!r:.20} names {path!r:.80}")
    return status, path
