"""Numbers that are taken fourteen bits at a time are the bytes that seven bits at a time make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.storage.avro_numbers import LONG_MAX, LONG_MIN, LONGS, encode_long

EDGES = [sign * (1 << bits) + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)]


def by_sevens(value):
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest >= 0x80:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes((*out, rest))


@pytest.mark.parametrize("value", [0, LONG_MIN, LONG_MAX, *EDGES])
def test_every_size_of_number(value):
    assert encode_long(value) == LONGS[value] == by_sevens(value)


@given(st.integers(LONG_MIN, LONG_MAX))
def test_any_number(value):
    assert encode_long(value) == LONGS[value] == by_sevens(value)


@pytest.mark.parametrize("value", [LONG_MIN - 1, LONG_MAX + 1])
def test_a_number_that_takes_more_is_refused(value):
    with pytest.raises(InvalidInput):
        encode_long(value)
