"""An intent is the same whether its writer spells defaults out or not: writers in other languages do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model import intent_codec
from firn.model.errors import InvalidIntent
from firn.model.intent import OPERATIONS, Append, Intent, Transaction, digest_as_spelled, digest_of, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.operations.transaction import Unchanged
from firn.model.outcome import Outcome, decode_outcome
from firn.model.sharding import shard_of
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, decision


def spelled_out(payload: bytes, kind: type[msgspec.Struct] = Append) -> bytes:
    """The same JSON with every member at its default that is not there."""
    obj = msgspec.json.decode(payload)
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT and field.default is not msgspec.UNSET:
            obj.setdefault(field.encode_name, field.default)
    return msgspec.json.encode(obj)


@pytest.mark.parametrize("kind", OPERATIONS, ids=OPERATIONS.values())
def test_text_that_is_spelled_out_at_its_default_is_not_in_the_digest(kind: type[msgspec.Struct]) -> None:
    """Of every operation, whatever text it has by default."""
    defaults = {f.name: f.default for f in msgspec.structs.fields(kind) if isinstance(f.default, str)}
    members: dict[str, Any] = {f.name: None for f in msgspec.structs.fields(kind)} | {"members": (), "unchanged": ()}
    members = {name: value for name, value in members.items() if name in kind.__struct_fields__} | defaults
    intent: Any = kind(**members)
    spelled: Any = msgspec.structs.replace(intent, **{name: f"{text} "[:-1] for name, text in defaults.items()})
    assert digest_as_spelled(spelled) != digest_as_spelled(intent)
    assert digest_of(spelled) == digest_of(intent) == digest_as_spelled(intent)


def test_a_transaction_is_the_same_however_its_parts_are_spelled() -> None:
    member = append("a")
    unchanged = Unchanged(table="db.prices", table_uuid="u", snapshot_id=1)
    plain: Intent = Transaction(intent_id=member.intent_id, table=TABLE, members=(member,), unchanged=(unchanged,))
    obj = msgspec.json.decode(encode_intent(plain))
    obj["members"][0]["branch"] = obj["unchanged"][0]["branch"] = "main"
    spelled = decode_intent(msgspec.json.encode(obj), limits=Limits())
    assert digest_as_spelled(spelled.intent) != digest_of(plain)
    assert spelled.digest == digest_of(plain)


def test_a_digest_is_taken_as_the_document_says_and_as_it_was_spelled() -> None:
    intent = append("a")
    spelled = msgspec.json.decode(spelled_out(encode_intent(intent)))
    as_spelled = digest_as_spelled(msgspec.convert(spelled, Append))
    assert as_spelled != digest_of(intent)
    for digest in (digest_of(intent), as_spelled):
        assert decode_intent(msgspec.json.encode({**spelled, "digest": digest}), limits=Limits()).digest == digest_of(
            intent
        )
    with pytest.raises(InvalidIntent, match="digest"):
        decode_intent(msgspec.json.encode({**spelled, "digest": "0" * 32}), limits=Limits())


async def _submit(bench: Workbench, payload: bytes, reply_to: str) -> Outcome:
    """The outcome of an intent as JSON."""
    named = msgspec.json.encode({**msgspec.json.decode(payload), "reply-to": reply_to})
    await bench.streams.submit(shard_of(TABLE, shards=bench.shards), named)
    (reply,) = await bench.streams.replies(reply_to, block_ms=5_000)
    return decode_outcome(reply.data)


async def test_an_intent_that_is_submitted_again_in_another_spelling_is_committed_once() -> None:
    bench = Workbench()
    intent = append("a")
    async with bench.daemon():
        await bench.commit(create())
        first = await bench.commit(intent)
        assert await _submit(bench, spelled_out(encode_intent(intent)), "firn:replies:again") == first
    assert await bench.live() == ["a"]


async def test_what_an_older_firn_has_on_record_is_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its digests had in them what was spelled out."""
    bench = Workbench()
    payload = spelled_out(encode_intent(append("a")))
    with monkeypatch.context() as older:
        older.setattr(intent_codec, "digest_of", digest_as_spelled)
        async with bench.daemon():
            await bench.commit(create())
            first = await _submit(bench, payload, "firn:replies:first")
    async with bench.daemon("b"):
        assert decision(await _submit(bench, payload, "firn:replies:second")) == decision(first)
    assert await bench.live() == ["a"]
