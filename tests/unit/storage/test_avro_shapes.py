"""A walk that has learned what records look like finds what one finds that never learns, whatever comes next."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.storage.avro import decode_block
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import compile_schema
from firn.storage.avro_shapes import FORMS_MAX, ITEMS_MAX, LESSONS_MAX, LOOKS, LOOKS_MAX, PARTS_MAX, ShapedWalk, _Look
from firn.storage.avro_steps import SHORT_BYTES_MAX
from firn.storage.avro_walk import Walk
from tests.strategies.avro_records import TYPES, WANTED, datum, record, with_names


def outcome(walk, content, count):
    """What is found, up to an error, and that."""
    found: list[Any] = []
    try:
        for end, fields in walk.records(content, count):
            found.append((end, tuple(fields)))
    except Exception as error:  # noqa: BLE001 - one of another kind is to be seen as well
        found.append(repr(error))
    return found


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_has_been_learned_changes_no_answer(data):
    fields = record(data.draw(st.lists(TYPES, max_size=3)), [(n, data.draw(WANTED)) for n in range(3)])
    fields["fields"].append({"name": "last", "type": "long"})
    schema = compile_schema(json.dumps(with_names(fields)).encode())
    plain = Walk(schema, [(2,), (1,), (3,)], long=[(1,), (2,)])
    shaped = ShapedWalk(plain, learn_after=2)
    alike = st.sampled_from(data.draw(st.lists(datum(schema.layout), min_size=1, max_size=3)))
    for _ in range(4):
        records = [*data.draw(st.lists(alike, min_size=LOOKS, max_size=LOOKS)), data.draw(datum(schema.layout))]
        content = b"".join(records)
        assert outcome(shaped, content, len(records)) == outcome(plain, content, len(records))
        broken = bytearray(content)
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
        for damaged in (bytes(broken), content[: data.draw(st.integers(0, len(content) - 1))], content + b"\0"):
            assert outcome(shaped, damaged, len(records)) == outcome(plain, damaged, len(records))


BOUNDS = {
    "type": "array",
    "items": {"type": "record", "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}]},
}
METRICS = compile_schema(
    json.dumps(
        with_names(
            {
                "type": "record",
                "fields": [
                    {"name": "path", "type": "string", "field-id": 1},
                    {"name": "bounds", "type": ["null", BOUNDS]},
                    {"name": "rows", "type": "long", "field-id": 2},
                ],
            }
        )
    ).encode()
)


def text(size):
    return encode_long(size) + b"x" * size


def metrics(*, path=20, sizes=(8, 8), keys=(1, 300), rows=7, blocks=1):
    """A record with a location of that length, and bounds of these sizes and columns."""
    items = b"".join(encode_long(key) + text(size) for key, size in zip(keys, sizes, strict=True))
    bounds = (encode_long(len(sizes)) + items) * blocks + b"\0" if sizes else b"\0"
    return text(path) + b"\2" + bounds + encode_long(rows)


class Watched(Walk):
    """Counts the records that are walked over."""

    walked = 0

    def record(self, content, at):
        self.walked += 1
        return super().record(content, at)


def walked_over(learned_from, then, *, lessons=1):
    """How many of some records are walked over by a walk that has learned from others."""
    walk = Watched(METRICS, [(1,), (2,)], long=[(1,)])
    shaped = ShapedWalk(walk, learn_after=1)
    for lesson in range(lessons):
        some = [learned_from(n) for n in range((1 << lesson) + LOOKS)]
        outcome(shaped, b"".join(some), len(some))
    before = walk.walked
    plain = Walk(METRICS, [(1,), (2,)], long=[(1,)])
    assert outcome(shaped, b"".join(then), len(then)) == outcome(plain, b"".join(then), len(then))
    return walk.walked - before


@pytest.mark.parametrize(
    ("record_of", "then"),
    [
        (lambda n: metrics(rows=10**n), [metrics(rows=2**62), metrics(rows=0)]),
        (lambda n: metrics(path=60 + n % 3), [metrics(path=61), metrics(path=62)]),
        (lambda n: metrics(path=60 + n), [metrics(path=3), metrics(path=250)]),  # so many lengths: any
        (lambda n: metrics(sizes=(8, n)), [metrics(sizes=(8, 100))]),
        (lambda n: metrics(sizes=(8, 400)), [metrics(sizes=(8, 400))]),
        (lambda n: metrics(keys=(1, n)), [metrics(keys=(1, 10**9))]),
        (lambda n: metrics(sizes=(4,) * (n % FORMS_MAX), keys=range(n % FORMS_MAX)), [metrics(sizes=(), keys=())]),
    ],
)  # fmt: skip
def test_records_like_those_before_are_not_walked_over(record_of, then):
    alike = [record_of(n) for n in range(LOOKS)]
    assert walked_over(record_of, alike) == 0
    assert walked_over(record_of, then) == 0


@pytest.mark.parametrize(
    "other",
    [
        metrics(path=21), metrics(sizes=(8, 9)), metrics(keys=(2, 300)), metrics(sizes=(8,), keys=(1,)),
        metrics(blocks=2), text(20) + b"\0" + encode_long(7),
    ],
)  # fmt: skip
def test_a_record_that_looks_different_is_walked_over(other):
    assert walked_over(lambda _: metrics(), [metrics(), other, metrics()]) == 1


NESTED = compile_schema(
    json.dumps(
        with_names(
            {
                "type": "record",
                "fields": [
                    {"name": "both", "type": {"type": "record", "fields": [
                        {"name": "counts", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
                        {"name": "named", "type": ["null", "string"]},
                    ]}},
                    {"name": "rows", "type": "long", "field-id": 2},
                ],
            }
        )
    ).encode()
)  # fmt: skip

COUNTS = encode_long(1) + encode_long(1) + b"\x02k\x0e\0"
"""One map of one key, of which the number is the last but one."""

BEHIND = b"\x02\x04no\x0e"


@pytest.mark.parametrize(
    ("counts", "behind"),
    [
        (encode_long(-1) + encode_long(5) + COUNTS[1:] + b"\0", BEHIND),  # with the size of a block
        (COUNTS + encode_long(1) + COUNTS[1:] + b"\0", BEHIND),  # two blocks
        (b"\2" + encode_long(-1) + encode_long(3) + COUNTS[2:] + b"\0", BEHIND),  # in an item
        (encode_long(ITEMS_MAX + 1) + b"\0" * (ITEMS_MAX + 1) + b"\0", BEHIND),
        (b"\x82\0\x82\x80\0\x82\0k\x8e\0\x80\0\x80\x80\0", b"\x82\0\x84\0no\x8e\0"),
        (b"\2\2\x02k" + b"\xff" * 9 + b"\x7f\0\0", BEHIND),  # more than 64 bits
    ],
)
def test_whatever_a_decoder_takes_can_be_looked_at(counts, behind):
    record = counts + behind
    shaped, plain = ShapedWalk(Walk(NESTED, [(2,)]), learn_after=1), Walk(NESTED, [(2,)])
    content = record * (3 * LOOKS)
    (first, *_) = decode_block(NESTED, content, 3 * LOOKS)
    assert (first["x0"]["x1"], first["f2"]) == ("no", 7)
    assert outcome(shaped, content, 3 * LOOKS) == outcome(plain, content, 3 * LOOKS)
    assert len(outcome(plain, content, 3 * LOOKS)) == 3 * LOOKS


def test_arrays_of_arrays_are_not_taken_apart_without_end():
    inner = encode_long(ITEMS_MAX) + (b"\2k\x0e") * ITEMS_MAX + b"\0"
    record = encode_long(ITEMS_MAX) + inner * ITEMS_MAX + b"\0" + BEHIND
    look = _Look(record, 0, text_bytes_max=SHORT_BYTES_MAX)
    look.value(NESTED.layout)
    assert not look.is_clear
    assert PARTS_MAX < len(look.parts) < PARTS_MAX + 8
    shaped, plain = ShapedWalk(Walk(NESTED, [(2,)]), learn_after=1), Walk(NESTED, [(2,)])
    assert outcome(shaped, record * 3, 3) == outcome(plain, record * 3, 3)


def test_what_looks_different_often_enough_is_learned_as_well():
    assert walked_over(lambda n: metrics(path=20 + n % 2), [metrics(path=20), metrics(path=21)], lessons=3) == 0


@pytest.mark.parametrize(
    "record_of",
    [
        lambda n: metrics(sizes=(4,) * n, keys=range(n)),  # arrays of more than `FORMS_MAX` lengths
        lambda n: metrics(sizes=(4,) * (ITEMS_MAX + 1), keys=range(ITEMS_MAX + 1)),
        lambda n: metrics(blocks=2),
    ],
)
def test_a_field_that_never_looks_alike_is_passed_over_as_it_always_is(record_of):
    assert max(FORMS_MAX, LOOKS_MAX) < LOOKS
    assert walked_over(record_of, [metrics(sizes=(1, 2)), metrics(sizes=(200, 201))]) == 0


def test_nothing_is_tried_any_more_where_records_never_look_alike():
    walk = Watched(METRICS, [(1,), (2,)], long=[(1,)])
    shaped = ShapedWalk(walk, learn_after=1)
    records = [metrics(path=300 + n) for n in range((2 << LESSONS_MAX) + LOOKS * (LESSONS_MAX + 2))]
    outcome(shaped, b"".join(records), len(records))
    before = walk.walked
    assert before > len(records) * 3 // 4
    outcome(shaped, records[-1], 1)
    assert walk.walked == before + 1
