"""Schema evolution against what Iceberg's own library and its specification allow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from firn.model.errors import InvalidSchema
from firn.model.promotion import can_promote
from firn.model.schema import schema_from_json, schema_to_json
from firn.model.schema_change import change_to_json, changes_from_json
from firn.model.schema_update import apply_changes
from firn.model.type_json import field_from_json
from firn.model.types import type_from_text

CASES = json.loads((Path(__file__).parent / "data" / "schema_evolution.json").read_text(encoding="utf-8"))
SCHEMAS = {name: schema_from_json(obj) for name, obj in CASES["schemas"].items()}


def update(case):
    schema = SCHEMAS[case["schema"]]
    return apply_changes(
        schema,
        changes_from_json(case["changes"]),
        last_column_id=schema.highest_field_id,
        format_version=3,
        allow_incompatible=case.get("allow-incompatible", False),
        case_sensitive=not case.get("case-insensitive", False),
    )


@pytest.mark.parametrize("case", CASES["promotions"], ids=lambda case: f"{case['from']} to {case['to']}")
def test_a_type_may_become_another_from_this_version_on(case):
    source, target = type_from_text(case["from"]), type_from_text(case["to"])
    first = case["allowed_from_version"]
    for version in (1, 2, 3):
        allowed = can_promote(source=source, target=target, format_version=version)
        assert allowed is (first is not None and version >= first)


@pytest.mark.parametrize("case", [c for c in CASES["updates"] if "refused" in c["expected"]], ids=lambda c: c["id"])
def test_a_forbidden_update_is_refused_by_name(case):
    name = re.escape(case["expected"]["refused"])
    with pytest.raises(InvalidSchema, match=rf"(?<![\w.]){name}(?![\w.])"):
        update(case)


@pytest.mark.parametrize("case", [c for c in CASES["updates"] if "refused" not in c["expected"]], ids=lambda c: c["id"])
def test_an_allowed_update_gives_this_schema(case):
    schema, last_column_id = update(case)
    expected = case["expected"]
    assert last_column_id == schema.highest_field_id
    if "field" in expected:
        field = field_from_json(expected["field"])
        assert schema.field_by_id(field.field_id) == field
    if "identifiers" in expected:
        assert list(schema.identifier_field_ids) == expected["identifiers"]
    if "schema" in expected:
        assert schema_to_json(schema) == schema_to_json(schema_from_json(expected["schema"]))


@pytest.mark.parametrize("case", CASES["updates"], ids=lambda c: c["id"])
def test_changes_are_written_as_they_were_read(case):
    assert [change_to_json(c) for c in changes_from_json(case["changes"])] == case["changes"]
