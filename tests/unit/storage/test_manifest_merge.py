"""Merging manifests and removing files from them keeps what entries once were."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.datafile import DataFile
from firn.model.manifest import Status
from firn.storage.manifest_merge import MIN_COUNT, TARGET_BYTES, merge_entries, merge_plan, rewrite_without
from tests.strategies.examples import examples
from tests.strategies.manifests import added, deleted, existing, manifest

SNAPSHOT = 5


def sized(*lengths, **changes):
    return [manifest(str(i), manifest_length=length, **changes) for i, length in enumerate(lengths)]


def bins(plan):
    return [([m.manifest_path for m in packed.manifests], packed.merge) for packed in plan]


def test_the_newest_bin_waits_for_enough_manifests_and_older_ones_do_not():
    plan = merge_plan(sized(10, 10, 60, 40, 50, 50), target_bytes=100, min_count=3)
    assert bins(plan) == [(["0", "1"], False), (["2", "3"], True), (["4", "5"], True)]
    plan = merge_plan(sized(10, 10, 60, 40), target_bytes=100, min_count=2)
    assert bins(plan) == [(["0", "1"], True), (["2", "3"], True)]


def test_bins_are_filled_from_the_oldest_so_that_the_newest_is_the_one_with_room():
    plan = merge_plan(sized(30, 30, 30, 30, 30), target_bytes=100, min_count=1)
    assert bins(plan) == [(["0", "1"], True), (["2", "3", "4"], True)]


def test_what_was_merged_before_waits_until_as_much_has_come():
    plan = merge_plan(sized(5, 5, 5, 5, 21, 50), target_bytes=100, min_count=4)
    assert bins(plan) == [(["0", "1", "2", "3"], True), (["4"], False), (["5"], False)]
    plan = merge_plan(sized(5, 5, 5, 5, 20, 40), target_bytes=100, min_count=4)
    assert bins(plan) == [(["0", "1", "2", "3", "4", "5"], True)]
    plan = merge_plan(sized(5, 6, 20, 40), target_bytes=100, min_count=4)
    assert bins(plan) == [(["0", "1", "2", "3"], True)], "too few would be merged"


def test_a_growing_table_writes_each_entry_a_few_times_and_has_few_manifests():
    rows, written, most = sized(10), 0, 0
    for _ in range(6_000):
        rows = [*sized(10), *rows]
        for packed in [one for one in merge_plan(rows, target_bytes=8_000) if one.merge]:
            size = sum(m.manifest_length for m in packed.manifests)
            merged = {id(m) for m in packed.manifests}
            at = next(n for n, m in enumerate(rows) if id(m) in merged)
            rows = [m for m in rows if id(m) not in merged]
            rows[at:at] = sized(size)
            written += size
        most = max(most, len(rows))
    assert written < 3.2 * 6_000 * 10, "5.3 times when all of a bin are merged each time"
    assert most <= 100 + 2 * (6_000 * 10 // 8_000) + 4


def test_a_manifest_alone_in_its_bin_is_left_as_it_is():
    plan = merge_plan(sized(500, 10, 500), target_bytes=100, min_count=1)
    assert bins(plan) == [(["0"], False), (["1"], False), (["2"], False)]


def test_specs_and_contents_are_never_mixed():
    rows = [
        manifest("old spec", partition_spec_id=0),
        manifest("deletes", content="deletes", partition_spec_id=1),
        manifest("new spec", partition_spec_id=1),
        manifest("old spec too", partition_spec_id=0),
    ]
    plan = merge_plan(rows, min_count=1)
    assert bins(plan) == [(["new spec"], False), (["old spec", "old spec too"], True), (["deletes"], False)]


def test_the_newest_manifest_of_each_content_waits():
    rows = [manifest("a"), manifest("b"), manifest("c", content="deletes"), manifest("d", content="deletes")]
    assert [merge for _, merge in bins(merge_plan(rows))] == [False, False]
    other_spec = [manifest("e", partition_spec_id=1), manifest("f", partition_spec_id=1)]
    assert bins(merge_plan([*rows[:1], *other_spec])) == [(["e", "f"], True), (["a"], False)]


def test_the_defaults_are_icebergs():
    assert (TARGET_BYTES, MIN_COUNT) == (8 * 1024 * 1024, 100)
    assert bins(merge_plan(sized(*[1] * 99)))[0][1] is False
    assert bins(merge_plan(sized(*[1] * 100)))[0][1] is True


@examples(50)
@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 2), st.sampled_from(["data", "deletes"])), max_size=12),
    st.integers(1, 5),
)
def test_a_plan_has_every_manifest_once_and_no_merged_bin_over_the_target(shapes, min_count):
    rows = [
        manifest(str(i), manifest_length=size, partition_spec_id=spec, content=content)
        for i, (size, spec, content) in enumerate(shapes)
    ]
    plan = merge_plan(rows, target_bytes=100, min_count=min_count)
    planned = [m for packed in plan for m in packed.manifests]
    assert sorted(planned, key=lambda m: int(m.manifest_path)) == rows
    for packed in plan:
        assert not packed.merge or sum(m.manifest_length for m in packed.manifests) <= 100
        assert len({(m.content, m.partition_spec_id) for m in packed.manifests}) == 1
        order = [int(m.manifest_path) for m in packed.manifests]
        assert order == sorted(order)


def test_merging_keeps_what_this_snapshot_did_and_settles_what_others_did():
    own = [added("mine", snapshot_id=SNAPSHOT), deleted("gone", snapshot_id=SNAPSHOT, sequence_number=2)]
    older = [
        added("theirs", snapshot_id=3, sequence_number=3),
        existing("old", snapshot_id=1, sequence_number=1),
        deleted("long gone", snapshot_id=4, sequence_number=1),
    ]
    merged = merge_entries([own, older], snapshot_id=SNAPSHOT)
    assert merged == [*own, msgspec.structs.replace(older[0], status=Status.EXISTING), older[1]]


@pytest.mark.parametrize("snapshot_id", [-1, 0, 7, None])
def test_merging_for_no_snapshot_settles_what_any_did_whatever_its_number(snapshot_id):
    gone = deleted("gone", snapshot_id=snapshot_id, sequence_number=2)
    kept = added("kept", snapshot_id=snapshot_id, sequence_number=3)
    assert merge_entries([[gone, kept]], snapshot_id=None) == [msgspec.structs.replace(kept, status=Status.EXISTING)]


def test_a_removed_file_becomes_a_tombstone_of_this_snapshot_with_its_old_numbers():
    rows = [existing("a", snapshot_id=1, sequence_number=4), added("b", snapshot_id=2, sequence_number=6)]
    first, second = rewrite_without(rows, {"a", "b"}, snapshot_id=SNAPSHOT)
    assert (first.status, first.snapshot_id, first.sequence_number, first.file_sequence_number) == (2, SNAPSHOT, 4, 4)
    assert (second.status, second.snapshot_id, second.sequence_number) == (2, SNAPSHOT, 6)


def test_files_that_stay_are_existing_and_older_tombstones_go():
    rows = [added("a", snapshot_id=2, sequence_number=6), deleted("b", snapshot_id=3), existing("c")]
    kept = rewrite_without(rows, ["z", "b"], snapshot_id=SNAPSHOT)
    assert [(e.data_file.file_path, e.status, e.snapshot_id) for e in kept] == [
        ("a", Status.EXISTING, 2),
        ("c", Status.EXISTING, 1),
    ]


def test_a_file_that_the_same_snapshot_adds_stays_added_or_leaves_no_trace():
    rows = [added("a", snapshot_id=SNAPSHOT), added("b", snapshot_id=SNAPSHOT)]
    assert rewrite_without(rows, {"b"}, snapshot_id=SNAPSHOT) == rows[:1]


def test_deletion_vectors_that_share_a_file_are_told_apart():
    def vector(of):
        return existing("dv", content="position-deletes", file_format="puffin", referenced_data_file=of)

    def removes(file: DataFile) -> bool:
        return file.referenced_data_file == "x"

    kept = rewrite_without([vector("x"), vector("y")], removes, snapshot_id=SNAPSHOT)
    assert [(e.data_file.referenced_data_file, e.status) for e in kept] == [("x", 2), ("y", 0)]


def test_row_ids_move_with_their_files():
    entry = added("a", snapshot_id=2, sequence_number=2, first_row_id=800)
    for moved in (rewrite_without([entry], (), snapshot_id=SNAPSHOT), merge_entries([[entry]], snapshot_id=SNAPSHOT)):
        assert moved[0].data_file.first_row_id == 800
