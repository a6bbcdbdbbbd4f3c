"""The REST specification's view updates: read as it writes them, applied all or not at all."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from pydantic import TypeAdapter
from pyiceberg.view.metadata import ViewVersion as TheirViewVersion

from firn.model.errors import FirnError, InvalidInput, InvalidMetadata, NotFound
from firn.model.rest_requirements import AssertViewUuid, check_view_requirements, requirements_for_view
from firn.model.schema import schema_to_json
from firn.model.view_changes import replace_view
from firn.model.view_json import view_version_to_json
from firn.model.view_rest import apply_view_updates, view_update_from_json, view_updates_from_json, view_updates_to_json
from tests.strategies.metadata import SCHEMA, START_MS, UUID
from tests.strategies.views import LOCATION, version, view

NOW = START_MS + 1000
MORE: dict[str, Any] = {
    "type": "struct",
    "schema-id": 1,
    "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}],
}
VERSION = view_version_to_json(version("SELECT 2", version_id=2, schema_id=-1, timestamp_ms=NOW))
EVERY: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 1},
    {"action": "set-location", "location": LOCATION},
    {"action": "set-properties", "updates": {"comment": "c", "gone": "1"}},
    {"action": "remove-properties", "removals": ["gone"]},
    {"action": "add-schema", "schema": MORE, "last-column-id": 1},
    {"action": "add-view-version", "view-version": VERSION},
    {"action": "set-current-view-version", "view-version-id": -1},
]


def applied(metadata, *updates, now_ms=NOW):
    return apply_view_updates(metadata, view_updates_from_json(list(updates)), now_ms=now_ms)


def add(sql="SELECT 2", **fields):
    one = view_version_to_json(version(sql, **{"schema_id": 0, "timestamp_ms": NOW, **fields}))
    return {"action": "add-view-version", "view-version": one}


def current(number):
    return {"action": "set-current-view-version", "view-version-id": number}


def test_every_update_survives_its_json():
    read = view_updates_from_json(EVERY)
    assert json.loads(json.dumps(view_updates_to_json(read))) == EVERY


def test_pyiceberg_reads_the_version_of_an_update():
    [written] = view_updates_to_json(view_updates_from_json([EVERY[6]]))
    theirs = TypeAdapter(TheirViewVersion).validate_python(written["view-version"])
    assert theirs.representations[0].root.sql == "SELECT 2"


def test_a_view_is_created_by_updates():
    metadata = applied(None, *EVERY)
    assert (metadata.view_uuid, metadata.location, metadata.properties) == (UUID, LOCATION, {"comment": "c"})
    assert metadata.current_version_id == 2
    assert schema_to_json(metadata.current_schema) == MORE | {"schema-id": 0}
    assert [entry.version_id for entry in metadata.version_log] == [2]


@pytest.mark.parametrize("action", ["assign-uuid", "set-location", "add-schema", "set-current-view-version"])
def test_a_new_view_lacks_nothing(action):
    with pytest.raises(FirnError):
        applied(None, *(one for one in EVERY if one["action"] != action))


def test_a_new_view_needs_updates():
    with pytest.raises(InvalidMetadata, match="view-uuid: missing"):
        applied(None)


def test_updates_that_change_nothing_give_back_the_same_object():
    base = view()
    own = view_version_to_json(base.current_version)
    assert applied(base) is base
    nothing = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": LOCATION},
        {"action": "add-schema", "schema": schema_to_json(SCHEMA)},
        {"action": "add-view-version", "view-version": own | {"schema-id": -1, "timestamp-ms": 5}},
        current(-1),
    ]
    assert applied(base, *nothing) is base


def test_a_replacement_by_updates_is_the_same_as_a_replacement():
    base = view()
    given = version("SELECT 2", timestamp_ms=NOW, summary={"operation": "replace"})
    assert applied(base, add("SELECT 2", summary={"operation": "replace"}), current(-1)) == replace_view(
        base, given, SCHEMA, now_ms=NOW
    )


def test_the_last_added_stands_for_what_was_known_already():
    base = applied(view(), add("SELECT 2"), current(-1))
    again = applied(base, add("SELECT 1"), current(-1))
    assert again.current_version_id == 1
    assert len(again.versions) == 2


def test_a_version_added_under_a_taken_id_is_still_the_one_that_is_meant():
    # Another writer's version took id 2 meanwhile.
    base = applied(view(), add("SELECT 'other'", version_id=2))
    metadata = applied(base, add("SELECT 'mine'", version_id=2), current(2))
    assert metadata.current_version_id == 3
    assert metadata.current_version.representations[0].sql == "SELECT 'mine'"


def test_a_schema_added_under_a_taken_id_is_still_the_one_that_is_meant():
    base = applied(view(), {"action": "add-schema", "schema": MORE})
    mine = copy.deepcopy(MORE)
    mine["fields"][0]["name"] = "mine"
    metadata = applied(base, {"action": "add-schema", "schema": mine}, add(schema_id=1), current(-1))
    assert metadata.current_schema.fields[0].name == "mine"


def test_the_first_of_several_equal_ids_has_it():
    metadata = applied(view(), add("SELECT 2", version_id=5), add("SELECT 3", version_id=5), current(5))
    assert metadata.current_version.representations[0].sql == "SELECT 2"
    assert [one.version_id for one in metadata.versions] == [1, 5, 6]


def test_one_commit_logs_one_change():
    base = applied(view(), add("SELECT 2"), current(-1))
    metadata = applied(base, current(1), current(2), current(1), now_ms=NOW + 5)
    assert [(one.version_id, one.timestamp_ms) for one in metadata.version_log[2:]] == [(1, NOW + 5)]
    assert applied(base, add("SELECT 3"), current(1), current(2)).version_log == base.version_log


def test_a_failing_update_is_named_and_nothing_is_changed():
    base = view()
    before = copy.deepcopy(base)
    good = {"action": "set-properties", "updates": {"a": "1"}}
    for bad, where in (
        (add(schema_id=9), "updates[1].schema-id"),
        (add(representations=()), "updates[1].view-version.representations"),
        (current(-1), "updates[1]"),
        (add(schema_id=-1), "updates[1]"),
        ({"action": "set-location", "location": ""}, "updates[1].location"),
        ({"action": "upgrade-format-version", "format-version": 2}, "updates[1].format-version"),
    ):
        with pytest.raises(InvalidInput) as caught:
            applied(base, good, bad)
        assert caught.value.where == where
    with pytest.raises(NotFound, match="unknown version: 8"):
        applied(base, good, current(8))
    assert base == before


@pytest.mark.parametrize(
    ("update", "where"),
    [
        ([], "update"),
        ({}, "update.action"),
        ({"action": "paint"}, "update.action"),
        ({"action": "set-current-schema", "schema-id": 1}, "update.action"),
        ({"action": "remove-snapshots", "snapshot-ids": [1]}, "update.action"),
        ({"action": "add-view-version"}, "update.view-version"),
        ({"action": "add-view-version", "view-version": []}, "update.view-version"),
        ({"action": "add-view-version", "view-version": {"representations": []}}, "update.view-version.schema-id"),
        ({**EVERY[6], "version": 1}, "update.version"),
        ({"action": "set-current-view-version"}, "update.view-version-id"),
        ({"action": "set-current-view-version", "view-version-id": "1"}, "update.view-version-id"),
        ({"action": "set-current-view-version", "view-version-id": 1, "view-version": 2}, "update.view-version"),
        ({"action": "set-properties", "updates": {"a": 1}}, "update.updates.a"),
    ],
)
def test_a_wrong_member_is_named(update, where):
    with pytest.raises(InvalidMetadata) as caught:
        view_update_from_json(update)
    assert caught.value.where == where


@pytest.mark.parametrize("value", [None, {}, "x", [1] * 10_001])
def test_updates_are_a_list_of_bounded_length(value):
    with pytest.raises(InvalidInput, match="updates: "):
        view_updates_from_json(value)


def test_the_uuid_is_what_can_be_required_of_a_view():
    metadata = view()
    assert check_view_requirements(metadata.view_uuid, requirements_for_view(metadata.view_uuid)) is None
    unmet = check_view_requirements(metadata.view_uuid, [AssertViewUuid(uuid="0" * 8 + UUID[8:])])
    assert unmet is not None
    assert "view UUID does not match" in unmet.message
