"""A list that is made from the one before is the list that would be made anew."""

import io
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.storage.listed_manifests import BLOCK_MANIFESTS, STORED_BYTES_MAX, YOUNG_BLOCKS_MAX, YOUNG_MANIFESTS, listed
from firn.storage.manifest_lists import decode_manifest_list, manifest_list_of
from tests.strategies.manifests import manifest

MANY = [manifest(f"s3://b/t/{n}.avro", partitions=None) for n in range(5 * BLOCK_MANIFESTS)]
DELETES = manifest("s3://b/t/deletes.avro", partitions=None, content="deletes")
SPENT = manifest("s3://b/t/spent.avro", partitions=None, added_files_count=0, deleted_files_count=1)


def content_of(one):
    data = manifest_list_of(
        one.blocks, format_version=one.format_version, snapshot_id=1, parent_snapshot_id=None, sequence_number=1
    )
    return tuple(decode_manifest_list(data, location="l"))


@pytest.mark.parametrize("count", [0, 1, BLOCK_MANIFESTS, 2 * BLOCK_MANIFESTS - 1, 2 * BLOCK_MANIFESTS, len(MANY)])
def test_every_manifest_is_in_the_list_in_its_order(count):
    one = listed(tuple(MANY[:count]), format_version=2)
    assert content_of(one) == one.manifests == tuple(MANY[:count])


@given(data=st.data())
def test_whatever_is_added_taken_out_or_changed_the_list_has_what_it_should(data):
    places = st.integers(0, len(MANY) - 1)
    now = tuple(MANY[data.draw(places) :])
    one = listed(now, format_version=2)
    for step in range(data.draw(st.integers(1, 4))):
        match data.draw(st.sampled_from(["before", "out", "other", "cut", "spent", "deletes"])):
            case "before":
                more = [manifest(f"m{step}-{n}", partitions=None) for n in range(data.draw(st.integers(1, 300)))]
                now = (*more, *now)
            case "out":
                gone = data.draw(places)
                now = now[:gone] + now[gone + 1 :]
            case "other":
                at = data.draw(places)
                now = (*now[:at], manifest(f"other-{step}", partitions=None), *now[at + 1 :])
            case "cut":
                now = now[: data.draw(places)]
            case "spent" if SPENT not in now:
                at = data.draw(places)
                now = (*now[:at], SPENT, *now[at:])
            case "deletes" if DELETES not in now:
                at = data.draw(places)
                now = (*now[:at], DELETES, *now[at:])
        one = listed(now, format_version=2, before=one)
        assert one.manifests == now
        assert content_of(one) == now
        assert one.all_live is (SPENT not in now)
        assert one.all_data is (DELETES not in now)


def test_what_the_last_list_had_is_not_compressed_again():
    first = listed(tuple(MANY), format_version=2)
    second = listed((manifest("new", partitions=None), *MANY), format_version=2, before=first)
    assert [count for count, _ in first.kept] == 3 * [YOUNG_MANIFESTS] + 4 * [BLOCK_MANIFESTS]
    assert all(mine is yours for mine, yours in zip(second.kept, first.kept, strict=True))
    assert second.shared_by(second.manifests) == len(MANY) + 1
    assert first.shared_by(second.manifests) == len(MANY)


def test_records_before_the_last_list_are_stored_until_they_are_many_and_read_by_other_readers():
    """fastavro inflates with zlib, firn does not."""
    now, stored = listed((), format_version=2), []
    for at in range(1, 2 * YOUNG_MANIFESTS):
        now = listed((MANY[-at], *now.manifests), format_version=2, before=now)
        stored.append(now.stored)
        data = manifest_list_of(now.blocks, format_version=2, snapshot_id=1, parent_snapshot_id=None, sequence_number=1)
        records: Any = fastavro.reader(io.BytesIO(data))
        assert [record["manifest_path"] for record in records] == [one.manifest_path for one in now.manifests]
        assert content_of(now) == now.manifests
    assert max(stored) <= STORED_BYTES_MAX
    assert 1 < stored.count(0) <= len(stored) // 4
    anew = listed(now.manifests, format_version=2)
    assert now.front is not None
    assert anew.front is not None
    assert len(now.front[1]) <= len(anew.front[1]) + STORED_BYTES_MAX


def test_a_list_that_grows_for_long_has_few_blocks_and_makes_a_few_of_them_anew():
    manifests = [manifest(f"s3://b/t/{n}.avro", partitions=None) for n in range(20 * BLOCK_MANIFESTS)]
    now = listed((), format_version=2)
    made = 0
    for at in range(len(manifests) - 3, -1, -3):
        before, now = now, listed(tuple(manifests[at:]), format_version=2, before=now)
        made += sum(count for count, _ in set(now.kept) - set(before.kept))
        young = [count for count, _ in now.kept if count != BLOCK_MANIFESTS]
        assert young == [count for count, _ in now.kept[: len(young)]]
        assert len(young) < YOUNG_BLOCKS_MAX
        assert now.front is None or now.front[0] < 2 * YOUNG_MANIFESTS
    assert content_of(now) == now.manifests
    assert made <= 2 * len(manifests)


def test_blocks_are_not_taken_over_into_another_format_version():
    first = listed(tuple(MANY), format_version=2)
    numbered = tuple(msgspec.structs.replace(m, first_row_id=n) for n, m in enumerate(MANY))
    third = listed(numbered, format_version=3, before=first)
    assert [m.first_row_id for m in third.manifests] == list(range(len(MANY)))
    assert not any(mine is yours for mine in third.kept for yours in first.kept)
