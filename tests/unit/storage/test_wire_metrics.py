"""Metrics of the wire, encoded at once, are byte for byte and word for word what they are by way of a `DataFile`."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firn.model.content_file import unpartitioned
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.intent import ContentFile, CountMap, ValueMap
from firn.storage import wire_metrics
from firn.storage.encoded_metrics import with_metrics
from firn.storage.manifest_bytes import encode_metrics
from firn.storage.wire_metrics import encode_wire_metrics, in_plain_form
from tests.strategies.manifests import data_file

IDS = st.integers(0, 70) | st.integers(0, 2**31 - 1)
COUNTS = st.integers(0, 63) | st.integers(0, 20_000) | st.integers(2**13 - 2, 2**28) | st.integers(0, 2**63 - 1)
HEX = (st.binary(max_size=20) | st.binary(min_size=62, max_size=70)).map(bytes.hex)
TEXTS = (
    HEX
    | HEX.map(str.upper)
    | HEX.map(lambda text: " ".join([text[:2], text[2:]]))
    | st.text("0aF \n\u0661", max_size=4)
)


@st.composite
def column_maps(draw, kind, values):
    """A map of mostly different columns, of which some files have the same."""
    ids = draw(st.sampled_from([tuple(range(1, 21)), (3, 70, 5_000)]) | st.lists(IDS, max_size=12).map(tuple))
    same = st.builds(lambda value: (value,) * len(ids), values)
    return kind(ids, draw(same | st.lists(values, min_size=len(ids), max_size=len(ids)).map(tuple)))


COUNT_MAPS = st.none() | column_maps(CountMap, COUNTS)
BOUNDS = st.none() | column_maps(ValueMap, HEX)
FILES = st.builds(
    ContentFile, file_path=st.just("/wh/t/a.parquet"), file_format=st.just("parquet"), spec_id=st.just(0),
    record_count=st.just(1), file_size_in_bytes=st.just(1),
    column_sizes=COUNT_MAPS, value_counts=COUNT_MAPS, null_value_counts=COUNT_MAPS, nan_value_counts=COUNT_MAPS,
    lower_bounds=BOUNDS, upper_bounds=BOUNDS | st.none() | column_maps(ValueMap, TEXTS),
    key_metadata=st.none() | st.none() | HEX, split_offsets=st.none() | st.lists(COUNTS, max_size=3).map(tuple),
    equality_ids=st.none() | st.none() | st.lists(IDS, max_size=2).map(tuple), sort_order_id=st.none() | IDS,
)  # fmt: skip
TWENTY = ContentFile(
    file_path="/wh/t/a.parquet", file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=1,
    column_sizes=CountMap(tuple(range(1, 21)), tuple(range(60, 90_060, 4_500))),
    value_counts=CountMap(tuple(range(1, 21)), (12_345,) * 20),
    nan_value_counts=CountMap((8, 9), (0, 70)),
    lower_bounds=ValueMap(tuple(range(1, 21)), ("00" * 8,) * 20),
    upper_bounds=ValueMap(tuple(range(1, 21)), ("ff" * 16,) * 20),
    split_offsets=(4,),
)  # fmt: skip


def found(work, file):
    """The bytes, or what is said against them."""
    try:
        return work(file)
    except InvalidIntent as error:
        return (error.rule, str(error))


def the_long_way(file):
    return encode_metrics(unpartitioned(file, where="files[0]"))


@given(FILES)
@example(TWENTY)
def test_both_ways_say_the_same(file):
    encoded = found(lambda one: encode_wire_metrics(one, where="files[0]"), file)
    assert encoded == found(the_long_way, file)
    if isinstance(encoded, bytes):
        with_metrics(data_file(encoded=encoded))


NOTHING_MORE = bytes(9)
AN_ID = b"\x02\x02\x82\x01\x0a\x00" + NOTHING_MORE
"""One column's size: id 65, 5 bytes."""


@pytest.mark.parametrize(
    "came",
    [
        b"\x02\x02\x82\x81\x80\x80\x80\x00\x0a\x00" + NOTHING_MORE,
        b"\x02\x02\x82\x01\x8a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x00" + NOTHING_MORE,
        b"\x02\x01\x06\x82\x01\x0a\x00" + NOTHING_MORE,
    ],
    ids=["an id in six bytes", "a count in eleven", "a block with its size"],
)
def test_metrics_that_came_in_another_form_are_written_in_firns(came):
    file = ContentFile(
        file_path="a", file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=1, encoded=came
    )
    assert wire_metrics.encoded_file(file).encoded == AN_ID


def test_metrics_that_came_in_firns_form_are_written_as_they_came(monkeypatch):
    monkeypatch.delattr(wire_metrics, "encode_metrics")
    assert in_plain_form(AN_ID) is AN_ID


def test_what_is_no_metrics_is_refused():
    with pytest.raises(InvalidInput):
        in_plain_form(b"\x02\x02\x82\x01")


def test_a_column_twice_in_two_blocks_is_refused():
    with pytest.raises(InvalidInput):
        in_plain_form(b"\x02\x02\x82\x01\x0a\x02\x82\x01\x0a\x00" + NOTHING_MORE)


def test_a_file_like_most_does_not_go_the_long_way(monkeypatch):
    expected = the_long_way(TWENTY)
    monkeypatch.delattr(wire_metrics, "encode_metrics")
    assert encode_wire_metrics(TWENTY, where="files[0]") == expected


@pytest.mark.parametrize(
    "change",
    [
        {"lower_bounds": ValueMap((1,), ("0",))},
        {"lower_bounds": ValueMap((1, 2), ("0", "1"))},
        {"upper_bounds": ValueMap((1,), ("zz",))},
        {"upper_bounds": ValueMap((1,), ("\u0661\u0661",))},
        {"upper_bounds": ValueMap((1,), ("00" * (64 * 1024 + 1),))},
    ],
    ids=["half a byte", "two halves", "no digits", "other digits", "endless"],
)
def test_a_bound_that_is_none_is_refused_by_its_member(change):
    with pytest.raises(InvalidIntent) as refused:
        encode_wire_metrics(msgspec.structs.replace(TWENTY, **change), where="files[0]")
    assert refused.value.rule == "invalid-field"
    assert refused.value.where == f"files[0].{next(iter(change)).replace('_', '-')}"


@pytest.mark.parametrize(
    "bounds",
    [
        ValueMap((1,), ("00" * 64 * 1024,)),
        ValueMap((1, 2), ("00 11", "0011  ")),
        ValueMap((1, 1), ("00", "01")),
        ValueMap(tuple(range(1_000)), ("00",) * 1_000),
    ],
    ids=["long", "spaced", "repeated", "wide"],
)
def test_what_is_not_like_most_is_encoded_all_the_same(bounds):
    file = msgspec.structs.replace(TWENTY, lower_bounds=bounds)
    assert encode_wire_metrics(file, where="files[0]") == the_long_way(file)


@pytest.mark.parametrize("counts", [CountMap((1, 2), (3,)), CountMap((1, 2), (3, 3, 3)), CountMap((), (1,))])
def test_lists_of_two_lengths_are_never_a_map(counts):
    with pytest.raises(ValueError, match=r"zip\(\)"):
        encode_wire_metrics(msgspec.structs.replace(TWENTY, value_counts=counts), where="files[0]")
