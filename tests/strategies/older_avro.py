"""Avro files as firns wrote them before their headers said that they are sealed; other writers' say nothing either."""

from __future__ import annotations

from firn.storage.avro import MAGIC, SEAL, SEAL_KEY, SYNC_BYTES, _encode_long, _seal, open_avro

_SAID = b"".join((_encode_long(len(SEAL_KEY)), SEAL_KEY.encode(), _encode_long(len(SEAL)), SEAL))


def unsealed(data: bytes) -> bytes:
    """The same file without the word in its header. Its sync marker is a digest all the same."""
    file = open_avro(data, location="memory://sealed.avro")
    count = len(MAGIC)
    assert data[count : count + 1] == _encode_long(len(file.metadata))
    header = MAGIC + _encode_long(len(file.metadata) - 1) + data[count + 1 : file.header_bytes].replace(_SAID, b"")
    bodies = [
        (_encode_long(block.count) + _encode_long(block.end - block.start), data[block.start : block.end])
        for block in file.blocks
    ]
    sync = _seal(header, bodies)
    assert len(sync) == SYNC_BYTES
    return b"".join((header, sync, *(prefix + content + sync for prefix, content in bodies)))
