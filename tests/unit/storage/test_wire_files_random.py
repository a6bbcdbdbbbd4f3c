"""Of appends of all shapes, and of what is left of them after damage, compiled code reads what Python reads."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from firn.coordinator.client.encoded_files import with_encoded_metrics
from firn.model.errors import FirnError, InvalidInput
from firn.model.intent import Append, ContentFile, CountMap, ValueMap, WrittenManifest, digest_of, encode_intent
from firn.storage.avro_numbers import encode_long
from firn.storage.compiled import IS_COMPILED
from firn.storage.encoded_metrics import with_metrics
from firn.storage.wire_files import read_files
from firn.storage.wire_metrics import encoded_file
from tests.strategies.examples import examples
from tests.strategies.manifests import data_file
from tests.unit.storage.read_twice import BARE, FILE, ID, around, by_both, by_python, spelled

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="firn was installed without a C compiler: nothing is compiled")

COUNTS = st.integers(0, 9) | st.integers(0, 20_000) | st.integers(0, 2**63 - 1) | st.just(2**63 - 1)
IDS = st.integers(0, 70) | st.integers(0, 2**31 - 1) | st.just(2**31 - 1)
TEXTS = st.text("abc/=-%{}[]:, ", min_size=1, max_size=20) | st.text(min_size=1, max_size=8)
PLAIN_TEXTS = st.text("abcXYZ019/=-%{}[]:,. ~", min_size=1, max_size=20)
BOUND = (st.binary(max_size=20) | st.binary(min_size=62, max_size=66) | st.binary(min_size=254, max_size=257)).map(
    bytes.hex
)

# ---------------------------------------------------------------------------------------------------------------------
# Appends


@st.composite
def column_maps(draw: st.DrawFn, kind: Any, values: st.SearchStrategy[Any], ids: st.SearchStrategy[Any]) -> Any:
    """A map, its lists of equal length."""
    keys = draw(ids)
    return kind(tuple(keys), tuple(draw(st.lists(values, min_size=len(keys), max_size=len(keys)))))


RISING = st.sampled_from([tuple(range(1, 21)), (3, 70, 5_000)]) | st.lists(
    IDS, min_size=1, max_size=8, unique=True
).map(sorted)
PARTITION_VALUES = st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-5, 5) | PLAIN_TEXTS


def files(
    texts: st.SearchStrategy[str], ids: st.SearchStrategy[Any], bound: st.SearchStrategy[str], **others: Any
) -> st.SearchStrategy[ContentFile]:
    """Files in which each optional member may be there."""
    counts = st.none() | column_maps(CountMap, COUNTS, ids)
    bounds = st.none() | column_maps(ValueMap, bound, ids)
    members = {
        "file_path": texts, "file_format": st.sampled_from(["parquet", "orc", "avro"]), "spec_id": IDS,
        "partition": st.just(()) | st.lists(PARTITION_VALUES, min_size=1, max_size=4).map(tuple),
        "record_count": COUNTS, "file_size_in_bytes": COUNTS,
        "column_sizes": counts, "value_counts": counts, "null_value_counts": counts, "nan_value_counts": counts,
        "lower_bounds": bounds, "upper_bounds": bounds,
        "split_offsets": st.none() | st.lists(COUNTS, min_size=1, max_size=70).map(tuple),
        "sort_order_id": st.none() | IDS,
    }  # fmt: skip
    return st.builds(ContentFile, **(members | others))


def maybe_encoded(file: ContentFile) -> st.SearchStrategy[ContentFile]:
    """The file, or the same as a writer sends it who encodes metrics."""
    try:
        return st.sampled_from([file, with_encoded_metrics(file)])
    except (FirnError, ValueError):  # no manifest holds these
        return st.just(file)


SHORT_BOUND = BOUND.filter(lambda text: len(text) <= 2 * 255)
LIKE_MOST = files(PLAIN_TEXTS, RISING, SHORT_BOUND).flatmap(maybe_encoded)

BOUNDLESS = st.text("0aF \n\u0661", max_size=4) | BOUND.map(str.upper)
ODD_VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70) | TEXTS
OF_ANY_KIND = files(
    TEXTS | st.text(max_size=1),
    st.lists(IDS, max_size=6),
    BOUNDLESS | BOUND,
    content=st.sampled_from(["data", "data", "data", "position-deletes", "equality-deletes"]),
    file_format=st.sampled_from(["parquet", "orc", "avro", "puffin"]),
    spec_id=IDS | st.integers(-1, 2**31),
    record_count=COUNTS | st.integers(-1, 2**64),
    partition=st.lists(PARTITION_VALUES | ODD_VALUES | st.lists(ODD_VALUES, max_size=2), max_size=66).map(tuple),
    split_offsets=st.none() | st.lists(COUNTS | st.integers(-1, 2**64), max_size=3).map(tuple),
    sort_order_id=st.none() | IDS | st.integers(-1, 2**31),
    key_metadata=st.none() | st.none() | BOUND,
    equality_ids=st.none() | st.none() | st.lists(IDS, max_size=2).map(tuple),
    referenced_data_file=st.none() | st.none() | TEXTS,
    content_offset=st.none() | st.none() | COUNTS,
).flatmap(maybe_encoded)

MANIFESTS = st.builds(
    WrittenManifest, manifest_path=TEXTS, manifest_length=COUNTS, partition_spec_id=IDS, files_count=COUNTS,
    rows_count=COUNTS,
)  # fmt: skip


def appends(file: st.SearchStrategy[ContentFile]) -> st.SearchStrategy[Append]:
    """Appends of up to five files, with any other members."""
    return st.builds(
        Append, intent_id=st.just(ID), table=st.sampled_from(["db.t", "db.t", "x"]),
        data_files=st.lists(file, min_size=1, max_size=5).map(tuple),
        branch=st.sampled_from(["main", "audit"]) | TEXTS, stage=st.booleans(), wap_id=st.none() | st.none() | TEXTS,
        reply_to=st.none() | st.just("firn:replies:a") | TEXTS,
        summary=st.just({}) | st.dictionaries(TEXTS | st.just('"data-files":['), TEXTS, max_size=2),
        priority=st.sampled_from(["ingest", "maintenance"]), writer=st.none() | TEXTS | st.just('"data-files":['),
        writer_sequence=st.none() | COUNTS, deadline_ms=st.none() | COUNTS,
        base_snapshot_id=st.none() | COUNTS, manifests=st.just(()) | st.lists(MANIFESTS, max_size=1).map(tuple),
    )  # fmt: skip


def with_digest(intent: Append) -> st.SearchStrategy[Append]:
    return st.sampled_from([intent, replace(intent, digest=digest_of(intent))])


@examples(100)
@given(appends(LIKE_MOST).flatmap(with_digest))
def test_appends_like_most_are_taken_and_are_what_python_reads(intent: Append) -> None:
    payload = encode_intent(intent)
    read = read_files(payload)
    assert read is not None
    assert read.files == tuple(map(encoded_file, intent.data_files))
    assert by_both(payload) == by_python(payload)


@examples(100)
@given(appends(OF_ANY_KIND | LIKE_MOST).flatmap(with_digest))
def test_appends_of_any_kind_are_what_python_reads(intent: Append) -> None:
    payload = encode_intent(intent)
    assert by_both(payload) == by_python(payload)


# ---------------------------------------------------------------------------------------------------------------------
# Damage

PIECES: Final = [
    b"", b"0", b"9", b"-", b"+", b".", b"e", b'"', b"\\", b",", b":", b" ", b"[", b"]", b"{", b"}", b"=", b"AAAA",
    b"null", b"\0", b"\x7f", b"\xc3\xa9", b"\xff", b"9223372036854775808", b'"partition":[1],',
    b'"encoded":"AAAAAAAAAAAAAA=="', b',"data-files":[]', b'"data-files":[', b',"content":"data"',
    b',"sort-order-id":1', b'{"keys":[1],"values":[2]}',
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, payloads: st.SearchStrategy[bytes]) -> bytes:
    """What some mistakes make of a payload: pieces of it, or of another one, in other places."""
    text = draw(payloads)
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        match draw(st.sampled_from(["byte", "piece", "cut", "again", "moved", "splice", "end"])):
            case "byte":
                text = text[:start] + bytes([draw(st.integers(0, 255))]) + text[start + 1 :]
            case "piece":
                text = text[:start] + draw(st.sampled_from(PIECES)) + text[start + draw(st.integers(0, 3)) :]
            case "cut":
                text = text[:start] + text[min(end, start + 20) :]
            case "again":
                text = text[:end] + text[start:]
            case "moved":
                text = text[end:] + text[start:end] + text[:start]
            case "splice":
                other = draw(payloads)
                text = text[:start] + other[min(draw(st.integers(0, 2_000)), len(other)) :]
            case "end":
                text = text[:end]
    return text


def listed(payload: bytes) -> bytes:
    """What stands in the list of files."""
    return payload[payload.index(b'"data-files":[') + 14 : payload.rindex(b"]")]


@examples(100)
@given(damaged(appends(LIKE_MOST).map(encode_intent)))
@example(spelled(FILE, BARE).replace(b'"data-files":[', b'"data-files":[],"data-files":['))
def test_damaged_appends_are_what_python_reads(payload: bytes) -> None:
    assert by_both(payload) == by_python(payload)


@examples(100)
@given(damaged(appends(LIKE_MOST).map(encode_intent).map(listed)))
def test_damaged_lists_are_what_python_reads(text: bytes) -> None:
    payload = around(text)
    assert by_both(payload) == by_python(payload)


# ---------------------------------------------------------------------------------------------------------------------
# Metrics that came encoded


def longer(number: bytes, by: int) -> bytes:
    """A number in more bytes than it needs."""
    return number if by == 0 else number[:-1] + bytes([number[-1] | 0x80]) + b"\x80" * (by - 1) + b"\0"


NUMBERS = st.builds(longer, (COUNTS | IDS | st.integers(-3, 70)).map(encode_long), st.just(0) | st.integers(0, 8))
SMALL = st.integers(0, 3).map(encode_long)
VALUES = st.binary(max_size=3).map(lambda value: encode_long(len(value)) + value)


@st.composite
def optional_lists(draw: st.DrawFn, item: st.SearchStrategy[bytes]) -> bytes:
    """None, or blocks of items, of which nearly all are as many as is said."""
    if draw(st.booleans()):
        return b"\0"
    blocks = draw(st.lists(st.lists(item, min_size=1, max_size=3), max_size=2))
    said = [draw(st.just(encode_long(len(block))) | st.just(encode_long(len(block))) | NUMBERS) for block in blocks]
    return b"\x02" + b"".join(number + b"".join(block) for number, block in zip(said, blocks, strict=True)) + b"\0"


def pairs(value: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return optional_lists(st.tuples(NUMBERS | SMALL, value).map(b"".join))


def optional(value: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.just(b"\0") | value.map(lambda some: b"\x02" + some)


MARKS = st.sampled_from([b"\0"] * 8 + [b"\x02", b"\x04", b"\x80\0"])
BY_HAND = st.tuples(
    *[pairs(NUMBERS | SMALL)] * 4, *[pairs(VALUES)] * 2, optional(VALUES), optional_lists(NUMBERS), MARKS,
    optional(NUMBERS), st.sampled_from([b""] * 8 + [b"\0"]),
).map(b"".join)  # fmt: skip
BY_A_WRITER = files(PLAIN_TEXTS, RISING, BOUND).map(lambda file: with_encoded_metrics(file).encoded or b"")


def check_encoded(encoded: bytes) -> bool:
    """Whether these metrics were taken: then there is nothing in them to refuse."""
    payload = spelled(replace(BARE, encoded=encoded))
    read = read_files(payload)
    if read is not None:
        with_metrics(data_file(encoded=encoded))
        assert read.files[0].encoded == encoded
    assert by_both(payload) == by_python(payload)
    return read is not None


@examples(100)
@given(BY_HAND | damaged(BY_A_WRITER))
@example(b"\0" * 9 + b"\x02" + longer(b"\x02", 1))
@example(b"\0\0\0\x02\x04\0\0\0" + encode_long(2**63 - 1) + b"\0" * 7)
def test_encoded_metrics_that_are_taken_would_not_be_refused(encoded: bytes) -> None:
    if encoded:
        check_encoded(encoded)


@pytest.mark.parametrize("number", [0, 1, 2**31 - 1], ids=["none", "one", "greatest"])
def test_a_number_in_more_bytes_than_it_needs_is_left_to_python(number: int) -> None:
    shortest = encode_long(number)
    assert check_encoded(b"\0" * 9 + b"\x02" + shortest)
    for by in range(1, 9):
        assert not check_encoded(b"\0" * 9 + b"\x02" + longer(shortest, by))


@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1])
def test_a_bound_that_is_too_long_is_refused_by_python(size: int) -> None:
    encoded = b"\0" * 4 + b"\x02\x02\x02" + encode_long(size) + bytes(size) + b"\0" * 6
    assert check_encoded(encoded) == (size == 64 * 1024)
    if size > 64 * 1024:
        with pytest.raises(InvalidInput):
            with_metrics(data_file(encoded=encoded))


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x02\x02\x02\x02\x02\x04\x04\0" + b"\0" * 9,
        b"\x02\x01\x04\x02\x02\0" + b"\0" * 9,
        b"\x02\x02\x02\x02\x01" + b"\0" * 9,
        b"\x02\x02\x02\x02" + b"\x02" * 9,
        b"\x02\x04\x02\x02\0" + b"\0" * 9,
        b"\0" * 8 + b"\x02\x02\x02\0" + b"\0",
        b"\0" * 7 + b"\x02\x02\x02\x02\x04\0" + b"\0" * 2,
        b"\0" * 6 + b"\x04" + b"\0" * 3,
    ],
    ids=["blocks", "sized block", "odd end", "no end", "more said", "equality ids", "offset blocks", "no branch"],
)
def test_metrics_laid_out_in_another_way_are_left_to_python(encoded: bytes) -> None:
    assert not check_encoded(encoded)
