"""The id of the intent that a request becomes."""

import pytest

from firn.coordinator.catalog.intent_ids import FUTURE_MS, PAST_MS, intent_id_of
from firn.coordinator.catalog.requests import CommitBody, table_change
from firn.coordinator.catalog.senders import Sender
from firn.model.errors import InvalidInput
from firn.model.identifiers import intent_id_ms, is_intent_id

NOW_MS = 1_790_000_000_000
ENTROPY = bytes(range(10))
SENDER = Sender(client="PyIceberg/0.12.0")
KEY = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"


def snapshot(snapshot_id: int = 11, *, timestamp_ms: int = NOW_MS, manifest_list: str = "file:///w/l-1.avro"):
    return {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": snapshot_id,
            "timestamp-ms": timestamp_ms,
            "sequence-number": 1,
            "manifest-list": manifest_list,
            "summary": {"operation": "append"},
            "schema-id": 0,
        },
    }


def change(*updates, requirements=()):
    return table_change(CommitBody(requirements=tuple(requirements), updates=tuple(updates)))


def id_of(*changes, key=None, entropy=ENTROPY):
    return intent_id_of(key, [("db.t", one) for one in changes], sender=SENDER, now_ms=NOW_MS, entropy=entropy)


def test_a_key_is_the_id_in_one_spelling():
    assert id_of(change(snapshot()), key=KEY) == KEY.lower()


@pytest.mark.parametrize(
    "key",
    ["", "x", "017f22e2-79b0-4cc3-98c4-dc0c0c07398f", "017f22e279b07cc398c4dc0c0c07398f", KEY + "0", "\u0663" * 36],
    ids=["empty", "text", "uuid-v4", "no-dashes", "too-long", "digits-of-another-script"],
)
def test_a_key_that_is_no_uuid7_is_refused_by_name(key):
    with pytest.raises(InvalidInput, match="Idempotency-Key: must be a UUIDv7"):
        id_of(change(), key=key)


def test_the_same_request_has_the_same_id_whenever_it_comes():
    first = id_of(change(snapshot()), entropy=bytes(10))
    later = intent_id_of(None, [("db.t", change(snapshot()))], sender=SENDER, now_ms=NOW_MS + 60_000, entropy=ENTROPY)
    assert first == later
    assert is_intent_id(first)
    assert intent_id_ms(first) == NOW_MS


@pytest.mark.parametrize(
    "other",
    [
        change(snapshot(12)),
        change(snapshot(manifest_list="file:///w/l-2.avro")),
        change(snapshot(), {"action": "set-properties", "updates": {"a": "b"}}),
        change(snapshot(), requirements=[{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 3}]),
    ],
    ids=["snapshot", "attempt", "updates", "requirements"],
)
def test_other_content_is_another_intent(other):
    # An attempt after a conflict adds the same snapshot id; the refusal of the first one must not decide it.
    assert id_of(change(snapshot())) != id_of(other)


def test_the_table_is_part_of_the_content():
    one = intent_id_of(None, [("db.a", change(snapshot()))], sender=SENDER, now_ms=NOW_MS, entropy=ENTROPY)
    other = intent_id_of(None, [("db.b", change(snapshot()))], sender=SENDER, now_ms=NOW_MS, entropy=ENTROPY)
    assert one != other


def test_the_sender_is_part_of_the_content():
    blind = intent_id_of(
        None, [("db.t", change(snapshot()))], sender=Sender(blind=True), now_ms=NOW_MS, entropy=ENTROPY
    )
    assert blind != id_of(change(snapshot()))


def test_a_request_that_adds_no_snapshot_gets_a_new_id():
    settings = change({"action": "set-properties", "updates": {"a": "b"}})
    first, second = id_of(settings, entropy=bytes(10)), id_of(settings, entropy=ENTROPY)
    assert first != second
    assert intent_id_ms(first) == intent_id_ms(second) == NOW_MS


@pytest.mark.parametrize(
    ("made_ms", "is_kept"),
    [
        (NOW_MS - PAST_MS, True),
        (NOW_MS - PAST_MS - 1, False),
        (NOW_MS + FUTURE_MS, True),
        (NOW_MS + FUTURE_MS + 1, False),
        (0, False),
        (-(2**62), False),
        (2**62, False),
    ],
)
def test_a_time_that_the_daemon_would_refuse_is_not_taken(made_ms, is_kept):
    made = intent_id_ms(id_of(change(snapshot(timestamp_ms=made_ms))))
    assert made == (made_ms if is_kept else NOW_MS)


def test_of_several_snapshots_the_newest_says_the_time():
    chain = change(snapshot(11, timestamp_ms=NOW_MS - 5), snapshot(12, timestamp_ms=NOW_MS - 2))
    assert intent_id_ms(id_of(chain)) == NOW_MS - 2
