"""`firn explain` tells what happened to an intent, where a snapshot comes from, and nothing that it does not know."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from firn import Intents
from firn.coordinator.journal import decisions
from firn.model.operations.refs import CreateBranch, Rollback
from firn.model.operations.upkeep import ExpireSnapshots
from firn.model.sharding import shard_of
from firn.storage.manifest_lists import encode_manifest_list
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.cli.cli_bench import CliBench, Said
from tests.unit.coordinator.workbench import TABLE, append, create, delete, new_id, replace


def label(said: Said, name: str) -> str:
    """The text of the first line with this label."""
    return next(line.split(name, 1)[1].strip() for line in said.out.splitlines() if line.startswith(name))


async def test_a_rejection_is_told_with_rule_winner_what_came_meanwhile_and_what_to_do() -> None:
    bench = CliBench()
    async with bench.daemon("daemon-a"):
        await bench.commit(create())
        base = (await bench.commit(append("a", "b"))).snapshot_id
        assert base is not None
        winner = delete("a", writer="deleter-0")
        gone = await bench.commit(winner)
        await bench.commit(append("c", writer="etl"))
        intent = replace(["a", "b"], ["ab"], base=base, writer="compactor-1")
        refused = await bench.refuse(intent)
        said = await bench.firn("explain", intent.intent_id)
        story = (await bench.firn("explain", intent.intent_id, "--json")).json
    assert (said.code, said.err) == (0, "")
    assert label(said, "asks for") == f"replace on {TABLE} (main) by compactor-1"
    assert label(said, "outcome") == "rejected by missing-file"
    assert label(said, "because") == refused.message
    assert label(said, "first was") == (
        f"delete-files, by deleter-0, intent {winner.intent_id}, snapshot {gone.snapshot_id}"
    )
    assert label(said, "do") == "replan: read the table again, and plan on what is there now"
    assert label(said, "judged") == f"planned on {base}; main was at {refused.head_snapshot_id}"
    assert label(said, "meanwhile") == f"2 snapshots that came after its base {base}:"
    assert "by etl" in said.out
    assert "daemon daemon-a" in label(said, "batch")
    assert story["state"] == "decided"
    assert [one["writer"] for one in story["rebased-over"]] == ["etl", "deleter-0"]
    assert story["winner"]["operation"] == "delete-files"
    assert story["outcome"]["rule"] == "missing-file"
    assert story["waited-ms"] >= 0


async def test_a_commit_is_told_with_its_companions_and_where_it_is_now() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        assert base is not None
        intent = replace(
            ["a"], ["b"], base=base, writer="compactor", priority="maintenance", summary={"trace-id": "4bf92f"}
        )
        mine = (await bench.commit(intent)).snapshot_id
        fresh = await bench.firn("explain", intent.intent_id)
        await bench.commit(append("c"))
        later = await bench.firn("explain", intent.intent_id)
        await bench.commit(Rollback(intent_id=new_id(), table=TABLE, snapshot_id=base))
        away = await bench.firn("explain", intent.intent_id)
        await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=(mine,)))  # type: ignore[arg-type]
        expired = await bench.firn("explain", intent.intent_id)
    assert label(fresh, "asks for").endswith("by compactor as maintenance")
    assert label(fresh, "trace") == "4bf92f"
    assert label(fresh, "outcome").startswith(f"committed in snapshot {mine}, ")
    assert label(fresh, "rebased") == f"nothing came after its base {base}"
    assert label(fresh, "now") == "is what main points at"
    assert label(later, "now") == "in the history of main"
    assert label(away, "now").startswith("on no branch")
    assert label(expired, "now") == "expired, or the table was dropped"
    assert label(expired, "rebased").endswith("cannot be told any more")


async def test_an_intent_that_waits_is_told_its_place_in_the_queue() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
    first, second = append("a"), append("b", writer="w")
    await bench.send(first, second, first)
    said = await bench.firn("explain", second.intent_id)
    assert said.code == 0
    assert label(said, "outcome").startswith("none yet: waits for a daemon, for ")
    assert label(said, "before it") == "1 intent of its table, 1 in its stream"
    assert label(said, "asks for") == f"append on {TABLE} by w"
    twice = await bench.firn("explain", first.intent_id)
    assert label(twice, "in the queue").endswith("waiting")
    assert twice.out.count("  waiting") == 2
    shard = shard_of(TABLE, shards=bench.shards)
    await bench.streams.take([shard], consumer="daemon-b", count=1, block_ms=0)
    taken = await bench.firn("explain", first.intent_id, "--table", TABLE)
    assert "daemon daemon-b has had it for" in label(taken, "outcome")


async def test_what_nobody_knows_is_said_to_be_unknown() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        said = await bench.firn("explain", new_id())
        bad = await bench.firn("explain", "nonsense")
        none = await bench.firn("explain")
        both = await bench.firn("explain", "--snapshot", "1")
        no_snapshot = await bench.firn("explain", "--snapshot", "1", "--table", TABLE)
    assert said.code == 1
    assert label(said, "outcome").startswith("unknown")
    assert (bad.code, none.code, both.code, no_snapshot.code) == (2, 2, 2, 1)


async def test_an_intent_on_a_table_that_never_was_is_told_by_its_outcome() -> None:
    bench = CliBench()
    async with bench.daemon():
        lost = append("a", table="db.nowhere")
        await bench.refuse(lost)
        said = await bench.firn("explain", lost.intent_id)
    assert said.code == 0
    assert label(said, "outcome") == "rejected by unknown-table"


async def test_without_redis_the_journal_tells_the_story_and_without_it_redis_does() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        intent = append("a", writer="w")
        await bench.commit(intent)
    bench.redis.down = True
    said = await bench.firn("explain", intent.intent_id)
    assert said.code == 0
    assert "only the journals were looked at" in said.err
    assert label(said, "asks for") == f"append on {TABLE} (main) by w"


async def test_old_intents_and_snapshots_are_found_through_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 4)
    bench = CliBench()
    intents = [append(f"f{number}", writer=f"w{number}") for number in range(15)]
    async with bench.daemon():
        await bench.commit(create())
        done = [await bench.commit(intent) for intent in intents]
    for intent, outcome in zip(intents, done, strict=True):
        story = (await bench.firn("explain", intent.intent_id, "--json")).json
        assert (story["writer"], story["outcome"]["snapshot-id"]) == (intent.writer, outcome.snapshot_id)
        snapshot = (
            await bench.firn("explain", "--snapshot", str(outcome.snapshot_id), "--table", TABLE, "--json")
        ).json
        assert [one["intent-id"] for one in snapshot["intents"]] == [intent.intent_id]


async def test_a_snapshot_names_who_asked_for_it_and_what_it_was_rebased_over() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        assert base is not None
        await bench.commit(append("x", writer="between"))
        intent = replace(["a"], ["b"], base=base, writer="compactor")
        made = (await bench.commit(intent)).snapshot_id
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="keep", snapshot_id=made or 0))
        said = await bench.firn("explain", "--snapshot", str(made), "--table", TABLE)
    assert said.code == 0
    assert label(said, "asked for by").startswith(f"{intent.intent_id}  replace by compactor  committed")
    assert label(said, "rebased") == f"over 1 snapshot that came after its base {base}:"
    assert "by between" in said.out
    assert label(said, "now") == "is what main, keep point at"
    assert label(said, "changes") == "added-data-files 1, deleted-data-files 1, added-records 10, deleted-records 10"


async def test_a_snapshot_of_a_transaction_names_the_transaction() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create("db.a"))
        await bench.commit(create("db.b"))
        members = [append("x", table="db.a"), append("y", table="db.b")]
        intent = Intents().transaction(members, writer="both")
        await bench.commit(intent)
        made = {table: (await bench.metadata(table)).current_snapshot_id for table in ("db.a", "db.b")}
        told = await bench.firn("explain", intent.intent_id)
        for table, snapshot_id in made.items():
            said = await bench.firn("explain", "--snapshot", str(snapshot_id), "--table", table)
            assert label(said, "asked for by").startswith(f"{intent.intent_id}  transaction by both")
    assert label(told, "outcome").startswith("committed")


async def test_a_renamed_table_is_followed_through_its_names() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create("db.old"))
        intent = append("a", table="db.old", writer="w")
        snapshot_id = (await bench.commit(intent)).snapshot_id
        await bench.commit(Intents().rename_table("db.old", "db.new"))
        told = await bench.firn("explain", intent.intent_id)
        said = await bench.firn("explain", "--snapshot", str(snapshot_id), "--table", "db.new")
    assert label(told, "now") == "is what main points at"
    assert label(said, "asked for by").startswith(f"{intent.intent_id}  append by w")


class Meddling(MemoryFiles):
    """Files during whose writing somebody else commits to the same table."""

    def __init__(self) -> None:
        super().__init__()
        self.meddle: Any = None

    def create_all(self, files: Any) -> None:
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        super().create_all(files)


async def test_swaps_that_did_not_come_off_name_who_was_first() -> None:
    files = Meddling()
    bench = CliBench(files=files)
    async with bench.daemon("a"):
        await bench.commit(create(catalog="file-system"))
        loop, done = asyncio.get_running_loop(), threading.Event()

        def meddle() -> None:
            asyncio.run_coroutine_threadsafe(foreign_commit(bench), loop).result(10)
            done.set()

        files.meddle = meddle
        intent = append("a", writer="w")
        outcome = await bench.commit(intent)
        said = await bench.firn("explain", intent.intent_id)
        foreign = (await bench.metadata()).snapshots[0].snapshot_id
        other = await bench.firn("explain", "--snapshot", str(foreign), "--table", TABLE)
    assert done.is_set()
    assert outcome.replays == 1
    assert label(said, "replayed") == "swap 1 did not come off, the table had moved, to v2.metadata.json"
    assert label(other, "by") == "spark 3.5: no intent of firn's asked for it"


async def foreign_commit(bench: CliBench) -> None:
    """Another engine puts the next version of a file-system table."""
    metadata = await bench.metadata()
    location = f"{metadata.location}/metadata/v1.metadata.json"
    members = msgspec.json.decode(bench.files.read(location, bytes_max=1 << 20))
    listed = f"{metadata.location}/metadata/snap-77.avro"
    members["snapshots"] = [
        {
            "snapshot-id": 77, "sequence-number": 1, "timestamp-ms": members["last-updated-ms"] + 1,
            "manifest-list": listed, "schema-id": 0,
            "summary": {"operation": "append", "engine-name": "spark", "engine-version": "3.5"},
        }
    ]  # fmt: skip
    members["current-snapshot-id"], members["last-sequence-number"] = 77, 1
    members["refs"] = {"main": {"snapshot-id": 77, "type": "branch"}}
    members["last-updated-ms"] += 1
    bench.files.create(
        listed,
        encode_manifest_list([], format_version=2, snapshot_id=77, parent_snapshot_id=None, sequence_number=1),
    )
    bench.files.create(f"{metadata.location}/metadata/v2.metadata.json", msgspec.json.encode(members))
