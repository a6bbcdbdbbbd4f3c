"""Metadata files as bytes: their names, compression and limits (table specification, Appendix C and F)."""

from __future__ import annotations

import hashlib
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from isal import igzip

from firn.model.errors import CorruptFile, InvalidInput
from firn.model.metadata import TableMetadata
from firn.model.metadata_json import METADATA_BYTES_MAX, changing_members, identifying_members, metadata_from_json
from firn.model.schema import Schema, schema_to_json
from firn.model.table_properties import METADATA_COMPRESSION

Codec = Literal["none", "gzip"]

GZIP_LEVEL: Final = 1
"""ISA-L's, which takes a fraction of zlib's time."""

SCHEMAS_KEPT_MAX: Final = 1_000
"""Tables whose schemas' texts are kept."""

DIGEST_BYTES: Final = 8
TEXTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of tables' snapshots and logs that are kept encoded, of all tables."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_CHUNK_BYTES: Final = 1024 * 1024
_NUMBERED: Final = re.compile(r"v([0-9]{1,18})(?:\.gz)?\.metadata\.json(?:\.gz)?")
_METASTORE: Final = re.compile(r"([0-9]{1,18})-[^/]+?(?:\.gz)?\.metadata\.json(?:\.gz)?")


def codec_of(location: str) -> Codec:
    """Compression by name: ``….gz.metadata.json`` and the older ``….metadata.json.gz`` are gzip."""
    name = location.rsplit("/", 1)[-1]
    if name.endswith((".metadata.json.gz", ".gz.metadata.json")):
        return "gzip"
    if name.endswith(".metadata.json"):
        return "none"
    raise InvalidInput("not a metadata file's name: it must end in .metadata.json", where=location)


def codec_for(metadata: TableMetadata) -> Codec:
    """The codec that the table asks for with ``write.metadata.compression-codec``."""
    return "gzip" if METADATA_COMPRESSION.of(metadata.properties) == "gzip" else "none"


def suffix(codec: Codec) -> str:
    """The end of a metadata file's name, the same for every reader."""
    return ".gz.metadata.json" if codec == "gzip" else ".metadata.json"


def metastore_name(*, version: int, unique: str, codec: Codec) -> str:
    """Name of a metastore table's metadata file: ``00042-<unique>.metadata.json``."""
    return f"{version:05d}-{unique}{suffix(codec)}"


def numbered_name(*, version: int, codec: Codec) -> str:
    """Name of a file-system table's metadata file: ``v42.metadata.json``."""
    return f"v{version}{suffix(codec)}"


def version_of(location: str) -> int | None:
    """The version in a metadata file's name of either kind, None when it has none."""
    name = location.rsplit("/", 1)[-1]
    match = _NUMBERED.fullmatch(name) or _METASTORE.fullmatch(name)
    return int(match[1]) if match else None


def decode_metadata(data: bytes, *, location: str, bytes_max: int = METADATA_BYTES_MAX) -> TableMetadata:
    """Table metadata from a file's bytes, decompressed when they are gzip.

    Raises CorruptFile when the bytes cannot be what was written (cut, damaged, not JSON), InvalidMetadata or
    Unsupported naming file and member when they can be read but not used. `bytes_max` bounds the decompressed size.
    """
    return metadata_from_json(decompressed(data, location=location, bytes_max=bytes_max), where=location)


def decompressed(data: bytes, *, location: str, bytes_max: int) -> bytes:
    """A metadata file's text, decompressed when it is gzip, whatever the name says.

    Raises CorruptFile for a damaged stream and for a plain text under a gzip name, InvalidInput past `bytes_max`.
    """
    if data[:2] == _GZIP_MAGIC:
        data = _gunzip(data, location=location, bytes_max=bytes_max)
    elif codec_of(location) == "gzip":
        raise CorruptFile(location, "its name says gzip, its content is not")
    if len(data) > bytes_max:
        raise InvalidInput(f"{len(data)} bytes of metadata, the limit is {bytes_max} bytes", where=location)
    return data


