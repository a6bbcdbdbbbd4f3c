"""Requirements of the REST specification: what a writer assumed either holds, or is named."""

from __future__ import annotations

import pytest

from firn.model.errors import InvalidMetadata
from firn.model.refs import create
from firn.model.rest_requirements import (
    AssertCreate,
    check_requirements,
    check_view_requirements,
    requirement_from_json,
    requirement_to_json,
    requirements_for,
    requirements_from_json,
    type_of,
)
from firn.model.rest_updates import updates_from_json
from firn.model.snapshot import SnapshotRef
from tests.strategies.metadata import START_MS, UUID, appended, table

BASE = create(
    appended(appended(table(), 1), 2, branch="b"), "t", SnapshotRef(snapshot_id=1, type="tag"), now_ms=START_MS
)
HOLDING = [
    {"type": "assert-table-uuid", "uuid": UUID.upper()},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
    {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": None},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
]
FAILING = [
    ({"type": "assert-create"}, "table already exists"),
    ({"type": "assert-table-uuid", "uuid": "x"}, f"UUID does not match: expected {UUID} != x"),
    ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}, "branch main has changed: expected id 7"),
    ({"type": "assert-ref-snapshot-id", "ref": "t", "snapshot-id": None}, "tag t was created concurrently"),
    ({"type": "assert-ref-snapshot-id", "ref": "x", "snapshot-id": 7}, "branch or tag x is missing, expected 7"),
    ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1}, "field id changed: expected id 1 != 2"),
    ({"type": "assert-current-schema-id", "current-schema-id": 1}, "current schema changed: expected id 1 != 0"),
    ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1}, "expected id 1 != 999"),
    ({"type": "assert-default-spec-id", "default-spec-id": 1}, "default partition spec changed: expected id 1 != 0"),
    ({"type": "assert-default-sort-order-id", "default-sort-order-id": 1}, "sort order changed: expected id 1 != 0"),
    ({"type": "assert-view-uuid", "uuid": UUID}, "cannot be asserted of a table"),
]  # fmt: skip


def test_what_holds_holds():
    assert check_requirements(BASE, requirements_from_json(HOLDING)) is None
    assert check_requirements(None, [AssertCreate()]) is None


@pytest.mark.parametrize(("requirement", "message"), FAILING, ids=lambda value: str(value)[:60])
def test_what_does_not_hold_says_how(requirement, message):
    unmet = check_requirements(BASE, requirements_from_json([*HOLDING, requirement]))
    assert unmet is not None
    assert unmet.message.startswith("Requirement failed: ")
    assert message in unmet.message
    assert requirement_to_json(unmet.requirement) == requirement


@pytest.mark.parametrize("requirement", HOLDING)
def test_nothing_can_be_required_of_a_table_that_does_not_exist(requirement):
    unmet = check_requirements(None, [requirement_from_json(requirement)])
    assert unmet is not None
    assert unmet.message == "Requirement failed: table does not exist"


@pytest.mark.parametrize("requirement", [*HOLDING, *(one for one, _ in FAILING)])
def test_requirements_are_written_as_they_were_read(requirement):
    assert requirement_to_json(requirement_from_json(requirement)) == requirement


@pytest.mark.parametrize(
    ("requirement", "where"),
    [
        ({"type": "assert-nothing"}, "r.type"),
        ({"uuid": "x"}, "r.type"),
        ({"type": "assert-table-uuid"}, "r.uuid"),
        ({"type": "assert-table-uuid", "uuid": 1}, "r.uuid"),
        ({"type": "assert-create", "uuid": "x"}, "r.uuid"),
        ({"type": "assert-ref-snapshot-id", "ref": "main"}, "r.snapshot-id"),
        ({"type": "assert-default-spec-id", "default-spec-id": "0"}, "r.default-spec-id"),
        (None, "r"),
    ],
)
def test_a_malformed_requirement_is_refused_by_member(requirement, where):
    with pytest.raises(InvalidMetadata) as caught:
        requirement_from_json(requirement, where="r")
    assert caught.value.where == where


def set_ref(name):
    return {"action": "set-snapshot-ref", "ref-name": name, "snapshot-id": 1, "type": "branch"}


def test_every_branch_that_moves_is_required_by_itself():
    updates = updates_from_json([set_ref("main"), set_ref("b"), set_ref("main"), set_ref("new")])
    needed = [requirement_to_json(one) for one in requirements_for(updates, BASE)]
    assert needed[1:] == [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "b", "snapshot-id": 2},
        {"type": "assert-ref-snapshot-id", "ref": "new", "snapshot-id": None},
    ]


def test_a_replacement_requires_only_the_ids_it_builds_on():
    updates = updates_from_json(
        [
            {"action": "add-schema", "schema": {"type": "struct", "fields": []}},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            set_ref("main"),
        ]
    )
    assert [type_of(one) for one in requirements_for(updates, BASE, replacing=True)] == [
        "assert-table-uuid", "assert-last-assigned-field-id", "assert-last-assigned-partition-id",
    ]  # fmt: skip


def test_a_view_is_asserted_by_its_uuid_only():
    same = requirement_from_json({"type": "assert-view-uuid", "uuid": "U"})
    assert check_view_requirements("u", [same]) is None
    unmet = check_view_requirements("v", [same])
    assert unmet is not None
    assert "view UUID does not match" in unmet.message
    assert check_view_requirements(None, [AssertCreate()]) is None
    for view_uuid, requirement in (("u", AssertCreate()), ("u", requirement_from_json(HOLDING[0])), (None, same)):
        assert check_view_requirements(view_uuid, [requirement]) is not None
