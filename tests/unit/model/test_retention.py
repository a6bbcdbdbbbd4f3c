"""What expires is what the rules say, and what must stay says why it stays."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firn.model import refs
from firn.model.errors import InvalidInput
from firn.model.metadata_changes import set_properties
from firn.model.metadata_check import check_metadata
from firn.model.retention import Criteria, apply_expiry, plan_expiry, unused_schema_ids, unused_spec_ids
from firn.model.snapshot import SnapshotRef
from tests.strategies.examples import examples
from tests.strategies.metadata import START_MS, appended, table, tables

NOW = START_MS + 10**6
LATE = START_MS + 10**8


def test_what_an_intent_was_planned_on_stays_and_says_so():
    metadata = appended(table(), 1, 2, 3)
    decision = plan_expiry(metadata, Criteria(older_than_ms=LATE), now_ms=NOW, in_use={1: "an intent in flight"})
    assert decision.kept == {1: "an intent in flight", 3: "branch main"}
    assert list(decision.removed) == [2]
    decision = plan_expiry(metadata, Criteria(snapshot_ids=(1,)), now_ms=NOW, in_use={1: "an intent in flight"})
    assert decision.removed == {}


def test_a_referenced_snapshot_asked_for_can_be_kept_instead_of_failing():
    metadata = appended(table(), 1, 2)
    with pytest.raises(InvalidInput, match="cannot expire 2, still referenced by refs: main"):
        plan_expiry(metadata, Criteria(snapshot_ids=(1, 2)), now_ms=NOW)
    decision = plan_expiry(metadata, Criteria(snapshot_ids=(1, 2), keep_referenced=True), now_ms=NOW)
    assert (decision.kept, list(decision.removed)) == ({2: "branch main"}, [1])


def test_tables_that_share_files_do_not_expire():
    metadata = set_properties(appended(table(), 1), {"gc.enabled": "false"}, now_ms=NOW)
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        plan_expiry(metadata, Criteria(), now_ms=NOW)


def test_a_branch_stops_keeping_at_the_first_snapshot_too_old():
    metadata = appended(table(), 1, 3, 2, step=1000)  # 2 is newest and has an older time than its parent
    decision = plan_expiry(metadata, Criteria(older_than_ms=START_MS + 2500), now_ms=NOW)
    assert set(decision.kept) == {2, 3}
    decision = plan_expiry(metadata, Criteria(older_than_ms=START_MS + 3500), now_ms=NOW)
    assert set(decision.kept) == {2}


def test_nothing_to_expire_changes_nothing():
    metadata = appended(table(), 1, 2)
    decision = plan_expiry(metadata, Criteria(), now_ms=NOW)
    assert decision.is_empty
    assert apply_expiry(metadata, decision, now_ms=NOW) is metadata


def test_expired_branches_release_their_snapshots():
    metadata = appended(appended(table(), 1), 2, 3, branch="old")
    metadata = refs.set_retention(metadata, "old", max_ref_age_ms=10, now_ms=NOW)
    decision = plan_expiry(metadata, Criteria(older_than_ms=LATE), now_ms=NOW)
    assert list(decision.removed_refs) == ["old"]
    assert set(decision.removed) == {2, 3}
    after = apply_expiry(metadata, decision, now_ms=NOW)
    assert set(after.refs) == {"main"}
    check_metadata(after)


def test_the_default_ages_come_from_the_table():
    metadata = set_properties(
        appended(table(), 1, 2, 3),
        {"history.expire.max-snapshot-age-ms": "1000", "history.expire.min-snapshots-to-keep": "2"},
        now_ms=NOW,
    )
    assert list(plan_expiry(metadata, Criteria(), now_ms=LATE).removed) == [1]


def test_schemas_and_specs_that_nothing_names_are_found():
    metadata = appended(table(), 1)
    schema = metadata.current_schema
    more = tuple(msgspec.structs.replace(schema, schema_id=i) for i in (1, 2))
    spec = metadata.default_spec
    specs = tuple(msgspec.structs.replace(spec, spec_id=i) for i in (0, 1, 2))
    metadata = msgspec.structs.replace(
        metadata, schemas=(schema, *more), current_schema_id=2, partition_specs=specs, default_spec_id=1
    )
    assert unused_schema_ids(metadata) == (1,)
    assert unused_spec_ids(metadata, manifest_spec_ids={0}) == (2,)


@given(tables(), st.data())
@examples(20, suppress_health_check=[HealthCheck.too_slow])
def test_expiry_leaves_valid_metadata_and_every_reference_that_it_keeps(metadata, data):
    criteria = Criteria(
        older_than_ms=data.draw(st.none() | st.integers(START_MS, START_MS + 10**6)),
        retain_last=data.draw(st.none() | st.integers(1, 3)),
        snapshot_ids=tuple(data.draw(st.sets(st.sampled_from([one.snapshot_id for one in metadata.snapshots]))))
        if metadata.snapshots
        else (),
        keep_referenced=True,
    )
    metadata = msgspec.structs.replace(metadata, properties={})
    decision = plan_expiry(metadata, criteria, now_ms=NOW)
    assert set(decision.kept) | set(decision.removed) == {one.snapshot_id for one in metadata.snapshots}
    assert not set(decision.kept) & set(decision.removed)
    after = apply_expiry(metadata, decision, now_ms=NOW)
    check_metadata(after)
    assert {one.snapshot_id for one in after.snapshots} == set(decision.kept)
    assert set(after.refs) == set(metadata.refs) - set(decision.removed_refs)
    assert after.head() == metadata.head()
    again = plan_expiry(after, msgspec.structs.replace(criteria, snapshot_ids=()), now_ms=NOW)
    assert not again.removed_refs


def test_a_tag_keeps_its_snapshot_only():
    metadata = refs.create(appended(table(), 1, 2, 3, 4), "v3", SnapshotRef(snapshot_id=3, type="tag"), now_ms=NOW)
    decision = plan_expiry(metadata, Criteria(older_than_ms=LATE), now_ms=NOW)
    assert decision.kept == {3: "tag v3", 4: "branch main"}
