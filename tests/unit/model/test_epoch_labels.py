"""A label is of an epoch: where it may stand in an intent, and what is said of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.epoch import labelled
from firn.model.errors import InvalidIntent
from firn.model.intent import digest_of
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from tests.unit.coordinator.workbench import TABLE, append, new_id

EPOCH = {"writer": "etl", "writer-sequence": 1}


def payload(**members: Any) -> bytes:
    intent = msgspec.to_builtins(append("a"))
    return msgspec.json.encode({**intent, **{name.replace("_", "-"): value for name, value in members.items()}})


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"epoch-label": "x"}, "epoch-label"),
        ({"epoch-label": "x", "writer": "etl"}, "epoch-label"),
        ({**EPOCH, "epoch-label": ""}, "epoch-label"),
        ({**EPOCH, "epoch-label": "x" * 256}, "epoch-label"),
        ({**EPOCH, "epoch-label": 7}, "epoch-label"),
    ],
)
def test_a_label_without_an_epoch_or_without_words_is_refused(members: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(payload(**members), limits=Limits())
    assert (refused.value.rule, refused.value.where) == ("invalid-field", where)


def test_a_member_of_a_transaction_has_no_label_of_its_own() -> None:
    member = {**msgspec.to_builtins(append("a")), "epoch-label": "x"}
    member.pop("intent-id")
    whole = {"operation": "transaction", "intent-id": new_id(), "table": TABLE, "members": [member], **EPOCH}
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(msgspec.json.encode(whole), limits=Limits())
    assert (refused.value.rule, refused.value.where) == ("invalid-transaction", "members[0].epoch-label")


def test_a_label_is_part_of_an_intents_content() -> None:
    plain = append("a", writer="etl", writer_sequence=1)
    assert digest_of(plain) != digest_of(msgspec.structs.replace(plain, epoch_label="x"))
    decoded = decode_intent(payload(**EPOCH, **{"epoch-label": "x"}), limits=Limits())
    assert decoded.intent.epoch_label == "x"


def test_a_label_is_said_where_there_is_one() -> None:
    assert (labelled("append of 1 row", None), labelled("append of 1 row", "x")) == (
        "append of 1 row",
        "append of 1 row, labelled 'x'",
    )
