"""How every command ends when a server is away: with 3 if it needs that server, and with its answer if it does not."""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn import data_files_from_parquet
from firn.coordinator.cli.connectors import Connectors
from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.main import firn, run
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.zookeeper_connection import connect_session
from firn.storage.parquet_schema import arrow_schema
from tests.acceptance.stack import READY_S, SCHEMA, Stack

CONNECT_TIMEOUT_S: Final = 0.05
"""What a refused connection to ZooKeeper is waited for; commands wait for seconds."""

OK, NO, AWAY = EXIT_OK, EXIT_NO, EXIT_UNAVAILABLE


class Ends(msgspec.Struct, frozen=True):
    """The exit codes of a command without Redis, without ZooKeeper, and without both."""

    redis: int
    zookeeper: int
    both: int


NEEDS_BOTH: Final = Ends(AWAY, AWAY, AWAY)
NEEDS_ZOOKEEPER: Final = Ends(OK, AWAY, AWAY)
NEEDS_NOTHING: Final = Ends(OK, OK, OK)


def needs_redis(*, answer: int = OK) -> Ends:
    """`answer` is what the daemon, which has its ZooKeeper, says."""
    return Ends(AWAY, answer, AWAY)


COMMANDS: Final[dict[str, Ends]] = {
    "table create db.new --column 'id long'": needs_redis(),
    "table register db.r --metadata-location {folder}/none.metadata.json": needs_redis(answer=NO),
    "table rename db.none db.other": needs_redis(answer=NO),
    "table set-location db.none {warehouse}/elsewhere": needs_redis(answer=NO),
    "table upgrade-format db.none 3": needs_redis(answer=NO),
    "table drop db.none": needs_redis(answer=NO),
    "table files db.t": NEEDS_ZOOKEEPER,
    "table history db.t": NEEDS_ZOOKEEPER,
    "table list": NEEDS_ZOOKEEPER,
    "table show db.t": NEEDS_ZOOKEEPER,
    "tables": NEEDS_ZOOKEEPER,
    "view create db.w --column 'id long' --sql 'SELECT 1'": needs_redis(),
    "view register db.x --metadata-location {folder}/none.metadata.json": needs_redis(answer=NO),
    "view properties db.v --set a=b": NEEDS_BOTH,
    "view rename db.v db.y": NEEDS_BOTH,
    "view replace db.v --column 'id long' --sql 'SELECT 2'": NEEDS_BOTH,
    "view rollback db.v 1": NEEDS_BOTH,
    "view drop db.v": NEEDS_BOTH,
    "view history db.v": NEEDS_ZOOKEEPER,
    "view list": NEEDS_ZOOKEEPER,
    "view show db.v": NEEDS_ZOOKEEPER,
    "branch create db.t b": NEEDS_BOTH,
    "branch fast-forward db.t main --to none": needs_redis(answer=NO),
    "branch list db.t": NEEDS_ZOOKEEPER,
    "branch remove db.t main": NEEDS_BOTH,
    "branch rename db.t none b": needs_redis(answer=NO),
    "branch retention db.t main --min-snapshots 1": needs_redis(),
    "branch set db.t main --at {snapshot}": NEEDS_BOTH,
    "tag create db.t t --at {snapshot}": NEEDS_BOTH,
    "tag list db.t": NEEDS_ZOOKEEPER,
    "tag remove db.t old": NEEDS_BOTH,
    "tag retention db.t none --max-ref-age 30d": needs_redis(answer=NO),
    "tag set db.t old --at {snapshot}": NEEDS_BOTH,
    "snapshot cherry-pick db.t {snapshot}": NEEDS_BOTH,
    "snapshot publish db.t none": needs_redis(answer=NO),
    "snapshot rollback db.t --to {snapshot}": NEEDS_BOTH,
    "snapshot set-current db.t {snapshot}": NEEDS_BOTH,
    "expire db.none --retain-last 1": needs_redis(answer=NO),
    "schema add-column db.t 'n long'": NEEDS_BOTH,
    "schema drop-column db.t writer": NEEDS_BOTH,
    "schema make-optional db.t id": NEEDS_BOTH,
    "schema move-column db.t id --first": NEEDS_BOTH,
    "schema rename-column db.t id number": NEEDS_BOTH,
    "schema require-column db.t writer --allow-incompatible": NEEDS_BOTH,
    "schema set-default db.t writer '\"x\"'": NEEDS_BOTH,
    "schema set-doc db.t id number": NEEDS_BOTH,
    "schema set-identifier db.t id": NEEDS_BOTH,
    "schema show db.t": NEEDS_ZOOKEEPER,
    "schema update db.t {folder}/changes.json": NEEDS_BOTH,
    "schema update-type db.t id long": NEEDS_BOTH,
    "partition add db.t id": NEEDS_BOTH,
    "partition remove db.t ts_day": NEEDS_BOTH,
    "partition rename db.t ts_day day": NEEDS_BOTH,
    "sort-order clear db.t": NEEDS_BOTH,
    "sort-order set db.t id": NEEDS_BOTH,
    "property list db.t": NEEDS_ZOOKEEPER,
    "property set db.t a=b": needs_redis(),
    "property unset db.t a": needs_redis(),
    "statistics list db.t": NEEDS_ZOOKEEPER,
    "statistics remove db.t {snapshot}": NEEDS_BOTH,
    "statistics set db.none {folder}/statistics.json": needs_redis(answer=NO),
    "file append db.t {file}": NEEDS_BOTH,
    "file delete db.t {folder}/none.parquet": needs_redis(answer=NO),
    "file delete-where db.t 'id = -1'": needs_redis(),
    "file overwrite db.t {file} --where 'id >= 0'": NEEDS_BOTH,
    "file replace db.t {file} --remove {file}": NEEDS_BOTH,
    "file replace-partitions db.t {file}": NEEDS_BOTH,
    "submit {folder}/intent.json": needs_redis(answer=NO),
    "explain {intent}": NEEDS_ZOOKEEPER,
    "begin db.t --purpose test": needs_redis(),
    "renew db.t {other}": needs_redis(answer=NO),
    "end db.t {other}": needs_redis(answer=NO),
    "reservations db.t": needs_redis(),
    "consumer list": NEEDS_ZOOKEEPER,
    "consumer set db.t etl": NEEDS_ZOOKEEPER,
    "consumer show db.t etl": NEEDS_ZOOKEEPER,
    "consumer remove db.t etl": NEEDS_ZOOKEEPER,
    "outcome {intent}": Ends(OK, OK, AWAY),  # it is in Redis, and in the journal
    "conflicts": NEEDS_ZOOKEEPER,
    "report commits": NEEDS_BOTH,
    "report conflicts": NEEDS_BOTH,
    "maintain plan --all": NEEDS_ZOOKEEPER,
    "maintain run --all --no-spark": NEEDS_BOTH,
    "maintain dropped": NEEDS_ZOOKEEPER,
    "spark compact db.t --dry-run": NEEDS_ZOOKEEPER,
    "spark expire db.t": NEEDS_BOTH,
    "spark orphans db.t": NEEDS_BOTH,
    "spark stats db.t --partitions-only": NEEDS_BOTH,
    "status": NEEDS_BOTH,
    "top --rounds 1": NEEDS_BOTH,
    "pause db.t --reason test": NEEDS_ZOOKEEPER,
    "resume db.t": NEEDS_ZOOKEEPER,
    "drain db.t --reason test --timeout 5": NEEDS_BOTH,
    "lock show db.t": NEEDS_ZOOKEEPER,
    "lock break db.t --yes": NEEDS_ZOOKEEPER,
    "doctor": Ends(NO, NO, NO),  # it tells of each server, and whether all is well
    "events": needs_redis(),
    "journal db.t": NEEDS_ZOOKEEPER,
    "give-up {intent}": needs_redis(answer=NO),
    "dead-letters list": needs_redis(),
    "dead-letters show 1-0": needs_redis(answer=NO),
    "dead-letters retry --rule malformed-json": needs_redis(),
    "dead-letters drop --rule malformed-json --yes": needs_redis(),
    "shard db.t": needs_redis(),
    "fsck db.t": NEEDS_ZOOKEEPER,
    "recover": NEEDS_ZOOKEEPER,
    "config check": NEEDS_NOTHING,
    "config show": NEEDS_NOTHING,
    "completion bash": NEEDS_NOTHING,
    "version": NEEDS_NOTHING,
}

