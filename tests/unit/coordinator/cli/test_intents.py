"""Intents on the command line: submitted, looked up, and what became of those that were refused."""

import asyncio
import io
import json
import sys

import msgspec
import pytest

from firn.coordinator.client.intents import new_intent_id
from firn.model.intent import encode_intent
from firn.model.sharding import shard_of
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.transactions.ledger import A, B, transaction, with_tables
from tests.unit.coordinator.workbench import TABLE, append, create, delete, replace


def lines(*intents) -> str:
    return "\n".join(encode_intent(intent).decode() for intent in intents)


def without_id(intent) -> dict:
    obj = msgspec.json.decode(encode_intent(intent))
    del obj["intent-id"]
    return obj


@pytest.fixture
def intents_file(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "intents.jsonl"
        path.write_text(text)
        return str(path)

    return write


async def test_json_lines_are_submitted_in_order_and_each_outcome_is_told(intents_file):
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        file = intents_file(lines(append("a"), append("b"), append("a")))
        answer = await bench.firn("submit", file, "--json")
        assert await bench.live() == ["a", "b"]
    assert [outcome["status"] for outcome in answer.lines] == ["committed", "committed", "rejected"]
    assert answer.code == 1


async def test_one_object_over_several_lines_and_an_array_are_intents_too(intents_file):
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        one = await bench.firn("submit", intents_file(json.dumps(without_id(append("a")), indent=2)))
        many = await bench.firn("submit", intents_file(json.dumps([without_id(append(n)) for n in "bc"])))
        assert (one.code, many.code) == (0, 0)
        assert await bench.live() == ["a", "b", "c"]
    assert one.out.splitlines()[1].startswith("committed  append     db.events")


async def test_a_repeated_epoch_is_shown_as_a_repeat_of_the_first_intent(intents_file):
    bench = CliBench()
    first, repeat = (append(name, writer="etl", writer_sequence=7) for name in "ab")
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(first)
        told = await bench.firn("submit", intents_file(lines(repeat)))
        again = await bench.firn("outcome", repeat.intent_id)
        story = await bench.firn("explain", repeat.intent_id)
        events = (await bench.firn("events", "--json")).lines
    assert told.code == 0
    assert f"repeats the epoch that {first.intent_id} committed" in " ".join(told.out.split())
    assert f"repeats  {first.intent_id}" in " ".join(again.out.split()).replace("repeats ", "repeats  ")
    assert f"repeats the epoch that {first.intent_id} committed" in story.out
    assert [event["id"] for event in events if event["type"] == "firn.intent.repeated"] == [repeat.intent_id]


async def test_standard_input_is_a_file_too(monkeypatch):
    bench = CliBench()
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(without_id(append("a"))).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    async with bench.daemon():
        await bench.commit(create())
        assert (await bench.firn("submit", "-")).code == 0
        assert await bench.live() == ["a"]


async def test_without_waiting_an_intent_is_queued_where_its_table_belongs(intents_file):
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        intent = append("a")
        (queued,) = (await bench.firn("submit", "--no-wait", intents_file(lines(intent)), "--json")).lines
        await bench.outcome(intent)
    assert queued["status"] == "queued"
    assert queued["stream"] == f"firn:intents:{shard_of(TABLE, shards=bench.shards)}"
    assert (await bench.firn("shard", TABLE)).out == queued["stream"] + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("no json", "not JSON"),
        ("[1]", "is not a JSON object"),
        (lines(append("a")) + '\n{"operation": "append"}', "line 2: missing-field"),
        ('{"operation": "append", "table": "t", "data-files": [], "x": NaN}', "intents.jsonl"),
        ('{"operation": "merge", "table": "t"}', "unknown-operation"),
        (json.dumps({**without_id(append("a")), "file": 1}), "unknown-field"),
        (json.dumps({**without_id(append("a")), "intent-id": "x"}), "invalid-intent-id"),
    ],
)
async def test_one_bad_intent_and_none_is_submitted(intents_file, text, said):
    bench = CliBench()
    answer = await bench.firn("submit", intents_file(text))
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1
    assert bench.redis.streams == {}


