from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidSchema
from firn.model.schema import schema_from_json, schema_to_json
from firn.model.schema_change import (
    AddColumn,
    DropColumn,
    MakeOptional,
    MoveAfter,
    MoveBefore,
    MoveFirst,
    RenameColumn,
    RequireColumn,
    SchemaChange,
    SetDefault,
    SetIdentifierFields,
    UpdateDoc,
    UpdateType,
)
from firn.model.schema_rules import validate_schema
from firn.model.schema_update import apply_changes
from firn.model.type_json import type_from_json
from firn.model.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    ListType,
    StructType,
)
from tests.strategies.examples import examples
from tests.strategies.schemas import schemas, types


def field(field_id, name, type, *, required=False, **members):
    return {"id": field_id, "name": name, "required": required, "type": type, **members}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


POINT = struct(field(10, "x", "int", required=True), field(11, "y", "int", required=True))
BASE = schema_from_json(
    {
        **struct(
            field(1, "id", "int", required=True),
            field(2, "day", "date", **{"initial-default": "2020-01-02", "write-default": "1969-12-31"}),
            field(3, "home", struct(field(8, "street", "string"), field(9, "zip", "int"))),
            field(4, "points", {"type": "list", "element-id": 7, "element": POINT, "element-required": True}),
            field(
                5,
                "places",
                {
                    "type": "map",
                    "key-id": 12,
                    "key": struct(field(14, "zip", "int")),
                    "value-id": 13,
                    "value": struct(field(15, "name", "string")),
                    "value-required": True,
                },
            ),
            field(6, "nothing", "unknown"),
        ),
        "schema-id": 3,
    }
)
LAST = 20


def apply(*changes, **options):
    return apply_changes(BASE, changes, **{"last_column_id": LAST, "format_version": 3, **options})


def names(schema):
    return [f.name for f in schema.fields]


def refused(match, *changes, **options):
    with pytest.raises(InvalidSchema, match=match):
        apply(*changes, **options)


def test_no_changes_change_nothing():
    assert apply() == (BASE, LAST)


def test_new_columns_get_ids_that_no_dropped_column_had():
    schema, last = apply(AddColumn(name="a", type=INT), AddColumn(name="z", parent="home", type=STRING))
    assert schema.find_field("a") == schema.field_by_id(21)
    assert schema.find_field("home.z") == schema.field_by_id(22)
    assert (last, schema.schema_id) == (22, 3)
    assert apply_changes(BASE, [AddColumn(name="a", type=INT)], last_column_id=0, format_version=3)[1] == 16


def test_an_added_nested_type_gets_its_ids_when_it_is_applied():
    type = type_from_json({"type": "list", "element-id": 1, "element": POINT, "element-required": True})
    schema, last = apply(AddColumn(name="a", type=type), AddColumn(name="b", type=INT))
    assert {n: i for i, n in schema.names_by_id.items() if i > LAST} == {
        "a": 21,
        "a.element": 22,
        "a.element.x": 23,
        "a.element.y": 24,
        "b": 25,
    }
    assert last == 25


def test_columns_are_added_to_list_elements_and_map_values_under_either_name():
    schema, _ = apply(
        AddColumn(name="z", parent="points", type=INT),
        AddColumn(name="w", parent="points.element", type=INT),
        AddColumn(name="city", parent="places", type=STRING),
        UpdateDoc(name="points.z", doc="depth"),
        MoveFirst(name="points.element.w"),
    )
    points = schema.field_by_id(7)
    assert points is not None
    assert isinstance(points.type, StructType)
    assert [f.name for f in points.type.fields] == ["w", "x", "y", "z"]
    assert points.type.fields[3].doc == "depth"
    assert schema.find_field("places.value.city") is not None


def test_a_default_becomes_both_defaults_of_a_new_column():
    schema, _ = apply(AddColumn(name="a", type=DATE, required=True, default="1970-01-02"))
    added = schema.find_field("a")
    assert added is not None
    assert (added.initial_default, added.write_default) == (1, 1)


