"""Metadata files as bytes: their names, compression and limits (table specification, Appendix C and F)."""

from __future__ import annotations

import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from operator import attrgetter
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec
from isal import igzip

from firn.model.by_identity import ByIdentity
from firn.model.errors import CorruptFile, InvalidInput, TooLarge, Unsupported
from firn.model.long_tuples import continues
from firn.model.metadata import TableMetadata
from firn.model.metadata_json import METADATA_BYTES_MAX, changing_members, identifying_members, metadata_from_json
from firn.model.partitioning import spec_to_json
from firn.model.schema import schema_to_json
from firn.model.snapshot import Snapshot
from firn.model.sorting import order_to_json
from firn.model.strict_json import JSON_VALUES_MAX, loads
from firn.model.table_properties import METADATA_COMPRESSION
from firn.storage.content_digests import begun_digest, digest_of_bytes, digest_of_parts
from firn.storage.deflated_text import DeflatedText
from firn.storage.grown_content import Content, GrowingText, GrownContent, Stretch

Codec = Literal["none", "gzip"]

GZIP_LEVEL: Final = 1
"""ISA-L's, which takes a fraction of zlib's time."""

TABLES_KEPT_MAX: Final = 1_000
"""Tables the texts of whose schemas, specs and sort orders are kept."""

TEXTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of tables' snapshots and logs that are kept encoded, of all tables."""

GROWN_BYTES_MIN: Final = 128 * 1024
"""Bytes of snapshots from which on the next metadata file goes on from the last one."""

DEFLATED_BYTES_MIN: Final = 64 * 1024
"""Bytes of snapshots from which on they are compressed once, where the table asks for that: some 80 snapshots."""

LOG_PART_BYTES_MIN: Final = 4 * 1024
"""Bytes of the snapshots' log from which on it is a part of its own for the file's digest: some 50 snapshots."""

LOG_BYTES_MIN: Final = 32 * 1024
"""And from which on it keeps its place in the file: some 450 snapshots."""

LOG_ROOM_BYTES: Final = 32 * 1024
"""Room before a long log, for the snapshots of some fifty commits: so many do not move it."""

PIECE_BYTES_MAX: Final = 64 * 1024
"""Bytes of a piece up to which what follows is joined to it."""

GZIP_MEMBERS_MAX: Final = 1_000
"""Members of a gzip stream that are read; each may be empty, and costs more than its bytes."""

LARGE_BYTES: Final = 8 * 1024 * 1024
LARGE_AT_ONCE: Final = 1
"""Metadata texts of that size are decoded one at a time: each takes some ten times its size while it is."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_OTHER_CODECS: Final = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
}
_CHUNK_BYTES: Final = 1024 * 1024
_large: Final = threading.BoundedSemaphore(LARGE_AT_ONCE)
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
    """Return the codec of ``write.metadata.compression-codec``; uncompressed where the stored value is unusable."""
    return "gzip" if METADATA_COMPRESSION.sane(metadata.properties) == "gzip" else "none"


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


def decode_metadata(
    data: bytes, *, location: str, bytes_max: int = METADATA_BYTES_MAX, values_max: int = JSON_VALUES_MAX
) -> TableMetadata:
    """Table metadata from a file's bytes, decompressed when they are gzip.

    Raises CorruptFile when the bytes cannot be what was written (cut, damaged, not JSON), TooLarge for more than
    `bytes_max` bytes decompressed or `values_max` JSON values, InvalidMetadata or Unsupported naming file and member
    when they can be read but not used.
    """
    with decoded_json(data, location=location, bytes_max=bytes_max, values_max=values_max) as obj:
        return metadata_from_json(obj, where=location)


@contextmanager
def decoded_json(data: bytes, *, location: str, bytes_max: int, values_max: int) -> Iterator[Any]:
    """The JSON in a metadata file's bytes, within both limits; a large one while no other is in use.

    Raises as `decode_metadata`.
    """
    is_large = False
    try:
        text = decompressed(data, location=location, bytes_max=min(bytes_max, LARGE_BYTES))
    except TooLarge:
        is_large = True
    with _large if is_large else nullcontext():
        if is_large:
            text = decompressed(data, location=location, bytes_max=bytes_max)
        yield loads(text, where=location, bytes_max=bytes_max, values_max=values_max)


def decompressed(data: bytes, *, location: str, bytes_max: int) -> bytes:
    """A metadata file's text, decompressed when it is gzip, whatever the name says.

    Raises CorruptFile for a damaged stream and for a plain text under a gzip name, Unsupported for another codec,
    TooLarge past `bytes_max`.
    """
    for magic, codec in _OTHER_CODECS.items():
        if data.startswith(magic):
            raise Unsupported(
                f"metadata compressed with {codec}, which no Iceberg specification has", where=location,
                hint="write it with write.metadata.compression-codec none or gzip",
            )  # fmt: skip
    if data[:2] == _GZIP_MAGIC:
        data = _gunzip(data, location=location, bytes_max=bytes_max)
    elif codec_of(location) == "gzip":
        raise CorruptFile(location, "its name says gzip, its content is not")
    if len(data) > bytes_max:
        raise TooLarge(f"{len(data)} bytes of metadata, the limit is {bytes_max} bytes", where=location)
    return data


def _gunzip(data: bytes, *, location: str, bytes_max: int) -> bytes:
    """Every member of the gzip stream, stopped at `bytes_max` before a bomb fills the memory."""
    parts: list[bytes] = []
    size = members = 0
    rest = data
    while rest:
        members += 1
        if members > GZIP_MEMBERS_MAX:
            raise TooLarge(f"more than {GZIP_MEMBERS_MAX} gzip members", where=location)
        member = zlib.decompressobj(wbits=31)
        try:
            while not member.eof:
                part = member.decompress(rest, _CHUNK_BYTES)
                rest = member.unconsumed_tail
                if not part and not rest and not member.eof:
                    raise CorruptFile(location, "the gzip stream ends early")
                size += len(part)
                if size > bytes_max:
                    raise TooLarge(f"decompresses to more than the limit of {bytes_max} bytes", where=location)
                parts.append(part)
        except zlib.error as exc:
            raise CorruptFile(location, f"the gzip stream is damaged: {exc}") from None
        rest = member.unused_data
    return b"".join(parts)


def encode_metadata(metadata: TableMetadata, *, codec: Codec = "none") -> bytes:
    """The bytes of a metadata file. The codec must be the one that the file's name says."""
    return bytes(encode_with_digest(metadata, codec=codec)[0])


