"""Whatever is put into the streams: one clear rejection, a dead letter, and the queue behind it moves on."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.coordinator.tables.table_reader import TableReader
from firn.model.identifiers import uuid7
from firn.model.intent_codec import identity_of
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected, decode_outcome
from firn.model.sharding import shard_of
from tests.acceptance.checks import FILES, check_log, live_files
from tests.acceptance.stack import SHARDS, DaemonProcess, Stack

TABLE = "db.events"
ANSWER_S = 20.0
HOUR_MS = 3_600_000
DAY = 20454  # 2026-01-01 in days since 1970, the partition of every file here


class Door:
    """A running daemon, a table, and raw access to its stream."""

    def __init__(self, stack: Stack, daemon: DaemonProcess) -> None:
        self.stack = stack
        self.daemon = daemon
        self.location = stack.pointer(TABLE).location

    def file(self, name: str = "", **members: Any) -> dict[str, Any]:
        """A data file of the table, as JSON."""
        path = f"{self.location}/data/{name or uuid.uuid4().hex}.parquet"
        return {
            "content": "data", "file-path": path, "file-format": "parquet", "spec-id": 0, "partition": [DAY],
            "record-count": 1, "file-size-in-bytes": 100, **members,
        }  # fmt: skip

    def append(self, drop: str = "", /, **members: Any) -> dict[str, Any]:
        """A good append intent, changed by `members`."""
        intent = {
            "intent-id": new_intent_id(), "table": TABLE, "operation": "append", "data-files": [self.file()], **members
        }  # fmt: skip
        intent.pop(drop, None)
        return intent

    def add(self, fields: Mapping[str, bytes], *, table: str = TABLE) -> str:
        """Put an entry into a table's stream; its id."""
        stream = self.stack.names.intents(shard_of(table, shards=SHARDS))
        members: Any = dict(fields)
        added: Any = self.stack.redis.xadd(stream, members)
        entry_id: bytes = added
        return entry_id.decode()

    def outcome(self, intent_id: str) -> Any:
        """Wait for the outcome."""
        ends_at = time.monotonic() + ANSWER_S
        while time.monotonic() < ends_at:
            data: Any = self.stack.redis.get(self.stack.names.outcome(intent_id))
            if data is not None:
                return decode_outcome(data)
            time.sleep(0.005)
        raise AssertionError(f"no outcome of {intent_id}\n{self.daemon.log()[-2000:]}")

    def good_one(self) -> None:
        """A good intent behind the bad one is committed."""
        intent = self.append()
        self.add({"intent": json.dumps(intent).encode()})
        assert isinstance(self.outcome(intent["intent-id"]), Committed)


@pytest.fixture(scope="module")
def door(
    tmp_path_factory: pytest.TempPathFactory, durable_redis: RedisServer, zookeeper_server: ZooKeeperServer
) -> Iterator[Door]:
    for server in (durable_redis, zookeeper_server):
        server.resume()
        server.start()
    folder = tmp_path_factory.mktemp("door")
    with Stack(folder, redis_server=durable_redis, zookeeper_server=zookeeper_server) as stack:
        stack.redis.flushall()
        daemon = stack.daemon()
        stack.create_table(TABLE)
        stack.create_table("db.events2")
        yield Door(stack, daemon)
        assert daemon.terminate() == 0
        check_log(daemon)  # over all cases: no warning, no error, no traceback


def as_json(drop: str = "", /, **members: Any) -> Callable[[Door], bytes]:
    """A payload: a good append with these members, without the one to `drop`."""
    return lambda door: json.dumps(door.append(drop, **members)).encode()


def as_file(**members: Any) -> Callable[[Door], bytes]:
    """A payload: an append of one file with these members."""
    return lambda door: json.dumps(door.append(**{"data-files": [door.file(**members)]})).encode()


def at(path: str) -> Callable[[Door], bytes]:
    """A payload: an append of a file at this location; ``{}`` is the table's."""
    return lambda door: json.dumps(
        door.append(**{"data-files": [door.file(**{"file-path": path.replace("{}", door.location)})]})
    ).encode()