def test_a_default_of_a_nested_column_follows_its_new_ids():
    of = ListType(element_id=1, element=type_from_json(POINT), element_required=True)
    schema, _ = apply(AddColumn(name="a", type=of, default=[{"10": 5}]))
    added = schema.find_field("a")
    assert added is not None
    assert added.initial_default == ({schema.ids_by_name["a.x"]: 5},)


@pytest.mark.parametrize("version", [1, 2])
def test_old_tables_get_no_defaults_and_no_new_types(version):
    old = schema_from_json(struct(field(1, "id", "int")))
    cases: list[tuple[SchemaChange, str]] = [
        (AddColumn(name="a", type=INT, default=1), "default of a needs format version 3"),
        (SetDefault(name="id", default=1), "default of id needs format version 3"),
        (AddColumn(name="a", type=VARIANT), "column a of type variant needs format version 3"),
        (UpdateType(name="id", type=TIMESTAMP_NS), "from int to timestamp_ns"),
    ]
    for change, reason in cases:
        with pytest.raises(InvalidSchema, match=reason):
            apply_changes(old, [change], last_column_id=1, format_version=version)


def test_a_name_can_be_dropped_and_added_again_as_another_column():
    schema, last = apply(DropColumn(name="day"), AddColumn(name="day", type=STRING), UpdateDoc(name="day", doc="new"))
    found = schema.find_field("day")
    assert found is not None
    assert (found.field_id, found.type, found.doc, last) == (21, STRING, "new", 21)
    assert schema.field_by_id(2) is None


def test_names_are_those_before_the_changes_so_that_columns_can_swap():
    schema, _ = apply(RenameColumn(name="id", new_name="day"), RenameColumn(name="day", new_name="id"))
    assert names(schema)[:2] == ["day", "id"]
    assert [f.field_id for f in schema.fields][:2] == [1, 2]


def test_several_changes_of_one_column_add_up():
    schema, _ = apply(
        RenameColumn(name="id", new_name="key"),
        UpdateType(name="id", type=LONG),
        UpdateDoc(name="id", doc="the key"),
        MakeOptional(name="id"),
        MoveAfter(name="id", reference="home"),
    )
    assert names(schema) == ["day", "home", "key", "points", "places", "nothing"]
    changed = schema.fields[2]
    assert (changed.field_id, changed.type, changed.doc, changed.required) == (1, LONG, "the key", False)


def test_list_elements_and_map_values_change_type_and_nullability():
    schema, _ = apply(
        UpdateType(name="points.x", type=LONG),
        MakeOptional(name="points.element"),
        MakeOptional(name="places.value"),
        RenameColumn(name="places.name", new_name="title"),
        DropColumn(name="points.y"),
    )
    assert not schema.fields_by_id[7].required
    assert not schema.fields_by_id[13].required
    assert schema.fields_by_id[10].type == LONG
    assert schema.column_name(15) == "places.value.title"
    assert schema.field_by_id(11) is None
    assert schema.fields_by_id[12] == BASE.fields_by_id[12]


def test_moves_are_made_in_their_order_among_siblings():
    schema, _ = apply(
        MoveFirst(name="nothing"),
        MoveBefore(name="places", reference="id"),
        MoveAfter(name="id", reference="points"),
        MoveFirst(name="home.zip"),
    )
    assert names(schema) == ["nothing", "places", "day", "home", "points", "id"]
    home = schema.field_by_id(3)
    assert home is not None
    assert isinstance(home.type, StructType)
    assert [f.name for f in home.type.fields] == ["zip", "street"]


def test_a_column_can_be_moved_beside_one_that_is_dropped_afterwards():
    schema, _ = apply(MoveAfter(name="id", reference="home"), DropColumn(name="home"))
    assert names(schema) == ["day", "id", "points", "places", "nothing"]


def test_promotion_takes_defaults_along():
    schema, _ = apply(UpdateType(name="day", type=TIMESTAMP))
    assert schema_to_json(schema)["fields"][1]["initial-default"] == "2020-01-02T00:00:00"
    assert schema_to_json(schema)["fields"][1]["write-default"] == "1969-12-31T00:00:00"


def test_an_unknown_column_becomes_anything():
    schema, last = apply(UpdateType(name="nothing", type=ListType(element_id=1, element=UUID, element_required=True)))
    assert schema.column_name(21) == "nothing.element"
    assert last == 21


