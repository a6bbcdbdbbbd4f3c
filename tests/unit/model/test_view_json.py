"""View metadata survives its JSON, and wrong metadata is refused by name."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from pyiceberg.view.metadata import ViewMetadata as TheirViewMetadata

from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.view import UnknownRepresentation
from firn.model.view_changes import replace_view
from firn.model.view_json import view_metadata_from_json, view_metadata_to_json, view_version_from_json
from tests.strategies.examples import examples
from tests.strategies.metadata import SCHEMA, START_MS
from tests.strategies.views import version, view, views

PLAN = {"type": "substrait", "plan": {"relations": [1, None]}}


@pytest.fixture
def full():
    """JSON of a view with two versions, a property and a representation that nobody knows."""
    metadata = replace_view(
        view(properties={"comment": "Daily counts"}), version("SELECT 2", "spark", "trino"), SCHEMA, now_ms=START_MS + 5
    )
    out = json.loads(json.dumps(view_metadata_to_json(metadata)))
    out["versions"][1]["representations"].append(PLAN)
    return out


@given(views())
@examples(60, suppress_health_check=[HealthCheck.too_slow])
def test_metadata_reads_back_as_it_was_written(metadata):
    text = msgspec.json.encode(view_metadata_to_json(metadata))
    assert view_metadata_from_json(text) == metadata
    assert view_metadata_to_json(view_metadata_from_json(text)) == json.loads(text)


@given(views(known_only=True))
@examples(25, suppress_health_check=[HealthCheck.too_slow])
def test_pyiceberg_parses_arbitrary_metadata(metadata):
    # PyIceberg does not know every type; that its schemas are ours is tested with tables.
    metadata = msgspec.structs.replace(
        metadata, schemas=tuple(msgspec.structs.replace(SCHEMA, schema_id=one.schema_id) for one in metadata.schemas)
    )
    theirs = TheirViewMetadata.model_validate_json(msgspec.json.encode(view_metadata_to_json(metadata)))
    assert theirs.view_uuid == metadata.view_uuid
    assert theirs.properties == metadata.properties
    assert [one.timestamp_ms for one in theirs.version_log] == [one.timestamp_ms for one in metadata.version_log]
    for ours, their in zip(metadata.versions, theirs.versions, strict=True):
        assert their.summary == ours.summary
        assert their.default_namespace == ours.default_namespace
        assert [one.root.sql for one in their.representations] == [one.sql for one in ours.representations]


def test_a_representation_that_nobody_knows_is_kept(full):
    metadata = view_metadata_from_json(full)
    assert metadata.current_version.representations[2] == UnknownRepresentation(
        type="substrait", extra={"plan": PLAN["plan"]}
    )
    assert metadata.current_version.dialects == ("spark", "trino")
    assert view_metadata_to_json(metadata) == full


def test_unknown_members_survive_at_every_level(full):
    for obj in (
        full,
        full["schemas"][0],
        full["versions"][0],
        full["versions"][0]["representations"][0],
        full["version-log"][1],
    ):
        obj["from-the-future"] = {"a": [1]}
    assert view_metadata_to_json(view_metadata_from_json(full)) == full


def test_readers_of_either_edition_find_what_they_require(full):
    required = {
        "view-uuid", "format-version", "location", "schemas", "current-version-id", "versions", "version-log",
        "current-schema-id",
    }  # fmt: skip
    assert required <= set(full)
    assert [one["summary"]["operation"] for one in full["versions"]] == ["create", "replace"]
    assert {"version-id", "schema-id", "timestamp-ms", "default-namespace"} <= set(full["versions"][0])


def test_the_current_schema_is_always_that_of_the_current_version(full):
    full["current-schema-id"] = 77
    assert view_metadata_to_json(view_metadata_from_json(full))["current-schema-id"] == 0


def test_what_may_be_missing_is_filled_in(full):
    del full["view-uuid"], full["version-log"], full["properties"]
    for one in full["versions"]:
        del one["summary"], one["schema-id"], one["default-namespace"], one["default-catalog"]
    metadata = view_metadata_from_json(full)
    assert (metadata.view_uuid, metadata.version_log, metadata.properties) == ("", (), {})
    assert [one.schema_id for one in metadata.versions] == [0, 0]
    assert metadata.current_version.default_namespace == ()
    assert metadata.current_version.summary == {}
    out = view_metadata_to_json(metadata)
    assert "view-uuid" not in out
    assert out["version-log"] == []


def test_names_are_completed_as_the_representations_of_the_first_edition_say(full):
    *_, one = full["versions"]
    del one["default-catalog"], one["default-namespace"]
    spark, trino, _ = one["representations"]
    spark["default-catalog"] = trino["default-catalog"] = "old"
    spark["default-namespace"] = trino["default-namespace"] = ["a", "b"]
    metadata = view_metadata_from_json(full)
    assert metadata.current_version.default_catalog == "old"
    assert metadata.current_version.default_namespace == ("a", "b")
    out = view_metadata_to_json(metadata)["versions"][1]
    assert out["representations"] == one["representations"]
    trino["default-catalog"], trino["default-namespace"] = "other", ["c"]
    disputed = view_metadata_from_json(full).current_version
    assert (disputed.default_catalog, disputed.default_namespace) == (None, ())


def test_a_version_says_its_own_defaults_over_those_of_its_representations(full):
    full["versions"][1]["representations"][0]["default-namespace"] = ["ignored"]
    assert view_metadata_from_json(full).current_version.default_namespace == ("default",)


def test_old_versions_may_have_lost_their_schema(full):
    full["versions"][0]["schema-id"] = 12
    metadata = view_metadata_from_json(full)
    assert metadata.schema_by_id(12) is None
    assert metadata.current_schema.schema_id == 0


@pytest.mark.parametrize(
    "key", ["format-version", "location", "schemas", "current-version-id", "versions", "current-schema-id"]
)
def test_a_missing_required_member_is_named(full, key):
    del full[key]
    if key == "current-schema-id":
        del full["versions"][1]["schema-id"]
        key = "versions[1].schema-id"
    with pytest.raises(InvalidMetadata) as caught:
        view_metadata_from_json(full)
    assert caught.value.where == f"metadata.{key}"
    assert "missing" in caught.value.message


VERSION = "versions[1]"
SPARK = f"{VERSION}.representations[0]"


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ([], [], ""),
        (["view-uuid"], 3, "view-uuid"),
        (["format-version"], 0, "format-version"),
        (["format-version"], True, "format-version"),
        (["location"], "", "location"),
        (["properties"], ["a"], "properties"),
        (["properties", "comment"], None, "properties.comment"),
        (["current-schema-id"], "0", "current-schema-id"),
        (["schemas"], {}, "schemas"),
        (["schemas"], [], f"{VERSION}.schema-id"),
        (["schemas", 0, "fields", 0, "type"], "lang", "schemas[0].fields[0].type"),
        (["current-version-id"], 2**31, "current-version-id"),
        (["current-version-id"], 3, "current-version-id"),
        (["versions"], "x", "versions"),
        (["versions", 1], None, VERSION),
        (["versions", 1, "version-id"], 1, VERSION),
        (["versions", 1, "version-id"], 1.5, f"{VERSION}.version-id"),
        (["versions", 1, "timestamp-ms"], None, f"{VERSION}.timestamp-ms"),
        (["versions", 1, "summary", "operation"], 1, f"{VERSION}.summary.operation"),
        (["versions", 1, "default-namespace"], "default", f"{VERSION}.default-namespace"),
        (["versions", 1, "default-namespace"], [1], f"{VERSION}.default-namespace[0]"),
        (["versions", 1, "default-catalog"], [], f"{VERSION}.default-catalog"),
        (["versions", 1, "representations"], None, f"{VERSION}.representations"),
        (["versions", 1, "representations", 0], "SELECT", SPARK),
        (["versions", 1, "representations", 0, "type"], None, f"{SPARK}.type"),
        (["versions", 1, "representations", 0, "sql"], None, f"{SPARK}.sql"),
        (["versions", 1, "representations", 0, "dialect"], 1, f"{SPARK}.dialect"),
        (["version-log", 0], 1, "version-log[0]"),
        (["version-log", 0, "version-id"], None, "version-log[0].version-id"),
    ],
)
def test_a_wrong_member_is_named(full, path, value, where):
    document = {"view": full}
    keys = ["view", *path]
    obj: Any = document
    for key in keys[:-1]:
        obj = obj[key]
    obj[keys[-1]] = value
    with pytest.raises(InvalidInput) as caught:
        view_metadata_from_json(document["view"], where="v.json")
    assert caught.value.where == ("v.json" if not where else f"v.json.{where}")


def test_schema_ids_are_not_used_twice(full):
    full["schemas"].append(copy.deepcopy(full["schemas"][0]))
    with pytest.raises(InvalidMetadata, match=r"schemas\[1\]: schema-id 0 appears twice"):
        view_metadata_from_json(full)


@pytest.mark.parametrize("number", [2, 42, 2**31 - 1])
def test_a_newer_format_is_not_guessed_at(full, number):
    with pytest.raises(Unsupported, match=f"unsupported format version {number}"):
        view_metadata_from_json({**full, "format-version": number})


def test_the_type_sql_is_written_in_any_case():
    obj = {"version-id": 1, "schema-id": 0, "timestamp-ms": 5, "representations": []}
    obj["representations"] = [{"type": "SQL", "sql": "SELECT 1", "dialect": "Trino"}]
    assert view_version_from_json(obj).dialects == ("trino",)
