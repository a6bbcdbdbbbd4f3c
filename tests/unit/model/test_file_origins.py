"""The origin of files is said once: by the intent that names them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn import Intents
from firn.coordinator.client.intents import sealed
from firn.model.file_origins import has_origin, with_origin_once
from firn.model.intent import ContentFile, Intent, Transaction, added_files, digest_of
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from tests.unit.coordinator.workbench import SCHEMA, TABLE, content_file

MAKE = Intents()


def of(name: str, uuid: str | None = "u", schema_id: int | None = 0) -> ContentFile:
    return msgspec.structs.replace(content_file(name), table_uuid=uuid, schema_id=schema_id)


SAID_ONCE: dict[str, tuple[Intent, str | None, tuple[int, ...]]] = {
    "one table": (MAKE.append(TABLE, [of("a"), of("b")]), "u", (0,)),
    "several schemas": (MAKE.append(TABLE, [of("a", schema_id=2), of("b"), of("c", schema_id=2)]), "u", (0, 2)),
    "some say nothing": (MAKE.append(TABLE, [content_file("a"), of("b")]), "u", (0,)),
    "the intent says it, too": (MAKE.append(TABLE, [of("a")], table_uuid="u", schema_ids=(1,)), "u", (0, 1)),
    "only the intent says it": (MAKE.append(TABLE, [content_file("a")], table_uuid="v", schema_ids=(3,)), "v", (3,)),
    "a table without uuid": (MAKE.append(TABLE, [of("a", uuid=None)]), None, (0,)),
    "overwrite": (MAKE.overwrite(TABLE, base_snapshot_id=1, row_filter=True, added=[of("a")]), "u", (0,)),
    "replace": (MAKE.replace(TABLE, removed=[of("a")], added_deletes=[of("b")], base_snapshot_id=1), "u", (0,)),
    "replace-partitions": (MAKE.replace_partitions(TABLE, [of("a")], base_snapshot_id=1), "u", (0,)),
    "row-delta": (MAKE.row_delta(TABLE, added=[of("a")], deletes=[of("d", schema_id=1)]), "u", (0, 1)),
}


@pytest.mark.parametrize(("intent", "uuid", "schema_ids"), SAID_ONCE.values(), ids=SAID_ONCE)
def test_files_of_one_table_leave_it_to_the_intent(intent: Any, uuid: str | None, schema_ids: tuple[int, ...]) -> None:
    for once in (with_origin_once(intent), sealed(intent, reply_to="firn:replies:x")):
        assert isinstance(once, type(intent))
        assert (once.table_uuid, once.schema_ids) == (uuid, schema_ids)
        assert not any(map(has_origin, added_files(once)))
        assert [file.file_path for file in added_files(once)] == [file.file_path for file in added_files(intent)]
    sent = sealed(intent, reply_to="firn:replies:x")
    assert decode_intent(msgspec.json.encode(sent), limits=Limits()).digest == sent.digest == digest_of(sent)


@pytest.mark.parametrize(
    "intent",
    [
        MAKE.append(TABLE, [of("a"), of("b", uuid="v")]),
        MAKE.append(TABLE, [of("a")], table_uuid="v"),
        MAKE.drop_table(TABLE),
        MAKE.append(TABLE, [content_file("a")]),
    ],
    ids=["two tables", "another table", "no files", "nothing said"],
)
def test_what_contradicts_itself_is_left_for_the_daemon_to_refuse(intent: Intent) -> None:
    assert with_origin_once(intent) is intent


def test_the_members_of_a_transaction_each_say_it_for_their_own_files() -> None:
    members = [MAKE.append(TABLE, [of("a")]), MAKE.append("db.b", [of("b", uuid="v", schema_id=4)])]
    whole = with_origin_once(MAKE.transaction(members))
    assert isinstance(whole, Transaction)
    assert [(one.table_uuid, one.schema_ids) for one in whole.members] == [("u", (0,)), ("v", (4,))]  # type: ignore[union-attr]
    plain = MAKE.transaction([MAKE.append(TABLE, [content_file("a")])])
    assert with_origin_once(plain) is plain


def test_a_table_that_is_made_with_its_rows_is_none_that_they_were_described_for() -> None:
    made = with_origin_once(MAKE.create_or_replace_table(TABLE, SCHEMA, seen=None, files=[of("a")]))
    assert made.table_uuid is None
    assert not any(map(has_origin, added_files(made)))


def test_an_intent_that_has_its_digest_is_sent_as_it_is() -> None:
    intent = MAKE.append(TABLE, [of("a")])
    intent = msgspec.structs.replace(intent, digest=digest_of(intent))
    sent = sealed(intent, reply_to="firn:replies:x")
    assert (sent.digest, added_files(sent)) == (intent.digest, added_files(intent))
