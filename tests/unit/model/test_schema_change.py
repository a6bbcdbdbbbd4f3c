from __future__ import annotations

import pytest

from firn.model.errors import InvalidInput
from firn.model.schema_change import (
    CHANGES_MAX,
    AddColumn,
    DropColumn,
    MakeOptional,
    MoveAfter,
    MoveBefore,
    MoveFirst,
    RenameColumn,
    RequireColumn,
    SetDefault,
    SetIdentifierFields,
    UpdateDoc,
    UpdateType,
    change_from_json,
    change_to_json,
    changes_from_json,
)
from firn.model.types import INT, LONG, DecimalType

CHANGES = [
    (AddColumn(name="a", type=INT), {"action": "add-column", "name": "a", "type": "int"}),
    (
        AddColumn(name="a", type=DecimalType(9, 2), parent="", required=True, doc="d", default="1.00"),
        {
            "action": "add-column",
            "name": "a",
            "type": "decimal(9, 2)",
            "parent": "",
            "required": True,
            "doc": "d",
            "default": "1.00",
        },
    ),
    (DropColumn(name="a"), {"action": "drop-column", "name": "a"}),
    (RenameColumn(name="a", new_name="b"), {"action": "rename-column", "name": "a", "new-name": "b"}),
    (UpdateType(name="a", type=LONG), {"action": "update-column-type", "name": "a", "type": "long"}),
    (UpdateDoc(name="a", doc=None), {"action": "update-column-doc", "name": "a", "doc": None}),
    (SetDefault(name="a", default=3), {"action": "set-column-default", "name": "a", "default": 3}),
    (MakeOptional(name="a"), {"action": "make-column-optional", "name": "a"}),
    (RequireColumn(name="a"), {"action": "require-column", "name": "a"}),
    (MoveFirst(name="a"), {"action": "move-column-first", "name": "a"}),
    (MoveBefore(name="a", reference="b"), {"action": "move-column-before", "name": "a", "reference": "b"}),
    (MoveAfter(name="a", reference="b"), {"action": "move-column-after", "name": "a", "reference": "b"}),
    (SetIdentifierFields(names=("a", "b.c")), {"action": "set-identifier-fields", "names": ["a", "b.c"]}),
]


@pytest.mark.parametrize(("change", "obj"), CHANGES, ids=[type(c).__name__ for c, _ in CHANGES])
def test_a_change_has_this_json(change, obj):
    assert change_to_json(change) == obj
    assert change_from_json(obj) == change


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (1, "changes[0]: must be an object"),
        ({}, "changes[0].action: missing"),
        ({"action": "remove-column"}, "changes[0].action: unknown action 'remove-column'"),
        ({"action": "drop-column"}, "changes[0].name: missing"),
        ({"action": "drop-column", "name": 1}, "changes[0].name: must be a string"),
        ({"action": "drop-column", "name": "a", "cascade": True}, "changes[0]: drop-column has no member 'cascade'"),
        ({"action": "rename-column", "name": "a", "new_name": "b"}, "changes[0]: rename-column has no member"),
        ({"action": "add-column", "name": "a", "type": "intt"}, "changes[0].type: unknown type"),
        (
            {"action": "add-column", "name": "a", "type": "int", "required": "y"},
            "changes[0].required: must be a boolean",
        ),
        ({"action": "set-column-default", "name": "a"}, "changes[0].default: missing"),
        ({"action": "set-identifier-fields", "names": "a"}, "changes[0].names: must be an array"),
        ({"action": "set-identifier-fields", "names": [1]}, "changes[0].names[0]: must be a string"),
    ],
)
def test_a_malformed_change_is_refused_with_the_path_of_the_member(obj, message):
    with pytest.raises(InvalidInput) as caught:
        changes_from_json([obj])
    assert str(caught.value).startswith(message)


def test_lists_of_changes_have_a_limit():
    drop = {"action": "drop-column", "name": "a"}
    assert len(changes_from_json([drop] * CHANGES_MAX)) == CHANGES_MAX
    with pytest.raises(InvalidInput, match=f"{CHANGES_MAX + 1} changes"):
        changes_from_json([drop] * (CHANGES_MAX + 1))
    with pytest.raises(InvalidInput, match="must be an array"):
        changes_from_json(drop)
