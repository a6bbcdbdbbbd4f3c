"""A text that grows is compressed once, and every file of it is one gzip member that any reader inflates."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest

from firn.storage.content_digests import is_digest_of
from firn.storage.deflated_text import PENDING_BYTES_MAX, STRETCH_BYTES_MIN, DeflatedText


def line(number: int, rng: random.Random) -> bytes:
    return b'{"snapshot-id":%d,"manifest-list":"s3://b/t/snap-%016x.avro"},' % (number, rng.getrandbits(64))


def whole(data: bytes) -> bytes:
    """The text, by a reader that knows one member only."""
    inflate = zlib.decompressobj(wbits=31)
    text = inflate.decompress(data)
    assert inflate.eof
    assert not inflate.unused_data
    assert gzip.decompress(data) == text
    return text


@pytest.mark.parametrize("first", [1, 3_000])
@pytest.mark.parametrize("end", [b"", b"]}", b"x" * 100_000])
def test_each_file_holds_the_text_so_far_and_its_end(first, end):
    rng = random.Random(first)
    text = b"".join(line(n, rng) for n in range(first))
    deflated = DeflatedText((1,), text)
    for step in range(40):
        more = b"".join(line(n, rng) for n in range(rng.choice([0, 1, 1, 30, 400])))
        deflated.append((1, step), more)
        text += more
        content, digest = deflated.followed_by(end)
        data = bytes(content)
        assert len(content) == len(data)
        assert whole(data) == text + end
        assert is_digest_of(data, digest)
        assert not is_digest_of(data[:-1] + bytes([data[-1] ^ 1]), digest)


def test_a_file_begins_with_the_very_bytes_of_the_one_before():
    rng = random.Random(7)
    deflated = DeflatedText((), b"".join(line(n, rng) for n in range(3_000)))
    before, _ = deflated.followed_by(b"end")
    written = 0
    for n in range(400):
        deflated.append((), line(n, rng))
        now, _ = deflated.followed_by(b"end")
        (known,) = now.continued(before.stretches)
        assert bytes(now)[: known.end] == bytes(before)[: known.end]
        written = max(written, sum(len(piece) for _, some in now.rest((known,)) for piece in some))
        before = now
    assert STRETCH_BYTES_MIN < known.end < len(now)
    assert written < PENDING_BYTES_MAX


def test_a_short_one_is_written_whole():
    content, _ = DeflatedText((), b"short").followed_by(b"end")
    assert content.stretches == ()
