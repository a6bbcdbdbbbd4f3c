"""The files that manifests name, without all that they say of them: to tell what is reachable."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.manifest import ManifestFile, Status
from firn.storage.avro import open_avro
from firn.storage.avro_schema import AvroSchema
from firn.storage.avro_steps import content_of, long_of
from firn.storage.avro_walk import Walk
from firn.storage.files import FileStore
from firn.storage.manifest_rows import check_entry_schema

_STATUS: Final = (0,)
_PATH: Final = (2, 100)
_STATUSES: Final = frozenset(Status)


class NamedFiles(msgspec.Struct, frozen=True):
    """Locations as a manifest has them: `live` files, and those that it says are `gone`."""

    live: tuple[str, ...]
    gone: tuple[str, ...]


def files_named_by(manifest: ManifestFile, files: FileStore, *, bytes_max: int) -> NamedFiles:
    """The files that a manifest names; of data or of deletes, no matter by which partition spec or schema.

    Avro has no end mark, and a live file that is overlooked is one that somebody deletes: so length and counts must be
    what the manifest list says. Raises CorruptFile, NotFound, Unavailable.
    """
    location = manifest.manifest_path
    data = files.read(location, bytes_max=bytes_max)
    if len(data) != manifest.manifest_length:
        raise CorruptFile(location, f"{len(data)} bytes where the manifest list says {manifest.manifest_length}")
    file = open_avro(data, location=location)
    live: list[str] = []
    gone: list[str] = []
    try:
        walk = _walk(file.schema)
        for count, content in file.read_contents():
            for _, (status, path) in walk.records(content, count):
                if not status or not path or long_of(status) not in _STATUSES:
                    raise InvalidInput(f"an entry of status {status!r} names {path!r:.80}")
                (gone if long_of(status) == Status.DELETED else live).append(content_of(path).decode())
    except (InvalidInput, ValueError, IndexError) as error:
        raise CorruptFile(location, str(error)) from None
    expected = manifest.live_files_count
    if expected is not None and expected != len(live):
        raise CorruptFile(location, f"{plural(len(live), 'live file')} where the manifest list says {expected}")
    return NamedFiles(tuple(live), tuple(gone))


@lru_cache(maxsize=64)
def _walk(schema: AvroSchema) -> Walk:
    check_entry_schema(schema.root)
    return Walk(schema, (_STATUS, _PATH), long=(_PATH,))