def encode_with_digest(metadata: TableMetadata, *, codec: Codec = "none") -> tuple[Content, str]:
    """What a metadata file holds, and its digest, of whichever kind (`firn.storage.content_digests`).

    What its commits append to a table's metadata is encoded and digested once, as long as nothing is taken away.
    """
    is_v1 = metadata.format_version == 1
    start = _start_of(metadata)
    log = _grown(b"", metadata.snapshot_log, msgspec.json.encode, key=start)
    changing = msgspec.json.encode(
        changing_members(
            metadata,
            schemas=_schemas(metadata.schemas),
            partition_specs=_specs(metadata.partition_specs),
            sort_orders=_orders(metadata.sort_orders),
            metadata_log=metadata.metadata_log,
        )
    )
    between, end = b"]," + changing[1:-1] + b',"snapshot-log":[', b"]}"
    encoded = attrgetter("encoded_v1" if is_v1 else "encoded")
    if codec == "gzip":
        return _gzipped(start, metadata.snapshots, encoded, b"".join((between, *log.pieces, end)))
    snapshots = _grown(start, metadata.snapshots, encoded)
    if log.size >= LOG_BYTES_MIN:
        return _with_long_log(snapshots, between, log, end, start=start)
    behind = (between, *log.pieces, end)
    if log.size >= LOG_PART_BYTES_MIN:
        digest = _digest_of_parts(snapshots, between, log, end)
    else:
        digest = _digest_of(behind, behind=snapshots).hexdigest()
    is_long = snapshots.size >= GROWN_BYTES_MIN
    stretches = (Stretch(snapshots.text, 0, snapshots.size),) if is_long else ()
    return GrownContent(stretches, (*snapshots.pieces, *behind)), digest


def _gzipped(
    start: bytes, items: Sequence[Snapshot], encoded: Callable[[Any], bytes], behind: bytes
) -> tuple[Content, str]:
    """The content of a compressed file. Of many snapshots those that the last file had stay compressed."""
    before = _deflated_last.pop((start, b""))
    if before is not None and continues(items, before.items):
        more = b"".join([b"," + encoded(item) for item in items[len(before.items) :]])
        before.append(items, more)
        deflated = before
    else:
        snapshots = _grown(start, items, encoded)
        if snapshots.size < DEFLATED_BYTES_MIN:
            data = compressed(b"".join((*snapshots.pieces, behind)), codec="gzip")
            return data, digest_of_bytes(data)
        deflated = DeflatedText(items, b"".join(snapshots.pieces))
        _grown_last.pop((start, b""))
    _deflated_last.put((start, b""), deflated)
    return deflated.followed_by(behind)


def _with_long_log(snapshots: _Grown, between: bytes, log: _Grown, end: bytes, *, start: bytes) -> tuple[Content, str]:
    """The content of a file whose log stays where it was in the last one, as long as there is room before it.

    Spaces fill the room.
    """
    needed = snapshots.size + len(between)
    if not needed <= log.place <= needed + LOG_ROOM_BYTES:
        log = msgspec.structs.replace(log, place=needed + LOG_ROOM_BYTES)
        _grown_last.put((b"", start), log)
    room = between + b" " * (log.place - needed)
    digest = _digest_of_parts(snapshots, room, log, end)
    stretches = (Stretch(snapshots.text, 0, snapshots.size), Stretch(log.text, log.place, log.size))
    return GrownContent(stretches, (*snapshots.pieces, room, *log.pieces, end), log.place - needed), digest


