"""What is no transaction is refused at the door, with the place where it is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firn.model.errors import InvalidIntent
from firn.model.intent import Transaction, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits

ID = "0192f0c1-5b2e-7cc1-8f4e-2d6a1b3c4d5e"
OTHER_ID = "0192f0c1-5b2e-7cc1-8f4e-2d6a1b3c4d5f"
CREATE_BY_PATH = {"operation": "create-table", "table": "db.b", "schema": {}, "catalog": "file-system"}
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def data_file(name: str) -> dict[str, Any]:
    return {
        "file-path": f"file:///t/{name}", "file-format": "parquet", "spec-id": 0, "record-count": 1,
        "file-size-in-bytes": 1,
    }  # fmt: skip


def append(table: str = "db.a", *names: str, **changes: Any) -> dict[str, Any]:
    return {"operation": "append", "table": table, "data-files": [data_file(n) for n in names or ("f",)], **changes}


def payload(**changes: Any) -> bytes:
    members = [append("db.a"), append("db.b")]
    intent = {"intent-id": ID, "operation": "transaction", "table": "db.a", "members": members, **changes}
    return json.dumps(intent).encode()


def refused(data: bytes, **limits: int) -> InvalidIntent:
    with pytest.raises(InvalidIntent) as caught:
        decode_intent(data, limits=Limits(**limits))
    return caught.value


def test_members_take_the_transactions_id_and_count_into_its_digest() -> None:
    bare = decode_intent(payload(), limits=Limits())
    assert isinstance(bare.intent, Transaction)
    assert [member.intent_id for member in bare.intent.members] == [ID, ID]
    assert bare.intent.tables == bare.intent.changed_tables == ("db.a", "db.b")
    spelt_out = decode_intent(encode_intent(bare.intent), limits=Limits())
    assert spelt_out.intent == bare.intent
    assert spelt_out.digest == bare.digest
    assert decode_intent(payload(members=[append("db.a")]), limits=Limits()).digest != bare.digest


@pytest.mark.parametrize(
    ("changes", "rule", "where"),
    [
        ({"members": []}, "invalid-field", "members"),
        ({"members": None}, "invalid-field", "members"),
        ({"members": [7]}, "invalid-field", "members[0]"),
        ({"members": [{"operation": "append"}]}, "missing-field", "members[0]"),
        ({"members": [append(), {"operation": "drop-table", "table": "db.b"}]}, "invalid-transaction",
         "members[1].operation"),
        ({"members": [{"operation": "transaction", "table": "db.a", "members": []}]}, "invalid-transaction",
         "members[0].operation"),
        ({"members": [append(), {"operation": "expire-snapshots", "table": "db.a"}]}, "invalid-transaction",
         "members[1].operation"),
        ({"members": [append(**{"intent-id": OTHER_ID})]}, "invalid-transaction", "members[0].intent-id"),
        ({"members": [append(writer="w")]}, "invalid-transaction", "members[0].writer"),
        ({"members": [{**append(), "deadline-ms": 5}]}, "invalid-transaction", "members[0].deadline-ms"),
        ({"members": [append(), append("..")]}, "invalid-table-name", "members[1].table"),
        ({"members": [append(), append("db.a", "x", "x")]}, "duplicate-file", "members[1].data-files"),
        ({"members": [append("db.b")]}, "invalid-transaction", "table"),
        ({"members": [append(), CREATE_BY_PATH]}, "invalid-transaction", "members[1].catalog"),
        ({"unchanged": [{"table": "db.c", "table-uuid": UUID}]}, "missing-field", "unchanged[0]"),
        ({"unchanged": [{"table": "db.b", "table-uuid": UUID, "snapshot-id": 1}]}, "invalid-transaction",
         "unchanged[0].table"),
        ({"unchanged": [{"table": "db.c", "table-uuid": UUID, "snapshot-id": None}] * 2}, "invalid-transaction",
         "unchanged[1].table"),
        ({"unchanged": [{"table": "..", "table-uuid": UUID, "snapshot-id": 1}]}, "invalid-table-name",
         "unchanged[0].table"),
        ({"surprise": 1}, "unknown-field", "intent"),
    ],
)  # fmt: skip
def test_what_is_no_transaction_is_refused(changes: dict[str, Any], rule: str, where: str) -> None:
    error = refused(payload(**changes))
    assert (error.rule, error.where) == (rule, where)


def test_an_operation_that_does_not_exist_is_named() -> None:
    error = refused(payload(members=[append(), {"operation": "apend", "table": "db.a"}]))
    assert (error.where, "'apend'" in str(error)) == ("members[1].operation", True)


def test_a_transaction_is_bounded() -> None:
    assert refused(payload(), transaction_members_max=1).rule == "transaction-too-large"
    assert refused(payload(), transaction_tables_max=1).rule == "transaction-too-large"
    assert refused(payload(members=[append("db.a", "1", "2"), append("db.b", "3")]), intent_files_max=2).rule == (
        "too-many-files"
    )
    unchanged = [{"table": f"db.t{i}", "table-uuid": UUID, "snapshot-id": 1} for i in range(3)]
    assert refused(payload(unchanged=unchanged), transaction_tables_max=4).rule == "transaction-too-large"
