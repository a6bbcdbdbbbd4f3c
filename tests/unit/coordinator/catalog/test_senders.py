"""Who sent a request, as its headers and snapshots say."""

import pytest

from firn.coordinator.catalog.requests import CommitBody, table_change
from firn.coordinator.catalog.senders import CHARACTERS_MAX, engine_of, sender_of
from firn.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ({}, None),
        ({"User-Agent": "PyIceberg/0.12.0"}, "PyIceberg/0.12.0"),
        ({"User-Agent": "a", "X-Client-Version": "b"}, "a; b"),
        ({"User-Agent": "a", "X-Client-Version": "a"}, "a"),
        ({"User-Agent": "a\x01\udcff"}, "a??"),
        ({"User-Agent": "x" * 1_000}, "x" * CHARACTERS_MAX),
        ({"User-Agent": "  "}, None),
    ],
)
def test_the_client_is_who_its_headers_say(headers, client):
    assert sender_of(headers).client == client
    assert not sender_of(headers).blind


def test_a_client_may_vouch_that_it_appends_blindly():
    assert sender_of({"X-Firn-Append": "Blind"}).blind


@pytest.mark.parametrize("wish", ["", "always", "blind, blind"])
def test_another_wish_is_refused(wish):
    with pytest.raises(InvalidInput, match="X-Firn-Append: must be 'blind'"):
        sender_of({"X-Firn-Append": wish})


@pytest.mark.parametrize(
    ("summary", "engine"),
    [
        ({"engine-name": "spark", "engine-version": "4.1.0"}, "spark 4.1.0"),
        ({"engine-name": "spark"}, "spark"),
        ({"engine-version": "4.1.0"}, None),
        ({}, None),
    ],
)
def test_the_engine_is_what_the_snapshot_says(summary, engine):
    added = {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": 1,
            "sequence-number": 1,
            "timestamp-ms": 1,
            "manifest-list": "file:///l.avro",
            "summary": {"operation": "append", **summary},
        },
    }
    assert engine_of([table_change(CommitBody(updates=(added,)))]) == engine
