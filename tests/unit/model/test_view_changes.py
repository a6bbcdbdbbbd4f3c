"""A view changes by whole versions, forgets the oldest, and keeps a log that can be trusted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model import view_changes as changes
from firn.model.errors import InvalidMetadata, InvalidSchema, NotFound
from firn.model.schema import Schema
from firn.model.types import LONG, NestedField, StructType
from firn.model.view import NO_VIEW, SqlRepresentation, UnknownRepresentation
from firn.model.view_check import check_view
from firn.model.view_json import view_metadata_from_json, view_metadata_to_json
from tests.strategies.examples import examples
from tests.strategies.metadata import SCHEMA, START_MS, UUID
from tests.strategies.views import LOCATION, version, view

LATER = START_MS + 1000
OTHER = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="other", type=LONG, required=False),)))
replace = msgspec.structs.replace


def log(metadata):
    return [(entry.version_id, entry.timestamp_ms) for entry in metadata.version_log]


def ids(metadata):
    return [one.version_id for one in metadata.versions]


def replaced(metadata, *sqls, now_ms=LATER, **fields):
    for sql in sqls:
        metadata = changes.replace_view(metadata, version(sql, timestamp_ms=now_ms, **fields), SCHEMA, now_ms=now_ms)
    return metadata


def test_a_new_view_has_one_version_and_says_so():
    metadata = view(version("SELECT 1", version_id=70, schema_id=9), properties={"comment": "c"})
    assert (metadata.view_uuid, metadata.location, metadata.format_version) == (UUID, LOCATION, 1)
    assert (metadata.current_version_id, ids(metadata)) == (1, [1])
    assert metadata.current_schema == SCHEMA
    assert metadata.current_version.summary == {"operation": "create"}
    assert metadata.current_version.default_namespace == ("default",)
    assert log(metadata) == [(1, START_MS)]
    assert metadata.properties == {"comment": "c"}


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"view_uuid": "none"}, "view-uuid"),
        ({"location": ""}, "location"),
        ({"properties": {"version.history.num-entries": "0"}}, "properties.version.history.num-entries"),
        ({"properties": {"version.history.num-entries": "many"}}, "properties.version.history.num-entries"),
        ({"properties": {"write.metadata.compression-codec": "lz4"}}, "properties.write.metadata.compression-codec"),
        ({"given": version(representations=())}, "view-version.representations"),
        ({"given": version(" ")}, "view-version.representations[0].sql"),
        ({"given": version("SELECT 1", "")}, "view-version.representations[0].dialect"),
        ({"given": version("SELECT 1", "spark", "trino", "Spark")}, "view-version.representations[2].dialect"),
    ],
)
def test_what_a_new_view_may_not_have_is_named(settings, where):
    with pytest.raises(InvalidMetadata) as caught:
        view(**settings)
    assert caught.value.where == where


def test_a_schema_that_no_engine_could_query_is_refused():
    twice = replace(SCHEMA, struct=StructType((OTHER.fields[0], replace(OTHER.fields[0], field_id=2))))
    with pytest.raises(InvalidSchema, match="two columns are named other"):
        view(schema=twice)


def test_a_replacement_is_a_new_version():
    base = view()
    metadata = changes.replace_view(base, version("SELECT 2", timestamp_ms=LATER), OTHER, now_ms=LATER)
    assert (metadata.current_version_id, ids(metadata)) == (2, [1, 2])
    assert metadata.versions[0] is base.versions[0]
    assert metadata.current_version.summary == {"operation": "replace"}
    assert metadata.current_schema.struct == OTHER.struct
    assert [schema.schema_id for schema in metadata.schemas] == [0, 1]
    assert log(metadata) == [(1, START_MS), (2, LATER)]


def test_replacing_a_view_by_what_it_is_changes_nothing():
    base = view()
    assert changes.replace_view(base, version(timestamp_ms=LATER), SCHEMA, now_ms=LATER) is base


def test_replacing_a_view_by_what_it_was_reuses_the_old_version():
    base = replaced(view(), "SELECT 2")
    again = changes.replace_view(base, version(timestamp_ms=LATER + 1), SCHEMA, now_ms=LATER + 2)
    assert again.versions == base.versions
    assert again.current_version_id == 1
    assert again.current_version.timestamp_ms == START_MS
    assert log(again)[-1] == (1, LATER + 2)


@pytest.mark.parametrize(
    "difference",
    [
        {"summary": {"engine-name": "Trino"}},
        {"default_catalog": None},
        {"default_namespace": ("other",)},
        {"extra": {"x": 1}},
        {"representations": (SqlRepresentation(sql="SELECT 1", dialect="spark", extra={"x": 1}),)},
        {
            "representations": (
                SqlRepresentation(sql="SELECT 1", dialect="spark"),
                UnknownRepresentation(type="substrait"),
            )
        },
    ],
)
def test_any_other_content_is_another_version(difference):
    metadata = changes.replace_view(view(), version(**difference), SCHEMA, now_ms=LATER)
    assert ids(metadata) == [1, 2]
    other_schema = changes.replace_view(view(), version(), OTHER, now_ms=LATER)
    assert ids(other_schema) == [1, 2]


def test_one_change_may_replace_the_query_the_properties_and_the_location():
    base = view(properties={"comment": "old", "kept": "1"})
    metadata = changes.replace_view(
        base, version("SELECT 2"), SCHEMA, now_ms=LATER, location="s3://b/new/", properties={"comment": "new"}
    )
    assert metadata.location == "s3://b/new"
    assert metadata.properties == {"comment": "new", "kept": "1"}


def test_a_rollback_is_logged_and_keeps_all_versions():
    base = replaced(view(), "SELECT 2", "SELECT 3")
    metadata = changes.roll_back_view(base, 1, now_ms=LATER + 5)
    assert metadata.current_version_id == 1
    assert ids(metadata) == [1, 2, 3]
    assert log(metadata) == [*log(base), (1, LATER + 5)]
    assert changes.roll_back_view(metadata, 1, now_ms=LATER + 9) is metadata
    with pytest.raises(NotFound, match="unknown version: 7"):
        changes.roll_back_view(metadata, 7, now_ms=LATER)


def test_a_rollback_to_a_version_without_its_schema_is_refused():
    base = replaced(view(), "SELECT 2")
    broken = replace(base, versions=(replace(base.versions[0], schema_id=5), base.versions[1]))
    with pytest.raises(InvalidMetadata, match="cannot find schema 5"):
        changes.roll_back_view(broken, 1, now_ms=LATER)


def test_ten_versions_are_kept_unless_the_view_says_otherwise():
    sqls = [f"SELECT {i}" for i in range(2, 16)]
    metadata = replaced(view(), *sqls)
    assert ids(metadata) == list(range(6, 16))
    assert [one for one, _ in log(metadata)] == list(range(6, 16))
    small = replaced(view(properties={"version.history.num-entries": "2"}), *sqls)
    assert ids(small) == [14, 15]
    assert [one for one, _ in log(small)] == [14, 15]


def test_the_log_does_not_outgrow_its_limit(monkeypatch):
    monkeypatch.setattr(changes, "VERSION_LOG_ENTRIES_MAX", 4)
    metadata = replaced(view(), "SELECT 2")
    for i in range(7):
        metadata = changes.roll_back_view(metadata, i % 2 + 1, now_ms=LATER + i)
    assert log(metadata) == [(2, LATER + 3), (1, LATER + 4), (2, LATER + 5), (1, LATER + 6)]


def test_the_log_never_runs_backwards():
    base = view()
    late = changes.replace_view(base, version("SELECT 2", timestamp_ms=START_MS - 500), SCHEMA, now_ms=LATER)
    assert log(late) == [(1, START_MS), (2, START_MS)]
    assert late.current_version.timestamp_ms == START_MS - 500
    back = changes.roll_back_view(replaced(base, "SELECT 2"), 1, now_ms=START_MS + 1)
    assert log(back)[-1] == (1, LATER)


def test_a_version_from_the_future_does_not_take_the_log_there():
    base = view()
    metadata = changes.replace_view(base, version("SELECT 2", timestamp_ms=2**62), SCHEMA, now_ms=LATER)
    assert log(metadata)[-1] == (2, LATER)


def test_a_view_that_loses_a_dialect_is_refused_with_the_way_out():
    base = view(version("SELECT 1", "spark", "Trino"))
    with pytest.raises(InvalidMetadata) as caught:
        changes.replace_view(base, version("SELECT 2", "SPARK", "presto"), SCHEMA, now_ms=LATER)
    assert "[spark, trino]" in caught.value.message
    assert "[spark, presto]" in caught.value.message
    assert "replace.drop-dialect.allowed" in str(caught.value.hint)
    allowed = {"replace.drop-dialect.allowed": "TRUE"}
    metadata = changes.replace_view(base, version("SELECT 2", "presto"), SCHEMA, now_ms=LATER, properties=allowed)
    assert metadata.current_version.dialects == ("presto",)


def test_a_broken_version_can_be_replaced():
    twice = (SqlRepresentation(sql="SELECT 1", dialect="spark"), SqlRepresentation(sql="SELECT 2", dialect="spark"))
    base = view()
    broken = replace(base, versions=(replace(base.versions[0], representations=twice),))
    assert replaced(broken, "SELECT 3").current_version.dialects == ("spark",)


def test_steps_that_change_nothing_give_back_the_same_object():
    base = view(properties={"a": "1"})
    assert changes.set_properties(base, {"a": "1"}) is base
    assert changes.set_properties(base, {}) is base
    assert changes.remove_properties(base, ["b"]) is base
    assert changes.set_location(base, f"{LOCATION}/") is base
    assert changes.assign_uuid(base, UUID) is base
    assert changes.upgrade(base, 1) is base
    assert changes.set_current_version(base, 1) is base
    assert changes.add_schema(base, replace(SCHEMA, schema_id=4)) == (base, 0)


def test_properties_are_set_and_removed():
    base = view(properties={"a": "1", "b": "2"})
    metadata = changes.remove_properties(changes.set_properties(base, {"a": "3", "c": "4"}), ["b", "x"])
    assert metadata.properties == {"a": "3", "c": "4"}
    assert log(changes.finished(metadata, base=base, now_ms=LATER)) == log(base)


def test_schemas_with_other_identifier_fields_are_not_the_same():
    _, schema_id = changes.add_schema(view(), replace(SCHEMA, identifier_field_ids=(1,)))
    assert schema_id == 1


def test_ids_that_no_reader_could_hold_are_refused():
    base = view()
    full = replace(base, versions=(replace(base.versions[0], version_id=2**31 - 1),), current_version_id=2**31 - 1)
    with pytest.raises(InvalidMetadata, match="above 2147483647"):
        replaced(full, "SELECT 2")


@pytest.mark.parametrize("given_id", [-1, 0, 1])
def test_version_ids_start_at_one(given_id):
    metadata, schema_id = changes.add_schema(NO_VIEW, SCHEMA)
    _, version_id = changes.add_version(metadata, version(version_id=given_id, schema_id=schema_id))
    assert version_id == 1
    base = view()
    foreign = replace(base, versions=(replace(base.versions[0], version_id=-2),), current_version_id=-2)
    assert replaced(foreign, "SELECT 2").current_version_id == 1


def test_a_view_of_the_first_edition_gets_a_uuid_before_it_is_changed():
    old = replace(view(), view_uuid="")
    with pytest.raises(InvalidMetadata, match="view-uuid: missing"):
        replaced(old, "SELECT 2")
    assert replaced(changes.assign_uuid(old, UUID), "SELECT 2").view_uuid == UUID


STEPS = st.one_of(
    st.tuples(st.just("replace"), st.integers(0, 6), st.sampled_from([SCHEMA, OTHER])),
    st.tuples(st.just("back"), st.integers(1, 9), st.none()),
    st.tuples(st.just("keep"), st.integers(1, 4), st.none()),
)


@given(st.lists(st.tuples(STEPS, st.integers(-50, 50)), max_size=15))
@examples(60)
def test_whatever_is_done_the_view_stays_whole(steps):
    metadata = view()
    now_ms = START_MS
    for (kind, number, schema), passed_ms in steps:
        now_ms += passed_ms
        before = metadata
        if kind == "replace":
            metadata = changes.replace_view(
                metadata, version(f"SELECT {number}", timestamp_ms=now_ms + passed_ms), schema, now_ms=now_ms
            )
            assert metadata.current_version.representations == version(f"SELECT {number}").representations
            assert metadata.current_schema.struct == schema.struct
        elif kind == "back" and metadata.version_by_id(number) is not None:
            metadata = changes.roll_back_view(metadata, number, now_ms=now_ms)
            assert metadata.current_version_id == number
        elif kind == "keep":
            kept = changes.set_properties(metadata, {"version.history.num-entries": str(number)})
            metadata = changes.finished(kept, base=metadata, now_ms=now_ms)
        check_view(metadata)
        times = [entry.timestamp_ms for entry in metadata.version_log]
        assert times == sorted(times)
        assert metadata.version_log[-1].version_id == metadata.current_version_id
        assert {entry.version_id for entry in metadata.version_log} <= set(ids(metadata))
        limit = int(metadata.properties.get("version.history.num-entries", 10))
        assert len(metadata.versions) <= limit
        for one in metadata.versions:
            # A version never changes while it is known.
            assert before.version_by_id(one.version_id) in (None, one)
        assert view_metadata_from_json(view_metadata_to_json(metadata)) == metadata
