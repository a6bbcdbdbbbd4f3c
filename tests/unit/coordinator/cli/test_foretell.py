"""`firn submit --dry-run` says what would happen, and submits nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from firn.model.intent import Intent
from tests.unit.coordinator.cli.cli_bench import CliBench, Said
from tests.unit.coordinator.workbench import TABLE, append, create, delete, path_of, replace


def written(folder: Path, *intents: Intent) -> str:
    path = folder / "intents.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(intent) for intent in intents))
    return str(path)


def label(said: Said, name: str) -> str:
    return next(line.split(name, 1)[1].strip() for line in said.out.splitlines() if line.startswith(name))


async def test_yes_and_no_are_told_with_their_reasons(tmp_path: Path) -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a", "b"))).snapshot_id
        assert base is not None
        await bench.commit(append("c", writer="etl"))
        file = written(tmp_path, replace(["a", "b"], ["ab"], base=base, writer="compactor"), delete("nope"))
        before = dict(bench.redis.streams)
        said = await bench.firn("submit", file, "--dry-run")
        lines = (await bench.firn("submit", file, "--dry-run", "--json")).lines
        yes = await bench.firn("submit", written(tmp_path, append("d")), "--dry-run")
        assert await bench.live() == ["a", "b", "c"]
        assert before.keys() == bench.redis.streams.keys()
    assert (said.code, said.err) == (1, "")
    assert label(said, "outcome") == "would be committed"
    assert label(said, "adds") == path_of("ab")
    assert label(said, "rebased") == f"over 1 snapshot that came after its base {base}:"
    assert "by etl" in said.out
    assert "would be rejected by missing-file" in said.out
    assert label(said, "may change") == "when others are committed before it; nothing is queued for its table now"
    assert [line["status"] for line in lines] == ["would-commit", "would-reject"]
    assert lines[1]["outcome"]["rule"] == "missing-file"
    assert yes.code == 0


async def test_a_table_can_be_made_and_used_in_one_dry_run(tmp_path: Path) -> None:
    bench = CliBench()
    async with bench.daemon():
        file = written(tmp_path, create(), append("a"), append("a"))
        lines: list[dict[str, Any]] = (await bench.firn("submit", file, "--dry-run", "--json")).lines
        listed = await bench.firn("table", "list", "--json")
    assert [line["status"] for line in lines] == ["would-commit", "would-commit", "would-reject"]
    assert json.loads(listed.out) == []
    assert lines[1]["table"] == TABLE


async def test_commands_can_be_asked_what_they_would_do() -> None:
    bench = CliBench()
    columns = ("--column", "id long required")
    async with bench.daemon():
        made = await bench.firn("table", "create", TABLE, *columns, "--dry-run")
        assert (await bench.firn("table", "list")).out == "there are no tables\n"
        await bench.firn("table", "create", TABLE, *columns)
        again = await bench.firn("table", "create", TABLE, *columns, "--dry-run")
        dropped = await bench.firn("table", "drop", TABLE, "--dry-run")
        view = await bench.firn("view", "create", "db.v", "--column", "id long", "--sql", "SELECT 1", "--dry-run")
        renamed = await bench.firn("table", "rename", TABLE, "db.other", "--dry-run")
        branch = await bench.firn("property", "set", TABLE, "a=b", "--dry-run")
        assert TABLE in (await bench.firn("table", "list")).out
    for said in (made, dropped, view, renamed, branch):
        assert (said.code, label(said, "outcome")) == (0, "would be committed"), said
    assert (again.code, label(again, "outcome")) == (1, "would be rejected by table-exists")


async def test_without_redis_the_queue_is_said_to_be_unseen(tmp_path: Path) -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
    bench.redis.down = True
    said = await bench.firn("submit", written(tmp_path, append("a")), "--dry-run")
    assert said.code == 0
    assert "the queue could not be looked at" in label(said, "may change")
