"""Puffin files: statistics and deletion vectors beside a table's data (Puffin specification).

Everything works on bytes, so that the caller decides how a range is fetched: the footer from the end of the file
(`footer_range`, `read_footer`), then only the blobs that are wanted (`decode_blob`). `PuffinFile` does all of it for a
file that is in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from struct import Struct
from typing import Final

import lz4.frame
import msgspec
import zstandard

from firn.model import strict_json
from firn.model.deletion_vector import CARDINALITY, REFERENCED_DATA_FILE, DeletionVector, from_blob
from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.puffin import (
    CODECS,
    DELETION_VECTOR,
    NOT_KNOWN,
    BlobMetadata,
    PuffinMetadata,
    puffin_metadata_from_json,
    puffin_metadata_to_json,
)
from firn.model.reserved import POS_ID

MAGIC: Final = b"PFA1"

FOOTER_TAIL_BYTES: Final = 12
"""The fixed end of every file: payload size, flags and magic."""

FOOTER_PAYLOAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest footer payload, in bytes, stored or decompressed, that is read or written."""

BLOB_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest blob, in bytes once decompressed, that is read or written."""

_FLAG_PAYLOAD_COMPRESSED: Final = 0x01
_TAIL: Final = Struct("<iI4s")
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """One blob to write: `data` uncompressed, `compression` the codec to store it with (``lz4``, ``zstd`` or None)."""

    type: str
    fields: tuple[int, ...]
    data: bytes
    snapshot_id: int
    sequence_number: int
    compression: str | None = None
    properties: dict[str, str] = {}


def deletion_vector_blob(vector: DeletionVector, *, data_file: str) -> Blob:
    """The blob that holds `vector` for the data file at location `data_file`."""
    return Blob(
        type=DELETION_VECTOR,
        fields=(POS_ID,),
        data=vector.to_blob(),
        snapshot_id=NOT_KNOWN,
        sequence_number=NOT_KNOWN,
        properties=vector.blob_properties(data_file),
    )


def encode_puffin(
    blobs: Iterable[Blob], *, properties: Mapping[str, str] | None = None, compress_footer: bool = False
) -> tuple[bytes, PuffinMetadata]:
    """A whole Puffin file, and its footer as written (offsets and lengths are needed for manifest entries).

    The footer is left uncompressed unless asked for: the Java library cannot read a compressed one. Raises
    InvalidInput for an unknown codec, a compressed deletion vector, or sizes past the limits.
    """
    parts = [MAGIC]
    written: list[BlobMetadata] = []
    at = len(MAGIC)
    for blob in blobs:
        if blob.type == DELETION_VECTOR and blob.compression is not None:
            raise InvalidInput("a deletion vector is not compressed", where=f"blobs[{len(written)}].compression")
        stored = _compress(blob.data, codec=blob.compression, where=f"blobs[{len(written)}]")
        written.append(
            BlobMetadata(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                offset=at,
                length=len(stored),
                compression_codec=blob.compression,
                properties=blob.properties,
            )
        )
        parts.append(stored)
        at += len(stored)
    metadata = PuffinMetadata(blobs=tuple(written), properties=dict(properties or {}))
    payload = msgspec.json.encode(puffin_metadata_to_json(metadata))
    if len(payload) > FOOTER_PAYLOAD_BYTES_MAX:
        raise InvalidInput(f"a footer of {len(payload)} bytes is larger than {FOOTER_PAYLOAD_BYTES_MAX}")
    if compress_footer:
        payload = _compress(payload, codec="lz4", where="footer")
    flags = _FLAG_PAYLOAD_COMPRESSED if compress_footer else 0
    parts += (MAGIC, payload, _TAIL.pack(len(payload), flags, MAGIC))
    return b"".join(parts), metadata


def footer_range(tail: bytes, *, file_size: int, location: str) -> tuple[int, int]:
    """First byte and length of the footer, from the last bytes of the file (at least FOOTER_TAIL_BYTES of them).

    Raises CorruptFile for a wrong magic or a size that cannot be.
    """
    if file_size < len(MAGIC) * 2 + FOOTER_TAIL_BYTES or len(tail) < FOOTER_TAIL_BYTES:
        raise CorruptFile(location, f"{file_size} bytes are too few for a Puffin file")
    payload_size, _, magic = _TAIL.unpack_from(tail, len(tail) - FOOTER_TAIL_BYTES)
    if magic != MAGIC:
        raise CorruptFile(location, f"Puffin footer ends in {magic.hex()}, expected magic {MAGIC.hex()}")
    size = len(MAGIC) + payload_size + FOOTER_TAIL_BYTES
    if not 0 <= payload_size <= FOOTER_PAYLOAD_BYTES_MAX or size > file_size - len(MAGIC):
        raise CorruptFile(location, f"invalid Puffin footer payload size {payload_size} in a file of {file_size} bytes")
    return file_size - size, size


def read_footer(footer: bytes, *, file_size: int, location: str) -> PuffinMetadata:
    """The metadata in a whole footer, which is the last ``len(footer)`` bytes of a file of `file_size` bytes.

    Raises CorruptFile for wrong magics, sizes, flags, JSON or blob ranges.
    """
    start, size = footer_range(footer, file_size=file_size, location=location)
    if footer[: len(MAGIC)] != MAGIC:
        raise CorruptFile(
            location, f"expected magic at the start of the footer, {len(footer)} bytes long, got {footer[:4].hex()}"
        )
    if size != len(footer):
        raise CorruptFile(location, f"Puffin footer payload size does not match a footer of {len(footer)} bytes")
    _, flags, _ = _TAIL.unpack_from(footer, len(footer) - FOOTER_TAIL_BYTES)
    if flags & ~_FLAG_PAYLOAD_COMPRESSED:
        raise CorruptFile(location, f"unknown Puffin footer flags 0x{flags:08x}")
    payload = footer[len(MAGIC) : -FOOTER_TAIL_BYTES]
    if flags & _FLAG_PAYLOAD_COMPRESSED:
        payload = _decompress(payload, codec="lz4", limit=FOOTER_PAYLOAD_BYTES_MAX, location=location)
    metadata = _parse_payload(payload, location=location)
    _check_ranges(metadata, footer_start=start, location=location)
    return metadata


def decode_blob(metadata: BlobMetadata, stored: bytes, *, location: str) -> bytes:
    """The uncompressed content of a blob from its stored bytes.

    Raises CorruptFile if they are not what `metadata` says, Unsupported for an unknown codec.
    """
    if len(stored) != metadata.length:
        raise CorruptFile(location, f"read {len(stored)} bytes of a blob of {metadata.length}")
    if metadata.compression_codec is None:
        return stored
    return _decompress(stored, codec=metadata.compression_codec, limit=BLOB_BYTES_MAX, location=location)


class PuffinFile(msgspec.Struct, frozen=True):
    """A Puffin file in memory."""

    location: str
    data: bytes
    metadata: PuffinMetadata

    @classmethod
    def parse(cls, data: bytes, *, location: str) -> PuffinFile:
        """Check and open a whole file; CorruptFile as in `read_footer`."""
        if data[: len(MAGIC)] != MAGIC:
            raise CorruptFile(location, f"expected Puffin magic at the start, got {data[:4].hex()}")
        start, _ = footer_range(data[-FOOTER_TAIL_BYTES:], file_size=len(data), location=location)
        metadata = read_footer(data[start:], file_size=len(data), location=location)
        return cls(location, data, metadata)

    def read(self, blob: BlobMetadata) -> bytes:
        """The uncompressed content of one of `metadata.blobs`."""
        return decode_blob(blob, self.data[blob.offset : blob.end], location=self.location)

    def deletion_vectors(self) -> dict[str, DeletionVector]:
        """Every deletion vector by the location of its data file; CorruptFile if a required property is missing."""
        vectors: dict[str, DeletionVector] = {}
        for blob in self.metadata.blobs:
            if blob.type != DELETION_VECTOR:
                continue
            data_file, cardinality = _deletion_vector_properties(blob, location=self.location)
            if data_file in vectors:
                raise CorruptFile(self.location, f"two deletion vectors for {data_file}")
            vectors[data_file] = from_blob(self.read(blob), location=self.location, cardinality=cardinality)
        return vectors


def _deletion_vector_properties(blob: BlobMetadata, *, location: str) -> tuple[str, int]:
    if blob.compression_codec is not None:
        raise CorruptFile(location, f"deletion vector at offset {blob.offset} states a compression codec")
    data_file = blob.properties.get(REFERENCED_DATA_FILE)
    cardinality = blob.properties.get(CARDINALITY, "")
    if not data_file:
        raise CorruptFile(location, f"deletion vector at offset {blob.offset} has no {REFERENCED_DATA_FILE}")
    if not (cardinality.isascii() and cardinality.isdigit() and len(cardinality) <= 19):
        raise CorruptFile(location, f"deletion vector at offset {blob.offset} has no valid {CARDINALITY}")
    return data_file, int(cardinality)


def _parse_payload(payload: bytes, *, location: str) -> PuffinMetadata:
    try:
        return puffin_metadata_from_json(
            strict_json.loads(payload, where="footer", bytes_max=FOOTER_PAYLOAD_BYTES_MAX), where="footer"
        )
    except InvalidInput as refusal:
        raise CorruptFile(location, f"Puffin {refusal}") from refusal


def _check_ranges(metadata: PuffinMetadata, *, footer_start: int, location: str) -> None:
    """Blobs lie between the first magic and the footer, and no byte belongs to two of them."""
    for blob in metadata.blobs:
        if blob.offset < len(MAGIC) or blob.end > footer_start:
            raise CorruptFile(
                location, f"blob at offset {blob.offset}, {blob.length} bytes, is outside {len(MAGIC)}..{footer_start}"
            )
    ordered = sorted(metadata.blobs, key=lambda blob: (blob.offset, blob.end))
    for blob, following in pairwise(ordered):
        if following.offset < blob.end:
            raise CorruptFile(location, f"blobs at offsets {blob.offset} and {following.offset} overlap")


def _compress(data: bytes, *, codec: str | None, where: str) -> bytes:
    if len(data) > BLOB_BYTES_MAX:
        raise InvalidInput(f"{len(data)} bytes are more than {BLOB_BYTES_MAX}", where=where)
    if codec is None:
        return data
    if codec == "lz4":
        return bytes(lz4.frame.compress(data, store_size=True))
    if codec == "zstd":
        return zstandard.ZstdCompressor(write_content_size=True).compress(data)
    raise InvalidInput(f"unknown compression codec {codec!r}, expected one of {sorted(CODECS)}", where=where)


def _decompress(data: bytes, *, codec: str, limit: int, location: str) -> bytes:
    """Decompress one frame that states its content size, at most `limit` bytes of it."""
    if codec not in CODECS:
        raise Unsupported(f"unknown compression codec {codec!r} in {location}")
    try:
        size = _lz4_content_size(data) if codec == "lz4" else zstandard.frame_content_size(data)
    except (RuntimeError, IndexError, zstandard.ZstdError) as refusal:
        raise CorruptFile(location, f"not a {codec} frame: {refusal}") from refusal
    if size < 0:
        raise CorruptFile(location, f"{codec} frame without content size")
    if size > limit:
        raise CorruptFile(location, f"{codec} frame of {size} bytes decompressed is larger than {limit}")
    try:
        content = _lz4_decompress(data, size=size) if codec == "lz4" else _zstd_decompress(data, size=size)
    except (RuntimeError, zstandard.ZstdError, EOFError) as refusal:
        raise CorruptFile(location, f"{codec} frame does not decompress: {refusal}") from refusal
    if len(content) != size:
        raise CorruptFile(location, f"{codec} frame holds {len(content)} bytes, states {size}")
    return content


def _lz4_content_size(frame: bytes) -> int:
    """Bytes that the frame says it holds, -1 if it does not say.

    The LZ4 library cannot state a size of 0, so a frame with nothing in it need not state any.
    """
    if frame[4] & _LZ4_CONTENT_SIZE_FLAG:
        return int(lz4.frame.get_frame_info(frame)["content_size"])
    return -1 if lz4.frame.LZ4FrameDecompressor().decompress(frame, max_length=1) else 0


def _lz4_decompress(frame: bytes, *, size: int) -> bytes:
    decompressor = lz4.frame.LZ4FrameDecompressor()
    content = bytes(decompressor.decompress(frame, max_length=size + 1))
    if not decompressor.eof or decompressor.unused_data:
        raise RuntimeError("it is cut short, or bytes follow it")
    return content


def _zstd_decompress(frame: bytes, *, size: int) -> bytes:
    if size == 0:  # the library takes a size of 0 for "empty" without looking at the rest
        parameters = zstandard.get_frame_parameters(frame)
        checksum = 4 if parameters.has_checksum else 0
        if len(frame) != zstandard.frame_header_size(frame) + 3 + checksum:
            raise RuntimeError("an empty frame has bytes left over")
    decompressor = zstandard.ZstdDecompressor()
    return decompressor.decompress(frame, max_output_size=size, allow_extra_data=False)