def text(before: str, after: str) -> Callable[[Door], bytes]:
    """A payload: a good append whose JSON text is changed."""

    def made(door: Door) -> bytes:
        good = json.dumps(door.append())
        assert before in good
        return good.replace(before, after, 1).encode("utf-8", "surrogatepass")

    return made


def raw(payload: bytes) -> Callable[[Door], bytes]:
    """This payload."""
    return lambda _door: payload


NOT_INTENTS: dict[str, tuple[Callable[[Door], bytes], str]] = {
    "empty": (raw(b""), "malformed-json"),
    "no JSON": (raw(b"{oops"), "malformed-json"),
    "binary": (raw(bytes(range(256))), "malformed-json"),
    "null": (raw(b"null"), "invalid-field"),
    "a list": (raw(b"[]"), "invalid-field"),
    "a number": (raw(b"1"), "invalid-field"),
    "an empty object": (raw(b"{}"), "missing-field"),
    "not UTF-8": (raw(b'{"table": "\xff"}'), "malformed-json"),
    "a byte order mark": (lambda door: b"\xef\xbb\xbf" + as_json()(door), "malformed-json"),
    "two objects": (lambda door: as_json()(door) * 2, "malformed-json"),
    "duplicate keys": (text('"record-count": 1', '"record-count": 1, "record-count": 2'), "malformed-json"),
    "NaN": (text('"record-count": 1', '"record-count": NaN'), "malformed-json"),
    "infinity": (text('"record-count": 1', '"record-count": 1e999'), "malformed-json"),
    "an integer of 5 000 digits": (text('"record-count": 1', f'"record-count": {"9" * 5000}'), "malformed-json"),
    "an integer of 65 bits": (text('"record-count": 1', f'"record-count": {2**64}'), "malformed-json"),
    "a lone surrogate": (text('"table": "db.events"', '"table": "db.\\ud800"'), "malformed-json"),
    "a surrogate in UTF-8": (text('"table": "db.events"', '"table": "db.\ud800"'), "malformed-json"),
    "100 000 levels": (raw(b"[" * 100_000 + b"]" * 100_000), "malformed-json"),
    "65 levels": (as_file(partition=json.loads("[" * 65 + "]" * 65)), "malformed-json"),
    "over 16 MiB": (raw(b'{"summary": "' + b"x" * (16 * 1024 * 1024) + b'"}'), "intent-too-large"),
}

BAD_INTENTS: dict[str, tuple[Callable[[Door], bytes], str]] = {
    "unknown operation": (as_json(operation="apend"), "unknown-operation"),
    "no operation": (as_json("operation"), "missing-field"),
    "no files": (as_json("data-files"), "invalid-field"),
    "an empty list of files": (as_json(**{"data-files": []}), "invalid-field"),
    "unknown field": (as_json(brnch="main"), "unknown-field"),
    "unknown field of a file": (as_file(rows=3), "unknown-field"),
    "a field of another operation": (as_json(**{"removed-data-files": ["x"]}), "unknown-field"),
    "negative rows": (as_file(**{"record-count": -1}), "invalid-field"),
    "rows as text": (as_file(**{"record-count": "1"}), "invalid-field"),
    "rows as a fraction": (as_file(**{"record-count": 1.5}), "invalid-field"),
    "rows as true": (as_file(**{"record-count": True}), "invalid-field"),
    "unknown format": (as_file(**{"file-format": "csv"}), "invalid-field"),
    "maps of two lengths": (as_file(**{"column-sizes": {"keys": [1, 2], "values": [1]}}), "invalid-field"),
    "a sequence without a writer": (as_json(**{"writer-sequence": 1}), "invalid-field"),
    "another's key as reply stream": (as_json(**{"reply-to": "firn:intents:0"}), "invalid-reply-to"),
    "another digest": (as_json(digest="0" * 32), "digest-mismatch"),
    "the same file twice": (
        lambda door: json.dumps(door.append(**{"data-files": [door.file("twice"), door.file("twice")]})).encode(),
        "duplicate-file",
    ),
    "100 001 files": (
        lambda door: json.dumps(
            {
                "intent-id": new_intent_id(),
                "table": TABLE,
                "operation": "delete-files",
                "removed-data-files": [f"{n}" for n in range(Limits().intent_files_max + 1)],
            }
        ).encode(),
        "too-many-files",
    ),
    "a huge summary": (as_json(summary={"k": "v" * 20_000}), "summary-too-large"),
}

