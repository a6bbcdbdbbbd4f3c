"""Avro files as firns wrote them before their headers said that they are sealed; other writers' say nothing either."""

from __future__ import annotations

from hashlib import blake2b

from firn.storage.avro import MAGIC, SEAL, SEAL_KEY, SYNC_BYTES, Header, open_avro, write_blocks
from firn.storage.avro_numbers import encode_long

_SAID = b"".join((encode_long(len(SEAL_KEY)), SEAL_KEY.encode(), encode_long(len(SEAL)), SEAL))


def unsealed(data: bytes) -> bytes:
    """The same file without the word in its header. Its sync marker is a digest all the same."""
    file = open_avro(data, location="memory://sealed.avro")
    count = len(MAGIC)
    assert data[count : count + 1] == encode_long(len(file.metadata))
    header = MAGIC + encode_long(len(file.metadata) - 1) + data[count + 1 : file.header_bytes].replace(_SAID, b"")
    blocks = [(block.count, data[block.start : block.end]) for block in file.blocks]
    return write_blocks(Header(header, blake2b(header, digest_size=SYNC_BYTES)), blocks)