ELSEWHERE: Final = {
    "serve": "test_cli: a start that cannot work",
    "demo": "it starts servers of its own",
    "spark report": "it takes Spark, and reads as `report conflicts` does",
    "spark submit-demo": "it takes Spark",
}


def commands(command: click.Command = firn, *path: str) -> Iterator[str]:
    """Every command that there is, but for groups."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, *path, name)


def test_every_command_is_looked_at() -> None:
    told = {next(name for name in commands() if f"{line} ".startswith(f"{name} ")) for line in COMMANDS}
    assert set(commands()) == told | ELSEWHERE.keys()


@pytest.mark.parametrize("away", ["redis", "zookeeper", "both"])
def test_a_command_whose_server_is_away_ends_with_three(
    stack: Stack, away: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack.daemon()
    places = filled(stack)
    for name, value in stack.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(stack.folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens there
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        if away != "zookeeper":
            monkeypatch.setenv("FIRN_REDIS_URL", f"redis://{nobody}/0")
        if away != "redis":
            monkeypatch.setenv("FIRN_ZOOKEEPER", nobody)
        wrong = []
        for line, ends in COMMANDS.items():
            code = run(shlex.split(line.format(**places)), connectors=CONNECTORS)
            said, expected = capsys.readouterr(), getattr(ends, away)
            named = "does not answer" in said.err or "no ZooKeeper answers" in said.err
            if code != expected or (code == AWAY) > named or "internal error" in said.err:
                wrong.append(f"{line}: {code}, not {expected}\n{said.out[-500:]}{said.err[-500:]}")
    assert not wrong, "\n".join(wrong)


CONNECTORS: Final = Connectors(session=lambda settings: connect_session(settings, timeout_s=CONNECT_TIMEOUT_S))


def filled(stack: Stack) -> dict[str, Any]:
    """A table with a tag, a view, and what stands in braces in the commands."""
    stack.create_table("db.t")
    folder = stack.folder
    with stack.client() as client:
        view, now = client.table("db.t"), datetime.now(UTC)
        path = Path(view.location, "data", "first.parquet")
        path.parent.mkdir()
        pq.write_table(pa.table({"id": [1], "ts": [now], "writer": ["a"]}, schema=arrow_schema(view.schema)), path)
        appended = client.append("db.t", data_files_from_parquet([path], view)).committed(READY_S)
        assert appended.snapshot_id is not None
        client.create_tag("db.t", "old", snapshot_id=appended.snapshot_id).committed(READY_S)
        client.create_view("db.v", SCHEMA, {"spark": "SELECT 1"}).committed(READY_S)
    (folder / "intent.json").write_text(json.dumps({"operation": "drop-table", "table": "db.none"}))
    (folder / "changes.json").write_text(json.dumps([{"action": "add-column", "name": "m", "type": "long"}]))
    (folder / "statistics.json").write_text(json.dumps({
        "snapshot-id": 1, "statistics-path": f"{stack.warehouse}/x", "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1, "blob-metadata": [],
    }))  # fmt: skip
    return {
        "folder": folder, "warehouse": stack.warehouse, "file": path, "snapshot": appended.snapshot_id,
        "intent": appended.intent_id, "other": new_intent_id(),
    }  # fmt: skip
