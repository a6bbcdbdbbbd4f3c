"""A table or view that is larger than the limits is refused at the door, before anybody waits for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.definition_limits import columns_in
from firn.model.errors import InvalidIntent
from firn.model.intent_codec import decode_intent, identity_of
from firn.model.limits import Limits

LIMITS = Limits(columns_max=20, properties_max=5, layout_fields_max=5, intent_values_max=2_000)
ID = "01890000-0000-7000-8000-000000000001"


def fields(count: int, type: Any = "long") -> list[dict[str, Any]]:
    return [{"id": n, "name": f"c{n}", "required": False, "type": type} for n in range(count)]


def schema(count: int) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": fields(count)}


NESTED = {"type": "struct", "fields": fields(1, {"type": "list", "element-id": 9, "element": schema(20)})}
MAPS = {"type": "map", "key-id": 1, "key": "string", "value-id": 2, "value": "long"}
VIEW = {"representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}]}
REPLACED = {**VIEW, "base-version-id": 1, "base-timestamp-ms": 1}
ADDED = [{"action": "add-column", "name": "s", "type": schema(30)}]


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"operation": "create-table", "schema": schema(21)}, "schema"),
        ({"operation": "create-table", "schema": NESTED}, "schema"),
        ({"operation": "create-table", "schema": {"type": "struct", "fields": fields(10, MAPS)}}, "schema"),
        ({"operation": "create-or-replace-table", "schema": schema(21), "seen": None}, "schema"),
        ({"operation": "create-table", "schema": schema(1), "partition-spec": {"fields": fields(6)}},
         "partition-spec.fields"),
        ({"operation": "create-table", "schema": schema(1), "write-order": {"fields": fields(6)}},
         "write-order.fields"),
        ({"operation": "create-table", "schema": schema(1), "properties": {str(n): "" for n in range(6)}},
         "properties"),
        ({"operation": "create-view", "schema": schema(21), **VIEW}, "schema"),
        ({"operation": "replace-view", "schema": schema(21), **REPLACED}, "schema"),
        ({"operation": "update-schema", "base-schema-id": 0, "changes": ADDED}, "changes"),
        ({"operation": "transaction", "table": "db.t",
          "members": [{"operation": "create-table", "table": "db.t", "schema": schema(21)}]}, "members[0].schema"),
    ],
)  # fmt: skip
def test_a_definition_beyond_the_limits_is_refused_at_the_door(members: dict[str, Any], where: str) -> None:
    payload = msgspec.json.encode({"intent-id": ID, "table": "db.t", **members})
    with pytest.raises(InvalidIntent) as caught:
        decode_intent(payload, limits=LIMITS)
    assert (caught.value.rule, caught.value.where) == ("metadata-too-large", where)


@pytest.mark.parametrize(
    "members",
    [
        {"operation": "create-table", "schema": {"type": "struct", "fields": [[]] * 2_000}},
        {"operation": "create-table", "schema": schema(1), "properties": {str(n): "" for n in range(2_000)}},
        {"operation": "append", "branch": "main", "data-files": [{"partition": [[]] * 2_000}]},
        {"operation": "drop-table", "unknown": [{}] * 2_000},
    ],
)
def test_an_intent_of_more_values_than_the_limit_is_refused_before_it_is_decoded(members: dict[str, Any]) -> None:
    payload = msgspec.json.encode({**members, "intent-id": ID, "table": "db.t"})
    with pytest.raises(InvalidIntent, match="more than 2000 JSON values") as caught:
        decode_intent(payload, limits=LIMITS)
    assert caught.value.rule == "intent-too-large"
    assert identity_of(payload, limits=LIMITS) == (ID, "db.t", None)


@pytest.mark.parametrize(
    ("payload", "identity"),
    [
        (b'{"intent-id":"%b","table":"db.t","zzz":"%b"}' % (ID.encode(), b"x" * 1_000), (ID, "db.t", None)),
        (b'{"intent-id":"%b","table":{},"zzz":"%b"}' % (ID.encode(), b"x" * 1_000), (None, None, None)),
        (b'{"intent-id":"%b","intent-id":"","zzz":"%b"}' % (ID.encode(), b"x" * 1_000), (None, None, None)),
        (b'{"intent-id":"%b","zzz":%b' % (ID.encode(), b"[" * 5_000), (None, None, None)),
        (b'{"intent-id":"%b","zzz":"\xff%b"}' % (b"\xff", b"x" * 1_000), (None, None, None)),
    ],
)
def test_a_writer_of_too_much_is_known_where_that_is_certain(payload: bytes, identity: tuple[str | None, ...]) -> None:
    assert identity_of(payload, limits=Limits(intent_bytes_max=500)) == identity


@pytest.mark.parametrize(("given", "columns"), [(schema(20), 20), (NESTED, 22), (MAPS, 2), ([{}, None, 3, "name"], 0)])
def test_columns_are_counted_at_every_depth(given: Any, columns: int) -> None:
    assert columns_in(given) == columns