BAD_NAMES: dict[str, tuple[Callable[[Door], bytes], str]] = {
    "an id that is none": (as_json(**{"intent-id": "1"}), "invalid-intent-id"),
    "an id in capitals": (as_json(**{"intent-id": "01A1FE58-DA5E-7822-8D51-C6E765F19CDC"}), "invalid-intent-id"),
    "an id of version 4": (as_json(**{"intent-id": str(uuid.UUID(int=0, version=4))}), "invalid-intent-id"),
    "no table": (as_json(table=""), "invalid-table-name"),
    "an empty part": (as_json(table="db..events"), "invalid-table-name"),
    "a NUL in the name": (as_json(table="db.\0"), "invalid-table-name"),
    "a newline in the name": (as_json(table="db.a\nb"), "invalid-table-name"),
    "a name of 513 bytes": (as_json(table="d." + "é" * 256), "invalid-table-name"),
}

UNKNOWN_TABLES: dict[str, tuple[Callable[[Door], bytes], str]] = {
    name: (as_json(table=name), "unknown-table")
    for name in ("db.nowhere", "a", "db.%2e%2e", "db.🧊❄️", "db.\u202egnp", "db.a/b", "db.e\u0301", "zookeeper")
}

FOREIGN_LOCATIONS: dict[str, tuple[Callable[[Door], bytes], str]] = {
    name: (at(path), "location-not-allowed")
    for name, path in {
        "elsewhere": "/etc/passwd",
        "a device": "/dev/zero",
        "dots": "{}/data/../../other/x.parquet",
        "dots that stay": "{}/data/../data/x.parquet",
        "escaped dots": "{}/data/%2e%2e/%2e%2e/other/x.parquet",
        "another scheme": "s3://bucket/db/events/data/x.parquet",
        "a relative path": "data/x.parquet",
        "the table's own folder": "{}",
        "a sibling that begins alike": "{}2/data/x.parquet",
        "a NUL": "{}/data/\0.parquet",
        "a newline": "{}/data/a\nb.parquet",
        "no path": " ",
    }.items()
}

TIMES: dict[str, tuple[Callable[[Door], bytes], str]] = {
    "a day and an hour old": (lambda door: at_time(door, -25 * HOUR_MS), "intent-too-old"),
    "two years old": (lambda door: at_time(door, -2 * 365 * 24 * HOUR_MS), "intent-too-old"),
    "two hours ahead": (lambda door: at_time(door, 2 * HOUR_MS), "clock-skew"),
}

ALL = {**NOT_INTENTS, **BAD_INTENTS, **BAD_NAMES, **UNKNOWN_TABLES, **FOREIGN_LOCATIONS, **TIMES}


def at_time(door: Door, shift_ms: int) -> bytes:
    """A good append with an id of another time."""
    now_ms = time.time_ns() // 1_000_000 + shift_ms
    return json.dumps(door.append(**{"intent-id": uuid7(now_ms=now_ms, entropy=os.urandom(10))})).encode()


