"""Whatever is put in place of a member, the answer is metadata or an error that names where."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import FirnError
from firn.model.metadata_json import metadata_from_json, metadata_to_json
from firn.model.rest_apply import apply_updates
from firn.model.rest_requirements import requirements_from_json
from firn.model.rest_updates import updates_from_json
from tests.strategies.examples import examples
from tests.strategies.metadata import BY_BUCKET, BY_DATA, JSON_VALUES, START_MS, appended, table

FULL = {
    version: json.dumps(metadata_to_json(appended(table(BY_BUCKET, BY_DATA, format_version=version), 1, 2)))
    for version in (1, 2, 3)
}
BASE = appended(table(), 1, 2)
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 9, "name": "n", "required": False, "type": "int"}]}
UPDATES: list[dict[str, Any]] = [
    {"action": "add-schema", "schema": SCHEMA},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"fields": [{"name": "n", "transform": "identity", "source-id": 9}]}},
    {"action": "add-snapshot", "snapshot": {
        "snapshot-id": 3, "sequence-number": 3, "timestamp-ms": START_MS, "manifest-list": "m",
        "summary": {"operation": "append"}}},
    {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 3, "type": "branch"},
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "set-statistics", "statistics": {
        "snapshot-id": 3, "statistics-path": "p", "file-size-in-bytes": 9, "file-footer-size-in-bytes": 3,
        "blob-metadata": [{"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}]}},
]  # fmt: skip
REQUIREMENTS = [
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
]
ODD = JSON_VALUES | st.sampled_from([-1, 0, 2**31, 2**63, -(2**63) - 1, "", "a" * 300, [[]], {}, 1.5, True])


def places(value, path=()):
    """The path of every member of a JSON value, itself included."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def put(document, path, value):
    """The document with the member at `path` replaced, or with `value` None removed from its object."""
    if not path:
        return value
    changed = copy.deepcopy(document)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    if value is None and isinstance(parent, dict):
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return changed


def answer(call):
    """What the call gives, or the error that it raises on purpose; anything else fails the test."""
    try:
        return call()
    except FirnError as error:
        return error


def check(result):
    if isinstance(result, FirnError):
        assert 0 < len(str(result)) < 2000
    else:
        assert metadata_from_json(metadata_to_json(result)) == result


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
@examples(50)
def test_metadata_with_any_member_replaced(version, data):
    document = json.loads(FULL[version])
    path = data.draw(st.sampled_from(list(places(document))))
    broken = put(document, path, data.draw(ODD))
    check(answer(lambda: metadata_from_json(broken)))


@given(data=st.data())
@examples(80)
def test_updates_with_any_member_replaced(data):
    path = data.draw(st.sampled_from(list(places(UPDATES))))
    broken = put(UPDATES, path, data.draw(ODD))
    check(answer(lambda: apply_updates(BASE, updates_from_json(broken), now_ms=START_MS)))


@given(data=st.data())
@examples(30)
def test_requirements_with_any_member_replaced(data):
    path = data.draw(st.sampled_from(list(places(REQUIREMENTS))))
    result = answer(lambda: requirements_from_json(put(REQUIREMENTS, path, data.draw(ODD))))
    assert isinstance(result, tuple) or str(result)