def _digest_of_parts(snapshots: _Grown, between: bytes, log: _Grown, end: bytes) -> str:
    """The digest of a file by its parts: of both texts only what is new is digested."""
    return digest_of_parts(
        [
            (snapshots.size, snapshots.digest),
            (len(between), begun_digest(between)),
            (log.size + len(end), _digest_of((end,), behind=log)),
        ]
    )


def is_kept_encoded(metadata: TableMetadata) -> bool:
    """Whether texts of the table's snapshots and log are kept, from the last time that it was encoded."""
    key = (_start_of(metadata), b"")
    return _grown_last.has(key) or _deflated_last.has(key)


def forget_texts(metadata: TableMetadata) -> None:
    """Let go of the table's texts, and of the snapshots that they are of: the table itself is let go of."""
    start = _start_of(metadata)
    _grown_last.pop((start, b""))
    _grown_last.pop((b"", start))
    _deflated_last.pop((start, b""))


def _start_of(metadata: TableMetadata) -> bytes:
    return msgspec.json.encode(identifying_members(metadata))[:-1] + b',"snapshots":['


class _Grown(msgspec.Struct, frozen=True, eq=False):
    """What begins with `start`, then the JSON texts of a tuple's items with commas between them: in pieces, with their
    digest.
    """

    items: Sequence[Any]
    pieces: tuple[bytes, ...]
    size: int
    digest: Any
    text: GrowingText
    place: int = 0
    """Where it begins in the last file."""


class _Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes."""
        ...


T = TypeVar("T", bound=_Sized)


class _GrownLast(Generic[T]):
    """What has grown last, by its start and key: of all tables, within `TEXTS_BYTES_MAX`."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, bytes], T] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def has(self, key: tuple[bytes, bytes]) -> bool:
        """Whether there is one."""
        return key in self._kept

    def pop(self, key: tuple[bytes, bytes]) -> T | None:
        """Take one out."""
        with self._lock:
            return self._pop(key)

    def put(self, key: tuple[bytes, bytes], grown: T) -> None:
        """Keep one; those that were kept longest go when there is too much."""
        with self._lock:
            self._pop(key)
            self._kept[key] = grown
            self._size += grown.size
            while len(self._kept) > 1 and self._size > TEXTS_BYTES_MAX:
                self._pop(next(iter(self._kept)))

    def _pop(self, key: tuple[bytes, bytes]) -> T | None:
        found = self._kept.pop(key, None)
        self._size -= 0 if found is None else found.size
        return found


_grown_last: Final = _GrownLast[_Grown]()
_deflated_last: Final = _GrownLast[DeflatedText]()


def _grown(start: bytes, items: Sequence[Any], encoded: Callable[[Any], Any], *, key: bytes = b"") -> _Grown:
    """`start` and the texts of `items`, from those that had the same start (and key) before, if they were the first."""
    before = _grown_last.pop((start, key))
    if before is None or not continues(items, before.items):
        before = _Grown((), (start,), len(start), begun_digest(start), GrowingText())
    grown = before
    more = b",".join([bytes(encoded(item)) for item in items[len(before.items) :]])
    if more:
        grown = _appended(before, items, b"," + more if before.items else more)
    _grown_last.put((start, key), grown)
    return grown


def _digest_of(pieces: Iterable[bytes], *, behind: _Grown) -> Any:
    digest = behind.digest.copy()
    for piece in pieces:
        digest.update(piece)
    return digest


def _appended(before: _Grown, items: Sequence[Any], more: bytes) -> _Grown:
    *pieces, last = before.pieces
    pieces += (last + more,) if len(last) + len(more) <= PIECE_BYTES_MAX else (last, more)
    return msgspec.structs.replace(
        before,
        items=items,
        pieces=tuple(pieces),
        size=before.size + len(more),
        digest=_digest_of((more,), behind=before),
    )


def _texts(to_json: Callable[[Any], Any]) -> ByIdentity[list[msgspec.Raw]]:
    """The JSON texts of a tuple's items; a table keeps the very same tuple until one of them changes."""

    def encoded(items: tuple[Any, ...]) -> list[msgspec.Raw]:
        return [msgspec.Raw(msgspec.json.encode(to_json(item))) for item in items]

    return ByIdentity(encoded, kept_max=TABLES_KEPT_MAX)


_schemas: Final = _texts(schema_to_json)
_specs: Final = _texts(spec_to_json)
_orders: Final = _texts(order_to_json)


def compressed(data: bytes, *, codec: Codec) -> bytes:
    """A metadata file's bytes. Without a time in the header, so that the same metadata is the same bytes."""
    return igzip.compress(data, compresslevel=GZIP_LEVEL, mtime=0) if codec == "gzip" else data
