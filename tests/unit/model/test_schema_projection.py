from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidSchema
from firn.model.schema import schema_from_json
from firn.model.schema_projection import project, select
from tests.strategies.examples import examples
from tests.strategies.schemas import schemas


def field(field_id, name, type, *, required=False):
    return {"id": field_id, "name": name, "required": required, "type": type}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


TABLE = schema_from_json(
    {
        **struct(
            field(1, "id", "long", required=True),
            field(2, "home", struct(field(3, "street", "string"), field(4, "zip", "int"))),
            field(
                5,
                "points",
                {
                    "type": "list",
                    "element-id": 6,
                    "element": struct(field(7, "x", "int"), field(8, "y", "int")),
                    "element-required": True,
                },
            ),
            field(
                9,
                "places",
                {
                    "type": "map",
                    "key-id": 10,
                    "key": struct(field(12, "zip", "int"), field(13, "city", "string")),
                    "value-id": 11,
                    "value": struct(field(14, "name", "string"), field(15, "open", "boolean")),
                    "value-required": True,
                },
            ),
        ),
        "identifier-field-ids": [1],
    }
)


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ([], []),
        ([1], [1]),
        ([4], [2, 4]),
        ([2], [2, 3, 4]),
        ([2, 4], [2, 3, 4]),
        ([4, 1], [1, 2, 4]),
        ([7], [5, 6, 7]),
        ([5], [5, 6, 7, 8]),
        ([14], [9, 10, 12, 13, 11, 14]),
        ([10], [9, 10, 12, 13, 11, 14, 15]),
        ([12], [9, 10, 12, 13, 11, 14, 15]),
        ([99], []),
    ],
)
def test_what_is_asked_for_comes_with_what_is_around_it(ids, kept):
    assert sorted(project(TABLE, ids).fields_by_id) == sorted(kept)


def test_identifier_fields_that_are_left_out_are_not_named():
    assert project(TABLE, [1]).identifier_field_ids == (1,)
    assert project(TABLE, [2]).identifier_field_ids == ()


def test_names_are_selected_with_or_without_case():
    assert select(TABLE, ["points.x", "id"]) == project(TABLE, [1, 7])
    assert select(TABLE, ["HOME.Zip"], case_sensitive=False) == project(TABLE, [4])
    assert select(TABLE, ["*"]) == TABLE
    with pytest.raises(InvalidSchema, match="no column is named Home"):
        select(TABLE, ["Home"])


@given(schemas(), st.data())
@examples(30)
def test_a_projection_keeps_every_field_asked_for_as_it_is(schema, data):
    ids = data.draw(st.sets(st.sampled_from(sorted(schema.fields_by_id))))
    kept = project(schema, ids)
    assert all(kept.fields_by_id[i] == schema.fields_by_id[i] for i in ids)
    assert kept.names_by_id.items() <= schema.names_by_id.items()
    assert project(kept, kept.fields_by_id) == kept
    assert project(schema, schema.fields_by_id) == schema
