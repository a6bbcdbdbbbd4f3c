"""A traceparent is W3C's or refused, and no part of what an intent is."""

from __future__ import annotations

import msgspec
import pytest

from firn.model.errors import InvalidIntent
from firn.model.identifiers import uuid7
from firn.model.intent import Append, ContentFile, Intent, Transaction, digest_of, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.traceparent import is_traceparent, trace_id_in

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
ID = uuid7(now_ms=1_760_000_000_000, entropy=bytes(10))
FILE = ContentFile(file_path="/wh/t/a.parquet", file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=1)


def append(**changes: object) -> Append:
    return msgspec.structs.replace(Append(intent_id=ID, table="db.t", data_files=(FILE,)), **changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TRACE,
        TRACEPARENT.upper(),
        f"{TRACEPARENT}-x",
        f" {TRACEPARENT}",
        f"{TRACEPARENT}\n",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-00f067aa0ba902b7-01",
        f"00-{TRACE[:-1]}٣-00f067aa0ba902b7-01",
    ],
)
def test_what_is_no_traceparent_is_refused_at_the_door(text: str) -> None:
    assert not is_traceparent(text)
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(encode_intent(append(traceparent=text)), limits=Limits())
    assert (refused.value.rule, refused.value.where) == ("invalid-field", "traceparent")


@pytest.mark.parametrize("text", [TRACEPARENT, f"cc-{TRACE}-00f067aa0ba902b7-09"])
def test_a_traceparent_of_any_version_is_taken(text: str) -> None:
    intent = decode_intent(encode_intent(append(traceparent=text)), limits=Limits()).intent
    assert intent.traceparent == text
    assert trace_id_in(text) == TRACE


def test_another_process_may_submit_an_intent_again_from_another_span() -> None:
    other = f"00-{'a' * 32}-{'b' * 16}-00"
    digests = {digest_of(append(traceparent=text)) for text in (None, TRACEPARENT, other)}
    assert len(digests) == 1


def test_the_trace_of_a_transaction_is_its_own_and_not_its_members() -> None:
    transaction: Intent = Transaction(intent_id=ID, table="db.t", members=(append(traceparent=TRACEPARENT),))
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(encode_intent(transaction), limits=Limits())
    assert refused.value.where == "members[0].traceparent"