@pytest.mark.parametrize("transform", ["bucket[16]", "identity", "hour", "truncate[4]", "zorder"])
def test_a_date_keeps_its_type_while_partitions_depend_on_it(transform):
    refused(
        rf"type of day from date to timestamp: .*{transform.split('[')[0]}",
        UpdateType(name="day", type=TIMESTAMP),
        partition_transforms={2: ["day", transform]},
    )
    apply(
        UpdateType(name="day", type=TIMESTAMP),
        partition_transforms={2: ["day", "month", "year", "void"], 1: [transform]},
    )
    apply(UpdateType(name="id", type=LONG), partition_transforms={1: [transform]})


def test_a_new_default_leaves_old_rows_alone():
    schema, _ = apply(SetDefault(name="day", default="2021-01-01"))
    assert schema.fields_by_id[2].initial_default == BASE.fields_by_id[2].initial_default
    assert schema_to_json(schema)["fields"][1]["write-default"] == "2021-01-01"
    cleared, _ = apply(SetDefault(name="day", default=None))
    assert cleared.fields_by_id[2].write_default is None


def test_required_needs_a_default_or_leave():
    refused("cannot make day required", RequireColumn(name="day"))
    schema, _ = apply(RequireColumn(name="day"), allow_incompatible=True)
    assert schema.fields_by_id[2].required
    refused("cannot add a as required without a default", AddColumn(name="a", type=INT, required=True))
    apply(AddColumn(name="a", type=INT, required=True), allow_incompatible=True)
    refused(
        "column a of type unknown must be optional",
        AddColumn(name="a", type=UNKNOWN, required=True),
        allow_incompatible=True,
    )
    refused("cannot make a required", AddColumn(name="a", type=INT), RequireColumn(name="a"))


def test_identifier_fields_follow_renames_and_are_dropped_only_on_purpose():
    with_identifier, _ = apply(SetIdentifierFields(names=("id",)))
    assert with_identifier.identifier_field_ids == (1,)

    def then(*changes):
        return apply_changes(with_identifier, changes, last_column_id=LAST, format_version=3)[0]

    assert then(RenameColumn(name="id", new_name="key")).identifier_field_ids == (1,)
    assert then(RenameColumn(name="id", new_name="key"), SetIdentifierFields(names=("key",))).identifier_field_ids == (
        1,
    )
    assert then(DropColumn(name="id"), SetIdentifierFields(names=())).identifier_field_ids == ()
    for change in (DropColumn(name="id"), MakeOptional(name="id")):
        with pytest.raises(InvalidSchema, match=r"id.*identifier field"):
            then(change)
    refused("column nope cannot be an identifier field", SetIdentifierFields(names=("nope",)))
    refused("column day cannot be an identifier field: it is not required", SetIdentifierFields(names=("day",)))


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        ("cannot add a to nope: there is no such column", [AddColumn(name="a", parent="nope", type=INT)]),
        ("cannot add a to id: its type is int", [AddColumn(name="a", parent="id", type=INT)]),
        (r"cannot add home\.zip: there is a column", [AddColumn(name="zip", parent="home", type=INT)]),
        ("cannot add a: there is a column", [AddColumn(name="a", type=INT), AddColumn(name="a", type=INT)]),
        (
            "cannot add a to home: the same changes drop it",
            [DropColumn(name="home"), AddColumn(name="a", parent="home", type=INT)],
        ),
        ("cannot add a to places.key: .*key of a map", [AddColumn(name="a", parent="places.key", type=INT)]),
        ("empty name", [AddColumn(name="", type=INT)]),
        (r"cannot add a\.b: a dot", [AddColumn(name="a.b", type=INT)]),
        ("default of a: ", [AddColumn(name="a", type=INT, default="x")]),
        (
            "default of column a must be null or an empty struct",
            [AddColumn(name="a", type=type_from_json(POINT), default={"10": 1})],
        ),
        ("default of a: ", [AddColumn(name="a", type=VARIANT, default=1)]),
        ("cannot drop nope", [DropColumn(name="nope")]),
        (r"cannot drop points\.element: a list has elements", [DropColumn(name="points.element")]),
        (r"cannot drop places\.value", [DropColumn(name="places.value")]),
        (r"cannot drop places\.key\.zip: the key of a map", [DropColumn(name="places.key.zip")]),
        (
            "cannot drop home: the same changes add to it",
            [AddColumn(name="a", parent="home", type=INT), DropColumn(name="home")],
        ),
        (
            "cannot drop home: the same changes update it",
            [UpdateDoc(name="home.zip", doc="x"), DropColumn(name="home")],
        ),
        (
            r"cannot rename home\.zip: the same changes drop it",
            [DropColumn(name="home"), RenameColumn(name="home.zip", new_name="a")],
        ),
        ("cannot rename id to an empty name", [RenameColumn(name="id", new_name="")]),
        ("two columns are named day", [RenameColumn(name="id", new_name="day")]),
        (r"cannot rename points\.element: it is an element", [RenameColumn(name="points.element", new_name="a")]),
        (r"cannot rename places\.key\.zip: the key of a map", [RenameColumn(name="places.key.zip", new_name="a")]),
        (r"cannot comment on points\.element", [UpdateDoc(name="points.element", doc="a")]),
        ("cannot change the type of id from int to double", [UpdateType(name="id", type=DOUBLE)]),
        ("cannot change the type of home from .* only primitive", [UpdateType(name="home", type=INT)]),
        ("cannot change the type of id from int to struct", [UpdateType(name="id", type=type_from_json(POINT))]),
        (r"type of places\.key\.zip: the key of a map", [UpdateType(name="places.key.zip", type=LONG)]),
        ("default of id: ", [SetDefault(name="id", default="x")]),
        (r"set the default of points\.element", [SetDefault(name="points.element", default={})]),
        ("cannot move nope", [MoveFirst(name="nope")]),
        ("cannot move home: the same changes drop it", [DropColumn(name="home"), MoveFirst(name="home")]),
        (r"cannot move points\.element: it is part of a list<", [MoveFirst(name="points.element")]),
        ("cannot move id before itself", [MoveBefore(name="id", reference="id")]),
        (
            r"cannot move id after home\.zip: that is in a different struct",
            [MoveAfter(name="id", reference="home.zip")],
        ),
        ("cannot move id before nope", [MoveBefore(name="id", reference="nope")]),
    ],
)
def test_a_forbidden_change_is_refused_by_name(match, changes):
    refused(match, *changes)