async def test_a_file_that_cannot_be_read_is_wrong_usage():
    answer = await CliBench().firn("submit", "nowhere.jsonl")
    assert (answer.code, answer.err) == (2, "firn: nowhere.jsonl: No such file or directory\n")


async def test_no_answer_in_time_is_unknown_and_not_a_guess(intents_file):
    bench = CliBench()
    answer = await bench.firn("submit", intents_file(lines(append("a"))), "--timeout", "0.1")
    assert answer.code == 3
    assert "unknown" in answer.out


async def test_an_outcome_is_found_in_redis_and_without_redis_in_the_journal():
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        done, refused = append("a"), append("a")
        await bench.settle(done, refused)
        assert (await bench.firn("outcome", done.intent_id)).code == 0
        assert (await bench.firn("outcome", refused.intent_id)).code == 1
    bench.redis.flush_all()
    from_journal = await bench.firn("outcome", done.intent_id, "--json")
    assert (from_journal.code, from_journal.json["status"]) == (0, "committed")
    assert (await bench.firn("outcome", refused.intent_id, "--table", TABLE)).code == 1
    bench.redis.down = True
    without = await bench.firn("outcome", done.intent_id)
    assert without.code == 0
    assert "only the journals were looked at" in without.err


async def test_what_nobody_decided_is_not_known():
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
    assert (await bench.firn("outcome", new_intent_id())).code == 3
    assert (await bench.firn("outcome", "42")).code == 2


async def conflicted(bench: CliBench) -> None:
    """A table with three conflicts, and a dead letter."""
    await bench.commit(create())
    base = await bench.commit(append("a", "b"))
    assert base.snapshot_id is not None
    await bench.commit(replace(["a"], ["a2"], base=base.snapshot_id, writer="compactor-1"))
    await bench.refuse(delete("a", writer="deleter-1"))
    await bench.refuse(append("b", writer="etl-1"))
    await bench.refuse(append("x", table="db.nope", writer="etl-1"))


async def test_conflicts_are_listed_newest_first_with_the_winner():
    bench = CliBench()
    async with bench.daemon():
        await conflicted(bench)
    found = (await bench.firn("conflicts", "--json")).lines
    assert [(c["rule"], c["source"]) for c in found] == [
        ("unknown-table", "event"),
        ("duplicate-file", "journal"),
        ("missing-file", "journal"),
    ]
    assert found[2]["writer"] == "deleter-1"
    assert found[2]["outcome"]["conflicting-writer"] == "compactor-1"
    human = (await bench.firn("conflicts")).out.splitlines()
    assert human[0].split()[:3] == ["TIME", "TABLE", "RULE"]
    assert "compactor-1" in human[3]


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        (("--table", TABLE), ["duplicate-file", "missing-file"]),
        (("--table", "db.nope"), ["unknown-table"]),
        (("--rule", "missing-file"), ["missing-file"]),
        (("--writer", "deleter-1"), ["missing-file"]),
        (("--writer", "compactor-1"), ["missing-file"]),
        (("--since", "1h"), ["unknown-table", "duplicate-file", "missing-file"]),
        (("--since", "0s"), []),
        (("--since", "2020-01-01"), ["unknown-table", "duplicate-file", "missing-file"]),
        (("--since", "2999-01-01T00:00+02:00"), []),
        (("--until", "0s"), ["unknown-table", "duplicate-file", "missing-file"]),
        (("--until", "1h"), []),
        (("--until", "2020-01-01T12:00Z"), []),
        (("--operation", "append"), ["unknown-table", "duplicate-file"]),
        (("--operation", "delete-files", "--rule", "duplicate-file"), []),
        (("--winner", "compactor-1"), ["missing-file"]),
        (("--winner", "deleter-1"), []),
        (("--writer", "etl-1"), ["unknown-table", "duplicate-file"]),
        (("--limit", "1"), ["unknown-table"]),
    ],
)
async def test_conflicts_are_filtered(options, rules):
    bench = CliBench()
    async with bench.daemon():
        await conflicted(bench)
    await asyncio.sleep(0.01)
    assert [c["rule"] for c in (await bench.firn("conflicts", "--json", *options)).lines] == rules


