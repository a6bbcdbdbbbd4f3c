"""A table's shard is what Redis itself would say, and shards are shared out evenly and calmly."""

from collections import Counter

import pytest

from firn.model.sharding import assign, key_slot, shard_of


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        ("123456789", 0x31C3),
        ("foo", 12182),
        ("somekey", 11058),
        ("", 0),
        ("foo{hash_tag}", 2515),
        ("bar{hash_tag}", 2515),
    ],
)
def test_slots_are_those_of_redis_cluster(key, slot):
    assert key_slot(key) == slot


def test_a_hash_tag_is_what_stands_in_the_first_braces_unless_it_is_empty():
    assert key_slot("a{b}c{d}") == key_slot("b")
    assert key_slot("a{{b}}") == key_slot("{b")
    for untagged in ("a{}b", "a{b", "a}b{", "{}{b}"):
        assert key_slot(untagged) != key_slot("b")


def test_a_shard_is_the_slot_modulo_the_shards():
    assert shard_of("foo", shards=16) == 12182 % 16
    assert shard_of("db.é", shards=1) == 0
    assert Counter(shard_of(f"db.t{n}", shards=8) for n in range(4000)).most_common()[-1][1] > 350


def test_every_shard_has_one_member_and_none_has_more_than_its_share():
    for members in (["a"], ["a", "b"], [f"m{n}" for n in range(7)], [f"m{n}" for n in range(40)]):
        chosen = assign(16, members)
        assert sorted(chosen) == list(range(16))
        assert set(chosen.values()) <= set(members)
        assert max(Counter(chosen.values()).values()) <= -(-16 // len(members))
    assert assign(16, []) == {}


def test_the_order_in_which_members_are_named_does_not_matter():
    assert assign(32, ["b", "a", "c"]) == assign(32, ["c", "b", "a", "a"])


def test_a_member_that_leaves_moves_few_shards_besides_its_own():
    members = [f"m{n}" for n in range(8)]
    before, after = assign(64, members), assign(64, members[:-1])
    stayed = [shard for shard in before if before[shard] != "m7" and before[shard] == after[shard]]
    assert len(stayed) >= 0.7 * sum(member != "m7" for member in before.values())
