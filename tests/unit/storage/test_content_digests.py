"""A digest is of one content and of no other, whichever kind it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.storage.content_digests import (
    begun_digest,
    digest_of_bytes,
    digest_of_parts,
    is_digest_of,
    is_of_parts,
)


def of_parts(parts: list[bytes]) -> str:
    return digest_of_parts([(len(part), begun_digest(part)) for part in parts])


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.binary(max_size=80))
def test_a_digest_of_parts_is_of_all_of_them_together(parts: list[bytes], other: bytes) -> None:
    data, digest = b"".join(parts), of_parts(parts)
    assert is_of_parts(digest)
    assert is_digest_of(data, digest)
    assert is_digest_of(other, digest) is (other == data)
    assert is_digest_of(other, digest_of_bytes(data)) is (other == data)


def test_bytes_that_are_moved_from_one_part_to_another_are_another_content() -> None:
    assert of_parts([b"ab", b"c"]) != of_parts([b"a", b"bc"])
    assert not is_digest_of(b"abc", of_parts([b"ab", b"c"]).replace("2+1", "1+2"))


@pytest.mark.parametrize("sizes", ["", "3+", "+3", "-1+4", "1.5", "3+x", "9" * 20, "+".join(["1"] * 17), "\u0663"])
def test_a_digest_that_makes_no_sense_is_of_nothing(sizes: str) -> None:
    assert not is_digest_of(b"abc", f"{sizes}:{of_parts([b'abc']).partition(':')[2]}")
