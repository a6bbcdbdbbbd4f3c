"""Whether manifests and lists that firn wrote, before its files said that they are sealed, are as it wrote them.

Avro has no checksum, so a bit that flips in a compressed block may make another value of the same length. firn's own
files end each block with a digest of the whole content in the place of Avro's random mark. Since a header says so, all
who read see it (`firn.storage.avro`); older files are told from other writers', whose marks are random, by the text of
their schema, which every writer spells in its own way.
"""

from __future__ import annotations

from typing import Final

from firn.model.metadata import TableMetadata
from firn.model.partitioning import partition_type
from firn.storage.avro import is_sealed, open_avro
from firn.storage.manifest_schema import manifest_list_schema, manifest_schema

_VERSIONS: Final = (1, 2, 3)


class Seals:
    """Looks at the files of one table."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._lists = {manifest_list_schema(version) for version in _VERSIONS}
        self._manifests: dict[int, set[bytes]] = {}

    def broken_list(self, data: bytes, *, location: str) -> bool:
        """Whether a manifest list that firn wrote has changed since. Raises CorruptFile for what is no Avro file."""
        return _broken(data, self._lists, location=location)

    def broken_manifest(self, data: bytes, *, location: str, spec_id: int) -> bool:
        """The same of a manifest."""
        if spec_id not in self._manifests:
            self._manifests[spec_id] = self._spelled(spec_id)
        return _broken(data, self._manifests[spec_id], location=location)

    def _spelled(self, spec_id: int) -> set[bytes]:
        """What firn calls manifests of a spec: with the types that its source columns have had."""
        spec, schemas = self._metadata.spec_by_id(spec_id), self._metadata.schemas
        if spec is None:
            return set()
        types = {partition_type(spec, schema, older=schemas) for schema in schemas}
        return {manifest_schema(type, version) for type in types for version in _VERSIONS}


def _broken(data: bytes, own: set[bytes], *, location: str) -> bool:
    file = open_avro(data, location=location)
    return file.metadata.get("avro.schema") in own and not is_sealed(file)