async def test_without_redis_the_journals_still_tell_their_conflicts():
    bench = CliBench()
    async with bench.daemon():
        await conflicted(bench)
    bench.redis.down = True
    answer = await bench.firn("conflicts", "--json")
    assert [c["rule"] for c in answer.lines] == ["duplicate-file", "missing-file"]
    assert "rejections that are in no journal are not shown" in answer.err


async def test_an_unreadable_journal_is_said_and_the_others_are_told():
    bench = CliBench()
    async with bench.daemon():
        await conflicted(bench)
        await bench.commit(create("db.other"))
        head = (await bench.journal("db.other"))[-1].location
    bench.files.delete(head)
    answer = await bench.firn("conflicts", "--json")
    assert len(answer.lines) == 3
    assert "the journal of db.other cannot be read" in answer.err


async def test_events_are_told_oldest_first():
    bench = CliBench()
    async with bench.daemon():
        await conflicted(bench)
    types = [event["type"] for event in (await bench.firn("events", "--json")).lines]
    assert types == [*["firn.table.committed"] * 3, *["firn.intent.rejected"] * 3]
    assert len((await bench.firn("events", "--limit", "2")).out.splitlines()) == 2
    only = (await bench.firn("events", "--table", "db.nope", "--json")).lines
    assert [event["subject"] for event in only] == ["db.nope"]
    assert only[0]["data"]["writer"] == "etl-1"


async def test_a_journal_lists_its_swaps_newest_first():
    bench = CliBench()
    async with bench.daemon():
        await conflicted(bench)
    found = (await bench.firn("journal", TABLE, "--json")).lines
    assert [segment["batch"]["sequence"] for segment in found] == [5, 4, 3, 2, 1]
    human = (await bench.firn("journal", TABLE, "--limit", "2")).out.splitlines()
    assert len(human) == 3
    assert human[1].split()[3:5] == ["0", "1"]


async def test_dead_letters_show_what_came_and_why_it_was_set_aside():
    bench = CliBench()
    async with bench.daemon():
        await bench.streams.submit(0, b"\x1b[31mnot json")
        async with asyncio.timeout(5):
            while not (await bench.firn("dead-letters", "--json")).lines:
                pass  # each look is a turn for the daemon
    (letter,) = (await bench.firn("dead-letters", "--json")).lines
    assert letter["payload"] == "\x1b[31mnot json"
    human = (await bench.firn("dead-letters")).out
    assert "malformed-json" in human
    assert "\x1b" not in human


async def test_nothing_is_said_in_a_sentence():
    bench = CliBench()
    assert (await bench.firn("conflicts")).out == "no conflicts\n"
    assert (await bench.firn("dead-letters")).out == "no dead letters\n"
    assert (await bench.firn("table", "list")).out == "there are no tables\n"
    assert (await bench.firn("conflicts", "--json")).out == ""
    assert (await bench.firn("table", "list", "--json")).json == []


async def test_a_transaction_is_among_the_conflicts_of_the_table_that_it_failed_over():
    bench = CliBench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        await bench.commit(append("b", table=B))
        await bench.refuse(transaction(append("a", table=A), append("b", table=B), writer="bookkeeper"))
        await bench.refuse(append("b", table=B))
        for table in (A, B):
            found = (await bench.firn("conflicts", "--table", table, "--json")).lines
            assert found[-1]["outcome"]["details"]["table"] == B
            assert len(found) == (1 if table == A else 2)
        assert len((await bench.firn("conflicts", "--json")).lines) == 2
        bench.redis.down = True
        without = await bench.firn("conflicts", "--table", B)
        assert "rejections that are in no journal are not shown" in without.err
        assert without.code == 0
