"""Metrics that came as bytes say what the members would, and bytes that say nothing of the kind are refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.model.partitioning import partition_type
from firn.storage.avro import decode_block
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import compile_schema
from firn.storage.encoded_metrics import BOUND_BYTES_MAX, is_plain, with_metrics
from firn.storage.manifest_bytes import encode_metrics
from firn.storage.manifest_schema import manifest_schema
from firn.storage.packed_entries import block_content, pack, unpack
from firn.storage.wire_metrics import in_plain_form
from tests.strategies.manifests import DAY_SCHEMA, DAY_SPEC, added, data_file

TYPE = partition_type(DAY_SPEC, DAY_SCHEMA)
IDS = st.integers(0, 40) | st.integers(0, 2**31 - 1)
COUNTS = st.none() | st.dictionaries(IDS, st.integers(0, 1000) | st.integers(0, 2**63 - 1), max_size=70)
BOUNDS = st.none() | st.dictionaries(IDS, st.binary(max_size=20) | st.binary(min_size=120, max_size=140), max_size=5)
METRICS = st.fixed_dictionaries({
    "column_sizes": COUNTS, "value_counts": COUNTS, "null_value_counts": COUNTS, "nan_value_counts": COUNTS,
    "lower_bounds": BOUNDS, "upper_bounds": BOUNDS,
    "key_metadata": st.none() | st.binary(max_size=8),
    "split_offsets": st.none() | st.lists(st.integers(0, 2**63 - 1), max_size=3).map(tuple),
    "equality_ids": st.none() | st.lists(IDS, max_size=2).map(tuple),
    "sort_order_id": st.none() | IDS,
})  # fmt: skip
NULL, NOTHING = b"\0", b"\0" * 10


def encoded(metrics):
    return encode_metrics(data_file(**metrics))


@given(METRICS)
def test_what_is_encoded_says_what_the_members_said(metrics):
    stored = encoded(metrics)
    file = data_file(encoded=stored)
    assert with_metrics(file) == data_file(**metrics)
    assert with_metrics(data_file(**metrics)) == data_file(**metrics)


@pytest.mark.parametrize("version", [1, 2, 3])
@given(metrics=METRICS)
def test_a_manifest_is_the_same_in_either_form(version, metrics):
    if version == 1:
        metrics = {**metrics, "equality_ids": None}
    plain = added(snapshot_id=5, **metrics)
    bytes_ = added(snapshot_id=5, encoded=encoded(metrics))
    packed = pack([bytes_], TYPE, format_version=version)
    assert block_content(packed) == block_content(pack([plain], TYPE, format_version=version))
    assert unpack(packed, spec_id=0) == [plain]


def test_metrics_of_twenty_columns_are_known_at_sight():
    counts = {n: n * 1000 for n in range(1, 21)}
    bounds = {n: bytes(8 if n % 2 else 16) for n in range(1, 21)}
    assert is_plain(encoded({
        "column_sizes": counts, "value_counts": counts, "null_value_counts": counts, "nan_value_counts": {},
        "lower_bounds": bounds, "upper_bounds": bounds, "split_offsets": (4, 2**30), "sort_order_id": 1,
    }))  # fmt: skip


@given(METRICS, st.data())
def test_bytes_that_pass_are_what_a_manifest_can_hold(metrics, data):
    stored = bytearray(encoded(metrics))
    at = data.draw(st.integers(0, len(stored) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "more"])):
        case "flip":
            stored[at] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del stored[at:]
        case "more":
            stored.insert(at, data.draw(st.integers(0, 255)))
    try:
        passed = with_metrics(data_file(encoded=bytes(stored)))
    except InvalidInput:
        return
    packed = pack([added(encoded=in_plain_form(bytes(stored)))], TYPE, format_version=2)
    content = block_content(packed)
    (record,) = decode_block(compile_schema(manifest_schema(TYPE, 2)), content, 1)  # as any reader decodes it
    maps = [record["f2"][name] or [] for name in ("f108", "f109", "f110", "f137")]
    assert all(pair["key"] >= 0 and pair["value"] >= 0 for one in maps for pair in one)
    assert unpack(packed, spec_id=0) == [added(**{name: getattr(passed, name) for name in metrics})]


def pairs(*content):
    return b"\x02" + encode_long(len(content) // 2) + b"".join(content) + NULL


LONG_BOUND = encode_long(BOUND_BYTES_MAX + 1) + bytes(BOUND_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b"\0", "Error"),
        (NOTHING + NULL, "left over"),
        (b"\x04" + NOTHING[1:], "Error"),
        (pairs(encode_long(-1), encode_long(5)) + NOTHING[1:], "-1 is not a column id"),
        (pairs(encode_long(2**31), encode_long(5)) + NOTHING[1:], "is not a column id"),
        (pairs(encode_long(1), encode_long(-5)) + NOTHING[1:], "-5 is not a count"),
        (NOTHING[:4] + pairs(encode_long(1), LONG_BOUND) + NOTHING[5:], "a bound has 65537 bytes"),
        (NOTHING[:7] + b"\x02\x02" + encode_long(-4) + NULL + NULL * 2, "-4 is not an offset"),
        (NOTHING[:9] + b"\x02" + encode_long(-1), "-1 is not an id"),
        (b"\x02" + encode_long(2**40) + bytes(20), "Error"),
        (b"\x02" + encode_long(-(2**62)) + encode_long(1) + bytes(20), "Error"),
    ],
)
def test_what_no_metrics_say_is_refused(stored, why):
    with pytest.raises(InvalidInput, match=why):
        with_metrics(msgspec.structs.replace(data_file(), encoded=stored))
