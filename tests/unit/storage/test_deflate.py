"""What is stored without being compressed is deflated data to every reader."""

import random
import zlib

import pytest
from isal import isal_zlib

from firn.storage.deflate import STORED_BYTES_MAX, behind_stored, stored_blocks

SIZES = (0, 1, 255, 256, STORED_BYTES_MAX - 1, STORED_BYTES_MAX, STORED_BYTES_MAX + 1, 3 * STORED_BYTES_MAX + 7)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("library", [zlib, isal_zlib])
def test_it_inflates_to_what_it_was_made_of_and_ends_there(size, library):
    content = random.Random(size).randbytes(size)
    deflated = stored_blocks(content)
    inflater = library.decompressobj(-zlib.MAX_WBITS)
    assert (inflater.decompress(deflated), inflater.eof, inflater.unused_data) == (content, True, b"")
    assert len(deflated) == size + 5 * max(1, -(-size // STORED_BYTES_MAX))


@pytest.mark.parametrize("size", [0, 1, 1_000, 16 * 1024])
def test_a_small_block_is_the_very_bytes_that_zlib_makes(size):
    content = random.Random(size).randbytes(size)
    assert stored_blocks(content) == zlib.compress(content, 0, -zlib.MAX_WBITS)


@pytest.mark.parametrize("library", [zlib, isal_zlib])
@pytest.mark.parametrize("level", [0, 1, 3])
def test_what_comes_before_deflated_data_is_one_stream_with_it(library, level):
    before, content = b"some of it, some of it", b"and the rest of it, the rest of it " * 50
    deflated = behind_stored(b"first", behind_stored(before, isal_zlib.compress(content, level, -zlib.MAX_WBITS)))
    inflater = library.decompressobj(-zlib.MAX_WBITS)
    assert (inflater.decompress(deflated), inflater.eof) == (b"first" + before + content, True)
