from __future__ import annotations

import datasketches
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.types import INT, LONG, STRING
from firn.storage import theta
from firn.storage.puffin import PuffinFile, encode_puffin
from firn.storage.theta import ThetaSketch, sketch_blob, sketch_from_bytes, sketch_of


def theirs(values):
    sketch = datasketches.update_theta_sketch(12)
    for value in values:
        sketch.update(value)
    if len(set(values)) > 4096:
        sketch.trim()
    return sketch.compact()


def as_of_cpp(data: bytes) -> bytes:
    """What the library for Java writes and that for C++ does not: flags of few values, the sampling probability."""
    if len(data) <= 16:
        flags = data[5] & 0x1E
        return data[:5] + bytes([flags]) + (b"\xcc\x93" if flags & 4 else data[6:8]) + data[8:]
    assert data[12:16] == b"\x00\x00\x80\x3f"
    return data[:12] + b"\x00" * 4 + data[16:]


@pytest.mark.parametrize("count", [0, 1, 2, 100, 4096, 4097, 30_000])
@pytest.mark.parametrize("type", [LONG, STRING], ids=str)
def test_the_bytes_are_those_of_the_library(count, type):
    values = [number if type == LONG else f"v{number}" for number in range(count)]
    ours, expected = sketch_of(values, type), theirs(values)
    if count > 4096:
        # which hashes a full sketch keeps depends on when it was trimmed; both are sketches of the same values
        assert ours.estimate == pytest.approx(count, rel=0.04)
        library = sketch_from_bytes(expected.serialize(), location="s")
        low = min(ours.theta, library.theta)
        assert [h for h in ours.hashes if h < low] == [h for h in library.hashes if h < low]
    else:
        assert as_of_cpp(ours.to_bytes()) == expected.serialize()
        assert ours.estimate == count
    read = datasketches.compact_theta_sketch.deserialize(ours.to_bytes())
    assert read.get_estimate() == pytest.approx(ours.estimate)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 50)))
def test_a_union_is_the_sketch_of_both(left, right):
    both = sketch_of(left, LONG).union(sketch_of(right, LONG))
    assert both == sketch_of(left + right, LONG)
    assert sketch_from_bytes(both.to_bytes(), location="s") == both


def test_full_sketches_unite():
    union = sketch_of(range(20_000), LONG).union(sketch_of(range(10_000, 30_000), LONG), sketch_of([], LONG))
    assert len(union.hashes) <= theta.NOMINAL_ENTRIES
    assert union.estimate == pytest.approx(30_000, rel=0.04)


def test_nulls_and_repeats_do_not_count():
    assert sketch_of([1, None, 1, 2], INT).estimate == 2


def test_empty_values_are_left_out_as_the_library_does():
    assert sketch_of(["", "a", ""], STRING) == sketch_of(["a"], STRING)
    assert sketch_of([""], STRING).to_bytes().hex() == "01030300001e0000"


def test_a_blob_carries_the_number_of_distinct_values():
    blob = sketch_blob(sketch_of(range(100), LONG), field_id=3, snapshot_id=5, sequence_number=2)
    data, metadata = encode_puffin([blob])
    (written,) = metadata.blobs
    assert (written.type, written.fields, written.properties) == ("apache-datasketches-theta-v1", (3,), {"ndv": "100"})
    sketch = sketch_from_bytes(PuffinFile.parse(data, location="f").read(written), location="f")
    assert sketch == sketch_of(range(100), LONG)
    with pytest.raises(InvalidInput):
        sketch_blob(sketch, field_id=3, snapshot_id=-1, sequence_number=2)


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_no_bytes_crash_the_reader(data):
    try:
        sketch = sketch_from_bytes(data, location="s")
    except (CorruptFile, Unsupported):
        return
    assert isinstance(sketch, ThetaSketch)


WHOLE = sketch_of(range(10), LONG).to_bytes()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (WHOLE[:-1], CorruptFile),
        (WHOLE + b"x", CorruptFile),
        (WHOLE[:7], CorruptFile),
        (WHOLE[:12], CorruptFile),
        (WHOLE[:1] + b"\x04" + WHOLE[2:], Unsupported),
        (WHOLE[:2] + b"\x02" + WHOLE[3:], CorruptFile),
        (WHOLE[:6] + b"\x01\x01" + WHOLE[8:], Unsupported),
        (WHOLE[:-8] + WHOLE[-16:-8], CorruptFile),
        (WHOLE[:-8] + b"\xff" * 8, CorruptFile),
    ],
)
def test_a_malformed_sketch_is_refused(data, error):
    with pytest.raises(error):
        sketch_from_bytes(data, location="s")
