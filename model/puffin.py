"""What a Puffin file says about itself: its footer payload as values (Puffin specification, "Footer Payload")."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from firn.model.errors import InvalidMetadata
from firn.model.json_members import INT_MAX, INT_MIN, as_object, join, list_of, long_of, str_of, str_or_none

BLOBS_MAX: Final = 1_000_000
"""Most blobs that one footer may list."""

FIELDS_MAX: Final = 10_000
"""Most field ids that one blob may name."""

THETA_SKETCH: Final = "apache-datasketches-theta-v1"
DELETION_VECTOR: Final = "deletion-vector-v1"
NOT_KNOWN: Final = -1
"""Snapshot id and sequence number of a deletion vector, which is written before its commit."""

CODECS: Final = frozenset({"lz4", "zstd"})
CREATED_BY: Final = "created-by"
NDV: Final = "ndv"

_FOOTER_MEMBERS: Final = frozenset({"blobs", "properties"})
_BLOB_MEMBERS: Final = frozenset(
    {"type", "fields", "snapshot-id", "sequence-number", "offset", "length", "compression-codec", "properties"}
)


class BlobMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Where one blob lies and what it was computed from.

    `offset` and `length` are bytes in the file as stored (compressed, if `compression_codec` names a codec).
    A blob of a type that firn does not know is kept as it is.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: dict[str, str] = {}
    extra: dict[str, Any] = {}

    @property
    def end(self) -> int:
        """First byte after the blob."""
        return self.offset + self.length


class PuffinMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A footer payload: the blobs in the order of the file, and properties such as ``created-by``."""

    blobs: tuple[BlobMetadata, ...] = ()
    properties: dict[str, str] = {}
    extra: dict[str, Any] = {}


class StatisticsFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a statistics file shows of itself: its size and that of its footer in bytes, and its footer.

    Partition statistics have no `puffin`, and their footer is not measured.
    """

    size: int
    footer_size: int = 0
    puffin: PuffinMetadata | None = None


def puffin_metadata_from_json(obj: Any, *, where: str = "footer") -> PuffinMetadata:
    """Read a decoded footer payload; InvalidMetadata names the member that is missing or wrong."""
    members = as_object(obj, where=where)
    blobs = list_of(members, "blobs", where=where)
    if len(blobs) > BLOBS_MAX:
        raise InvalidMetadata(f"{len(blobs)} blobs are more than {BLOBS_MAX}", where=join(where, "blobs"))
    return PuffinMetadata(
        blobs=tuple(
            blob_metadata_from_json(blob, where=f"{join(where, 'blobs')}[{index}]") for index, blob in enumerate(blobs)
        ),
        properties=_properties(members, where=where),
        extra={name: value for name, value in members.items() if name not in _FOOTER_MEMBERS},
    )


def blob_metadata_from_json(obj: Any, *, where: str = "blob") -> BlobMetadata:
    """Read one decoded blob description; InvalidMetadata names the member that is missing or wrong."""
    members = as_object(obj, where=where)
    fields = list_of(members, "fields", where=where)
    if len(fields) > FIELDS_MAX:
        raise InvalidMetadata(f"{len(fields)} field ids are more than {FIELDS_MAX}", where=join(where, "fields"))
    for index, field_id in enumerate(fields):
        if not isinstance(field_id, int) or isinstance(field_id, bool) or not INT_MIN <= field_id <= INT_MAX:
            raise InvalidMetadata("must be a 32-bit integer", where=f"{join(where, 'fields')}[{index}]")
    return BlobMetadata(
        type=str_of(members, "type", where=where),
        fields=tuple(fields),
        snapshot_id=long_of(members, "snapshot-id", where=where),
        sequence_number=long_of(members, "sequence-number", where=where),
        offset=long_of(members, "offset", where=where, low=0),
        length=long_of(members, "length", where=where, low=0),
        compression_codec=str_or_none(members, "compression-codec", where=where),
        properties=_properties(members, where=where),
        extra={name: value for name, value in members.items() if name not in _BLOB_MEMBERS},
    )


def puffin_metadata_to_json(metadata: PuffinMetadata) -> dict[str, Any]:
    """The footer payload; members in the order that the Java library writes, so that files compare byte for byte."""
    members: dict[str, Any] = {"blobs": [blob_metadata_to_json(blob) for blob in metadata.blobs]}
    if metadata.properties:
        members["properties"] = metadata.properties
    return members | metadata.extra


def blob_metadata_to_json(blob: BlobMetadata) -> dict[str, Any]:
    """One blob's description; members in the order that the Java library writes."""
    members: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        members["compression-codec"] = blob.compression_codec
    if blob.properties:
        members["properties"] = blob.properties
    return members | blob.extra


def _properties(members: dict[str, Any], *, where: str) -> dict[str, str]:
    properties = members.get("properties")
    if properties is None:
        return {}
    path = join(where, "properties")
    for name, value in as_object(properties, where=path).items():
        if not isinstance(value, str):
            raise InvalidMetadata("must be a string", where=join(path, name))
    return dict(properties)