@pytest.mark.parametrize("case", ALL)
def test_a_bad_intent_gets_one_rejection_and_the_next_is_committed(door: Door, case: str) -> None:
    """What cannot be read is set aside as well; an intent that can be is refused, and that is its outcome."""
    make, rule = ALL[case]
    payload = make(door)
    intent_id, table, _ = identity_of(payload, limits=Limits())
    entry_id = door.add({"intent": payload}, table=table or TABLE)
    door.good_one()
    rejected = None if intent_id is None else door.outcome(intent_id)
    if rejected is None or rejected.digest is None:
        letter = only_letter(door, entry_id)
        assert letter["shard"] == shard_of(table or TABLE, shards=SHARDS)
        assert letter["payload-bytes"] == len(payload)
        told = msgspec.convert(letter["outcome"], Rejected)
        assert rejected in (None, told)
        rejected = told
    else:
        assert not [letter for letter in door.stack.dead_letters() if letter["entry-id"] == entry_id]
    assert isinstance(rejected, Rejected)
    assert (rejected.rule, rejected.hint) == (rule, "fix"), rejected
    assert rejected.message
    if intent_id is not None:
        assert len([e for e in door.stack.events() if e["data"].get("intent-id") == intent_id]) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"other": b"1"}, "it has 'other'"),
        ({"intent": b"{}", "other": b"1"}, "it has 'intent', 'other'"),
        ({"INTENT": b"{}"}, "it has 'INTENT'"),
        ({"\udcff": b"\xff"}, "it has '\\ufffd'"),
        ({f"field-{number}": b"1" for number in range(7)}, "'field-4', 2 more"),
    ],
    ids=["another field", "two fields", "capitals", "binary", "many"],
)
def test_an_entry_that_holds_no_intent_is_set_aside(door: Door, fields: dict[str, bytes], said: str) -> None:
    entry_id = door.add({name.encode("utf-8", "surrogateescape"): value for name, value in fields.items()})  # type: ignore[misc]
    door.good_one()
    outcome = only_letter(door, entry_id)["outcome"]
    assert outcome["rule"] == "malformed-entry"
    assert said in outcome["message"]


def test_an_id_that_is_used_again_for_something_else_leaves_the_first_outcome_alone(door: Door) -> None:
    first = door.append()
    door.add({"intent": json.dumps(first).encode()})
    committed = door.outcome(first["intent-id"])
    door.add({"intent": json.dumps({**door.append(), "intent-id": first["intent-id"]}).encode()})
    door.good_one()
    of_id = [event["data"] for event in door.stack.events() if event["data"].get("intent-id") == first["intent-id"]]
    assert [data["rule"] for data in of_id] == ["intent-id-reuse"]
    assert door.outcome(first["intent-id"]) == committed


def test_the_writer_of_a_bad_intent_is_told_on_its_reply_stream(door: Door) -> None:
    stream = f"firn:replies:{uuid.uuid4().hex}"
    bad = door.append(**{"reply-to": stream, "summery": {}})
    door.add({"intent": json.dumps(bad).encode()})
    answer: Any = door.stack.redis.xread({stream: "0-0"}, block=10_000)
    ((_, ((_, fields),)),) = answer
    outcome = decode_outcome(fields[b"outcome"])
    assert isinstance(outcome, Rejected)
    assert (outcome.intent_id, outcome.rule) == (bad["intent-id"], "unknown-field")
    assert "summery" in outcome.message


@pytest.mark.parametrize("name", ["❄️ naïve ✓.parquet", "é.parquet", "\U0010ffff.parquet", "a b+c%41.parquet"])
def test_names_in_any_script_are_kept_byte_for_byte(door: Door, name: str) -> None:
    path = f"{door.location}/data/{uuid.uuid4().hex}-{name}"
    intent = door.append(**{"data-files": [door.file(**{"file-path": path})]})
    door.add({"intent": json.dumps(intent).encode()})
    assert isinstance(door.outcome(intent["intent-id"]), Committed)
    metadata = TableReader(FILES, limits=Limits()).metadata(door.stack.pointer(TABLE).metadata_location)
    assert path in live_files(metadata)


def test_a_flood_of_rubbish_does_not_keep_good_intents_from_being_committed(door: Door) -> None:
    letters = len(door.stack.dead_letters())
    good = [door.append() for _ in range(20)]
    for intent in good:
        for _ in range(50):
            door.add({"intent": b"rubbish"})
        door.add({"intent": json.dumps(intent).encode()})
    for intent in good:
        assert isinstance(door.outcome(intent["intent-id"]), Committed)
    assert len(door.stack.dead_letters()) == letters + 1000
    door.stack.wait_settled()


def only_letter(door: Door, entry_id: str) -> dict[str, Any]:
    """The one dead letter of an entry; waits for it."""
    ends_at = time.monotonic() + ANSWER_S
    while time.monotonic() < ends_at:
        letters = [letter for letter in door.stack.dead_letters() if letter["entry-id"] == entry_id]
        if letters:
            (letter,) = letters
            return letter
        time.sleep(0.01)
    raise AssertionError(f"no dead letter of {entry_id}\n{door.daemon.log()[-2000:]}")