def _gunzip(data: bytes, *, location: str, bytes_max: int) -> bytes:
    """Every member of the gzip stream, stopped at `bytes_max` before a bomb fills the memory."""
    parts: list[bytes] = []
    size = 0
    rest = data
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            while not member.eof:
                part = member.decompress(rest, _CHUNK_BYTES)
                rest = member.unconsumed_tail
                if not part and not rest and not member.eof:
                    raise CorruptFile(location, "the gzip stream ends early")
                size += len(part)
                if size > bytes_max:
                    raise InvalidInput(f"decompresses to more than the limit of {bytes_max} bytes", where=location)
                parts.append(part)
        except zlib.error as exc:
            raise CorruptFile(location, f"the gzip stream is damaged: {exc}") from None
        rest = member.unused_data
    return b"".join(parts)


def digest_of_bytes(data: bytes) -> str:
    """64 bits in hexadecimal: enough to notice damage, not to keep off an attacker."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def encode_metadata(metadata: TableMetadata, *, codec: Codec = "none") -> bytes:
    """The bytes of a metadata file. The codec must be the one that the file's name says."""
    return encode_with_digest(metadata, codec=codec)[0]


def encode_with_digest(metadata: TableMetadata, *, codec: Codec = "none") -> tuple[bytes, str]:
    """The bytes of a metadata file and their digest.

    What its commits append to a table's metadata is encoded and digested once, as long as nothing is taken away.
    """
    is_v1 = metadata.format_version == 1
    start = msgspec.json.encode(identifying_members(metadata))[:-1] + b',"snapshots":['
    texts = _grown(start, metadata.snapshots, lambda one: one.encoded_v1 if is_v1 else one.encoded)
    log = _grown(start + b"log", metadata.snapshot_log, msgspec.json.encode)
    rest = (
        b"],"
        + msgspec.json.encode(
            changing_members(
                metadata,
                schemas=_encoded_schemas(metadata.schemas),
                snapshot_log=msgspec.Raw(b"[" + log.text + b"]"),
            )
        )[1:]
    )
    data = b"".join((start, texts.text, rest))
    if codec != "none":
        data = compressed(data, codec=codec)
        return data, digest_of_bytes(data)
    digest = texts.digest.copy()
    digest.update(rest)
    return data, digest.hexdigest()


class _Grown(msgspec.Struct, frozen=True, eq=False):
    """The JSON texts of a tuple's items with commas between them, and the digest of what begins with them."""

    items: tuple[Any, ...]
    text: bytes
    digest: Any


_grown_last: Final[OrderedDict[bytes, _Grown]] = OrderedDict()
_grown_lock: Final = threading.Lock()


def _grown(start: bytes, items: tuple[Any, ...], encoded: Callable[[Any], Any]) -> _Grown:
    """The texts of `items`, from those of the tuple that had the same `start` before, if that had the first of them."""
    with _grown_lock:
        before = _grown_last.pop(start, None)
    if before is None or not before.items or items[: len(before.items)] != before.items:
        before = _Grown((), b"", hashlib.blake2b(start, digest_size=DIGEST_BYTES))
    more = b",".join([bytes(encoded(item)) for item in items[len(before.items) :]])
    if before.items and more:
        more = b"," + more
    digest = before.digest
    if more:
        digest = digest.copy()
        digest.update(more)
    grown = _Grown(items, before.text + more, digest)
    with _grown_lock:
        _grown_last[start] = grown
        while len(_grown_last) > 1 and sum(len(one.text) for one in _grown_last.values()) > TEXTS_BYTES_MAX:
            _grown_last.popitem(last=False)
    return grown


_schemas_encoded: Final[dict[int, tuple[tuple[Schema, ...], list[msgspec.Raw]]]] = {}


def _encoded_schemas(schemas: tuple[Schema, ...]) -> list[msgspec.Raw]:
    """The schemas' JSON texts; a table keeps the very same tuple until a schema changes."""
    known = _schemas_encoded.get(id(schemas))
    if known is not None and known[0] is schemas:
        return known[1]
    if len(_schemas_encoded) >= SCHEMAS_KEPT_MAX:
        _schemas_encoded.clear()
    encoded = [msgspec.Raw(msgspec.json.encode(schema_to_json(schema))) for schema in schemas]
    _schemas_encoded[id(schemas)] = (schemas, encoded)
    return encoded


def compressed(data: bytes, *, codec: Codec) -> bytes:
    """A metadata file's bytes. Without a time in the header, so that the same metadata is the same bytes."""
    return igzip.compress(data, compresslevel=GZIP_LEVEL, mtime=0) if codec == "gzip" else data
