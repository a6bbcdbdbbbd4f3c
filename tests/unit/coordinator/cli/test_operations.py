"""Every operation is a command, and what a command says is what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.coordinator.cli.main import firn
from firn.model.intent import OPERATIONS
from firn.storage.file_stores import open_files
from tests.strategies.statistics_files import write_partition_statistics, write_statistics
from tests.unit.coordinator.cli.cli_bench import CliBench, Said
from tests.unit.coordinator.workbench import TABLE, append, create

NOT_COMMANDS = {"row-delta", "rewrite-manifests", "rest-commit"}
"""Nobody types these: they need files and manifests of their own making (`firn submit`, the client)."""


class Typed(CliBench):
    """A workbench where every command must succeed."""

    async def ok(self, *arguments: str) -> Said:
        said = await self.firn(*arguments)
        assert said.code == 0, f"firn {' '.join(arguments)}: {said.out}{said.err}"
        return said

    async def no(self, *arguments: str) -> str:
        """A command that is refused; what it says."""
        said = await self.firn(*arguments)
        assert (said.code, said.out) == (1, ""), said
        return said.err


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command, (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in commands(firn)], ids=" ".join)
def test_every_command_says_what_it_does_and_what_its_options_mean(path: tuple[str, ...]) -> None:
    command = dict(commands(firn))[path]
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option) and not isinstance(param.type, click.Choice | click.IntRange):
            assert param.help, f"{path}: {param.opts}"


async def test_branches_and_tags() -> None:
    bench = Typed()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        second = (await bench.commit(append("b"))).snapshot_id
        made = await bench.ok("branch", "create", TABLE, "audit", "--at", str(first), "--max-ref-age", "30d")
        assert made.out.startswith(f"committed  create-branch on {TABLE}\n")
        await bench.ok("tag", "create", TABLE, "v1", "--at", "main")
        listed = json.loads((await bench.ok("branch", "list", TABLE, "--json")).out)
        assert listed["audit"] == {"snapshot-id": first, "type": "branch", "max-ref-age-ms": 30 * 86_400_000}
        assert "itself for 30 d 0 h" in (await bench.ok("branch", "list", TABLE)).out
        assert "itself for 30 d 0 h" in (await bench.ok("table", "show", TABLE)).out
        assert "unchanged  yes" in (await bench.ok("schema", "update-type", TABLE, "id", "long")).out
        assert "v1" in (await bench.ok("tag", "list", TABLE)).out
        await bench.ok("branch", "fast-forward", TABLE, "audit", "--to", "main")
        await bench.ok("branch", "retention", TABLE, "audit", "--min-snapshots", "3", "--max-snapshot-age", "7d")
        assert (await bench.metadata()).refs["audit"].min_snapshots_to_keep == 3
        fallen = await bench.ok("branch", "set", TABLE, "audit", "--at", str(first))
        assert f"fallen-off        {second}" in fallen.out
        await bench.ok("tag", "set", TABLE, "v1", "--at", "audit", "--expect", str(second))
        await bench.ok("tag", "retention", TABLE, "v1", "--max-ref-age", "1h")
        await bench.ok("branch", "rename", TABLE, "audit", "checks")
        assert "ref-moved" in await bench.no("branch", "remove", TABLE, "checks", "--expect", str(second))
        assert "[replan]" in await bench.no("branch", "remove", TABLE, "checks", "--expect", str(second))
        await bench.ok("branch", "remove", TABLE, "checks")
        await bench.ok("tag", "remove", TABLE, "v1")
        assert set((await bench.metadata()).refs) == {"main"}
        missing = await bench.firn("tag", "remove", TABLE, "v1")
        assert (missing.code, missing.err) == (1, "firn: there is no branch or tag 'v1' (there are: main)\n")


async def test_a_new_table_is_written_audited_and_published_by_branch() -> None:
    bench = Typed()
    async with bench.daemon():
        await bench.commit(create())
        assert "would be committed" in (await bench.ok("branch", "create", TABLE, "audit", "--dry-run")).out
        await bench.ok("branch", "create", TABLE, "audit")
        await bench.commit(append("a", branch="audit"))
        assert "audit" in (await bench.ok("branch", "list", TABLE)).out
        assert await bench.live() == []
        await bench.ok("branch", "fast-forward", TABLE, "--to", "audit")
        assert await bench.live() == ["a"]
        missing = await bench.firn("tag", "create", "db.events", "v1", "--at", "none")
        assert (missing.code, "there is no branch or tag 'none'" in missing.err) == (1, True)


async def test_snapshots_are_rolled_back_picked_published_and_expired() -> None:
    bench = Typed()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        second = (await bench.commit(append("b"))).snapshot_id
        await bench.ok("snapshot", "rollback", TABLE, "--to", str(first))
        assert await bench.live() == ["a"]
        await bench.ok("snapshot", "cherry-pick", TABLE, str(second))
        assert await bench.live() == ["a", "b"]
        await bench.commit(append("c"))
        await bench.ok("snapshot", "set-current", TABLE, str(second))
        assert await bench.live() == ["a", "b"]
        await bench.commit(append("w", stage=True, wap_id="nightly"))
        assert await bench.live() == ["a", "b"]
        await bench.ok("snapshot", "publish", TABLE, "nightly")
        assert await bench.live() == ["a", "b", "w"]
        assert "already-picked" in await bench.no("snapshot", "publish", TABLE, "nightly")
        dry = await bench.ok("expire", TABLE, "--older-than", "0s", "--retain-last", "1", "--dry-run")
        assert "would be committed" in dry.out
        before = len((await bench.metadata()).snapshots)
        expired = await bench.ok("expire", TABLE, "--older-than", "0s", "--retain-last", "1")
        assert "removed-count" in expired.out
        assert len((await bench.metadata()).snapshots) < before
        assert (await bench.firn("snapshot", "rollback", TABLE)).code == 2


async def test_columns_partitions_and_order() -> None:
    bench = Typed()
    async with bench.daemon():
        await bench.commit(create(format_version=3))
        await bench.ok("schema", "add-column", TABLE, "country string", "--doc", "ISO 3166", "--default", '"FI"')
        await bench.ok("schema", "add-column", TABLE, "n int")
        await bench.ok("schema", "update-type", TABLE, "n", "long")
        await bench.ok("schema", "rename-column", TABLE, "name", "title")
        await bench.ok("schema", "set-doc", TABLE, "title", "what it is called")
        await bench.ok("schema", "set-default", TABLE, "n", "7")
        await bench.ok("schema", "move-column", TABLE, "country", "--after", "id")
        await bench.ok("schema", "make-optional", TABLE, "id")
        await bench.ok("schema", "require-column", TABLE, "id", "--allow-incompatible")
        await bench.ok("schema", "set-identifier", TABLE, "id")
        await bench.ok("schema", "update", TABLE, '[{"action": "drop-column", "name": "n"}]')
        schema = (await bench.metadata()).current_schema
        assert [f.name for f in schema.fields] == ["id", "country", "ts", "title"]
        assert schema.identifier_field_ids == (1,)
        assert schema.fields[1].doc == "ISO 3166"
        assert "what it is called" in (await bench.ok("schema", "show", TABLE)).out
        late = await bench.no("schema", "rename-column", TABLE, "name", "label", "--base", "0", "--writer", "late")
        assert "schema-conflict" in late
        assert "firn explain" in late
        await bench.ok("schema", "drop-column", TABLE, "country")

        await bench.ok("partition", "add", TABLE, "day(ts)", "bucket(16, id) as b")
        await bench.ok("partition", "rename", TABLE, "b", "bucketed")
        await bench.ok("partition", "remove", TABLE, "ts_day")
        spec = (await bench.metadata()).default_spec
        assert [(f.name, f.transform) for f in spec.fields] == [("bucketed", "bucket[16]")]
        await bench.ok("sort-order", "set", TABLE, "ts desc", "bucket(16, id) asc nulls last")
        order = (await bench.metadata()).default_order
        assert [(f.transform, f.direction, f.null_order) for f in order.fields] == [
            ("identity", "desc", "nulls-last"),
            ("bucket[16]", "asc", "nulls-last"),
        ]
        await bench.ok("sort-order", "clear", TABLE)
        assert not (await bench.metadata()).default_order.is_sorted
        for wrong in (
            ("schema", "move-column", TABLE, "ts"),
            ("schema", "add-column", TABLE, "x lung"),
            ("schema", "set-default", TABLE, "title", "unquoted"),
            ("partition", "add", TABLE, "day(nope)"),
        ):
            assert (await bench.firn(*wrong)).code == 2, wrong


async def test_properties_location_format_and_statistics() -> None:
    bench = Typed()
    async with bench.daemon():
        await bench.commit(create())
        snapshot = (await bench.commit(append("a"))).snapshot_id
        await bench.ok("property", "set", TABLE, "owner=me", "team=data", "--expect", "owner")
        assert "expectation-failed" in await bench.no("property", "set", TABLE, "owner=you", "--expect", "owner=x")
        await bench.ok("property", "unset", TABLE, "team", "--expect", "team=data")
        assert json.loads((await bench.ok("property", "list", TABLE, "--json")).out)["owner"] == "me"
        await bench.ok("table", "upgrade-format", TABLE, "3")
        assert "format-downgrade" in await bench.no("table", "upgrade-format", TABLE, "2")
        await bench.ok("table", "set-location", TABLE, "memory://wh/elsewhere/events")
        assert snapshot is not None
        folder = "memory://wh/elsewhere/events/metadata"
        statistics = write_statistics(bench.files, f"{folder}/s.puffin", snapshot)
        await bench.ok("statistics", "set", TABLE, json.dumps(statistics))
        partition = write_partition_statistics(bench.files, f"{folder}/p.parquet", snapshot)
        await bench.ok("statistics", "set", TABLE, json.dumps(partition), "--partition")
        assert "p.parquet" in (await bench.ok("statistics", "list", TABLE)).out
        await bench.ok("statistics", "remove", TABLE, "main")
        await bench.ok("statistics", "remove", TABLE, str(snapshot), "--partition")
        metadata = await bench.metadata()
        assert (metadata.statistics, metadata.partition_statistics) == ((), ())


async def test_files_are_appended_staged_overwritten_replaced_and_deleted(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "wh")
    bench = Typed(files=open_files({"file": {}}), warehouse=warehouse)
    folder = tmp_path / "wh" / "db" / "events" / "data"
    folder.mkdir(parents=True)

    def parquet(name: str, *rows: tuple[int, str]) -> str:
        ids = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
        kinds = pa.field("kind", pa.string(), metadata={"PARQUET:field_id": "2"})
        columns = {"id": [row[0] for row in rows], "kind": [row[1] for row in rows]}
        pq.write_table(pa.table(columns, schema=pa.schema([ids, kinds])), folder / f"{name}.parquet")
        return str(folder / f"{name}.parquet")

    async with bench.daemon():
        columns = ("--column", "id long required", "--column", "kind string", "--partition", "kind")
        await bench.ok("table", "create", TABLE, *columns, "--location", f"{warehouse}/db/events")
        await bench.ok("file", "append", TABLE, parquet("a", (1, "red")), parquet("b", (2, "blue")), "--writer", "me")
        staged = ("--stage", "--wap-id", "w", "--summary", "job=7")
        dry = await bench.ok("file", "append", TABLE, parquet("w", (3, "red")), *staged, "--dry-run")
        assert "on no branch (staged)" in dry.out
        await bench.ok("file", "append", TABLE, parquet("w", (3, "red")), *staged)
        assert await bench.live() == ["a", "b"]
        await bench.ok("snapshot", "publish", TABLE, "w")
        await bench.ok("file", "replace", TABLE, parquet("aw", (1, "red"), (3, "red")), "--remove", path("a", folder),
                       "--remove", path("w", folder), "--maintenance")  # fmt: skip
        assert await bench.live() == ["aw", "b"]
        await bench.ok("file", "replace-partitions", TABLE, parquet("b2", (4, "blue")))
        assert await bench.live() == ["aw", "b2"]
        await bench.ok("file", "overwrite", TABLE, parquet("aw2", (5, "red")), "--where", "kind = 'red'")
        assert await bench.live() == ["aw2", "b2"]
        await bench.ok("file", "delete-where", TABLE, "kind = 'red'")
        assert "missing-file" in await bench.no("file", "delete", TABLE, path("aw2", folder))
        await bench.ok("file", "delete", TABLE, path("b2", folder))
        assert await bench.live() == []
        made = await bench.metadata()
    assert any((s.summary or {}).get("job") == "7" for s in made.snapshots)


def path(name: str, folder: Path) -> str:
    return str(folder / f"{name}.parquet")


def test_every_operation_on_tables_is_a_command() -> None:
    """By the names of those that the tests above have run, and of those that are tested elsewhere."""
    source = Path(__file__).read_text() + (Path(__file__).parent / "test_tables.py").read_text()
    words = {
        "append": '"file", "append"', "delete-files": '"file", "delete"', "delete-where": '"delete-where"',
        "overwrite": '"overwrite"', "replace": '"file", "replace"', "replace-partitions": '"replace-partitions"',
        "create-table": '"table", "create"', "register-table": '"table", "register"',
        "drop-table": '"table", "drop"', "create-branch": '"branch", "create"', "create-tag": '"tag", "create"',
        "set-ref": '"branch", "set"', "remove-ref": '"branch", "remove"', "rename-branch": '"branch", "rename"',
        "fast-forward": '"fast-forward"', "set-retention": '"retention"', "rollback": '"rollback"',
        "set-current-snapshot": '"set-current"', "cherry-pick": '"cherry-pick"', "publish": '"publish"',
        "expire-snapshots": '"expire"', "update-properties": '"property", "set"', "set-location": '"set-location"',
        "set-statistics": '"statistics", "set"', "remove-statistics": '"statistics", "remove"',
        "set-partition-statistics": '"--partition"', "remove-partition-statistics": '"--partition"',
        "upgrade-format": '"upgrade-format"', "update-schema": '"schema", "add-column"',
        "update-spec": '"partition", "add"', "update-sort-order": '"sort-order", "set"',
    }  # fmt: skip
    assert all(word in source for word in words.values())
    elsewhere = {
        name for name in OPERATIONS.values() if "view" in name or "transaction" in name or "or-replace" in name
    }
    assert set(OPERATIONS.values()) - elsewhere - NOT_COMMANDS - {"rename-table"} == set(words)