def test_ids_end_below_the_reserved_ones():
    refused("column a has field id 2147483448", AddColumn(name="a", type=INT), last_column_id=2_147_483_447)


def test_without_case_names_are_found_and_taken():
    schema, _ = apply(UpdateType(name="ID", type=LONG), MoveFirst(name="Home.ZIP"), case_sensitive=False)
    assert schema.fields_by_id[1].type == LONG
    refused("cannot add DAY", AddColumn(name="DAY", type=INT), case_sensitive=False)
    apply(AddColumn(name="DAY", type=INT))


@given(schemas(), types(), st.data())
@examples(40)
def test_whatever_is_applied_leaves_other_columns_and_a_valid_schema(schema, type, data):
    top = [f.name for f in schema.fields]
    name = data.draw(st.sampled_from(top))
    reference = data.draw(st.sampled_from(top))
    changes = data.draw(
        st.lists(
            st.sampled_from(
                [
                    AddColumn(name="new column", parent="", type=type),
                    DropColumn(name=name),
                    RenameColumn(name=name, new_name="other name"),
                    MakeOptional(name=name),
                    MoveFirst(name=name),
                    MoveAfter(name=name, reference=reference),
                    UpdateDoc(name=reference, doc="doc"),
                    SetIdentifierFields(names=()),
                ]
            ),
            max_size=4,
        )
    )
    try:
        changed, last = apply_changes(schema, changes, last_column_id=schema.highest_field_id, format_version=3)
    except InvalidSchema:
        return
    validate_schema(changed, format_version=3)
    assert last >= changed.highest_field_id
    assert schema_from_json(schema_to_json(changed)) == changed
    touched = {name, reference, "new column", "other name"}
    before = {f.field_id: f for f in schema.fields if f.name not in touched}
    assert {f.field_id: f for f in changed.fields if f.name not in touched} == before
