"""The `firn` command as a user runs it: `firn serve --embedded` in a folder, and every other command beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FIRN: Final = [str(Path(sys.executable).parent / "firn")]
READY_S: Final = 60.0
END_S: Final = 40.0
TABLE: Final = "shop.orders"


class Said:
    """How a command ended and what it printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class User:
    """Somebody in a folder, with a terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("FIRN_")}
        self.daemon: subprocess.Popen[bytes] | None = None

    def firn(self, *arguments: str, stdin: str | None = None) -> Said:
        done = subprocess.run(
            [*FIRN, *arguments], cwd=self.folder, env=self.environment, input=stdin, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return Said(done)

    def spawn(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """A command that goes on; its standard output is a pipe, its errors are in ``errors.log``."""
        with (self.folder / "errors.log").open("ab") as errors:
            return subprocess.Popen(
                [*FIRN, *arguments], cwd=self.folder, env=self.environment | environment, stdout=subprocess.PIPE,
                stderr=errors,
            )  # fmt: skip

    def serve(self) -> None:
        self.daemon = self.spawn("serve", "--embedded", FIRN_HTTP_PORT="0")
        deadline = time.monotonic() + READY_S
        while not (self.folder / "data" / "endpoints.json").exists():
            assert self.daemon.poll() is None, self.errors
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and standard output of the daemon."""
        assert self.daemon is not None
        self.daemon.send_signal(number)
        out, _ = self.daemon.communicate(timeout=END_S)
        code, self.daemon = self.daemon.returncode, None
        return code, out.decode()

    @property
    def errors(self) -> str:
        return (self.folder / "errors.log").read_text()


@pytest.fixture(scope="module")
def user(tmp_path_factory) -> Iterator[User]:
    """Somebody with a running daemon."""
    user = User(tmp_path_factory.mktemp("user"))
    user.serve()
    yield user
    if user.daemon is not None:
        user.stop()


def data_file(user: User, name: str, *, rows: int) -> dict[str, Any]:
    """A real Parquet file in the table's folder, as an intent names it."""
    path = user.folder / "data" / "warehouse" / "shop" / "orders" / "data" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    field = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table({"id": list(range(rows))}, schema=pa.schema([field])), path)
    return {
        "file-path": str(path), "file-format": "parquet", "spec-id": 0, "partition": [rows % 4], "record-count": rows,
        "file-size-in-bytes": path.stat().st_size,
    }  # fmt: skip


def append(user: User, *names: str, rows: int = 10, writer: str = "etl") -> dict[str, Any]:
    files = [data_file(user, name, rows=rows) for name in names]
    return {"operation": "append", "table": TABLE, "writer": writer, "data-files": files}


def lines(intents: Sequence[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(intent) for intent in intents)


def test_a_users_day(user):
    """In one: the steps build on each other as they do for a user."""
    made = user.firn(
        "table", "create", TABLE, "--column", "id long required", "--column", "note string",
        "--partition", "bucket(4, id)", "--sort", "id",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert TABLE in user.firn("table", "list").out

    sent = user.firn("submit", "-", "--json", stdin=lines([append(user, "a"), append(user, "b", rows=7)]))
    assert sent.code == 0, sent.err
    assert [outcome["status"] for outcome in sent.lines] == ["committed", "committed"]
    again = user.firn("submit", "-", stdin=lines([append(user, "a", writer="late")]))
    assert again.code == 1
    assert "duplicate-file" in again.out

    first = sent.lines[0]["intent-id"]
    assert user.firn("outcome", first, "--json").json == sent.lines[0]
    assert "bucket(4, id) as id_bucket_4" in user.firn("table", "show", TABLE).out
    assert [f["record-count"] for f in user.firn("table", "files", TABLE, "--json").json] == [10, 7]
    history = user.firn("table", "history", TABLE, "--json").json
    assert first in [made["intent-id"] for item in history for made in item["intents"]]
    assert {made["writer"] for item in history for made in item["intents"]} == {"etl"}

    (conflict,) = user.firn("conflicts", "--json").lines
    assert (conflict["rule"], conflict["writer"]) == ("duplicate-file", "late")
    assert user.firn("conflicts", "--rule", "missing-file").out == "no conflicts\n"
    assert "table.committed" in user.firn("events").out
    assert user.firn("journal", TABLE, "--json").lines[-1]["decided"][0]["operation"] == "create-table"
    assert user.firn("shard", TABLE).out.startswith("firn:intents:")

    unusable = '{"operation": "append", "table": "shop.nope", "data-files": [{"file-path": "/x"'
    assert user.firn("submit", "-", stdin=unusable).code == 2
    nowhere = {**append(user, "a"), "table": "shop.nope"}
    assert user.firn("submit", "-", stdin=lines([nowhere])).code == 1
    assert user.firn("dead-letters").out == "no dead letters\n"
    assert {one["rule"] for one in user.firn("conflicts", "--json").lines} == {"duplicate-file", "unknown-table"}

    sound = user.firn("fsck", "--all", "--deep", "--json")
    assert sound.code == 0, sound.out
    assert sound.json["ok"]


def test_what_follows_is_told_as_it_happens_and_ctrl_c_is_a_good_end(user):
    following = {
        command[0]: user.spawn(*command, "--follow", "--json")
        for command in (("events", "--limit", "1"), ("conflicts", "--limit", "1"), ("journal", TABLE, "--limit", "1"))
    }
    outputs = {name: process.stdout for name, process in following.items()}
    before = {name: json.loads(output.readline()) for name, output in outputs.items()}
    name = f"f{time.time_ns()}"
    refused = user.firn("submit", "-", "--json", stdin=lines([append(user, name), append(user, name, writer="twin")]))
    assert refused.code == 1
    told = {name: json.loads(output.readline()) for name, output in outputs.items()}
    assert told["events"]["type"] == "firn.table.committed"
    assert told["conflicts"]["writer"] == "twin"
    assert told["conflicts"]["outcome"]["intent-id"] == refused.lines[1]["intent-id"]
    assert told["journal"]["batch"]["sequence"] == before["journal"]["batch"]["sequence"] + 1
    for process in following.values():
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 0


def test_state_survives_a_restart_and_a_signal_is_a_good_end(user):
    before = user.firn("table", "show", TABLE, "--json").json
    events = user.firn("events", "--json", "--limit", "1000").lines
    for number in (signal.SIGINT, signal.SIGTERM):
        code, out = user.stop(number)
        assert code == 0, user.errors
        assert out.startswith("firn is ready.")
        assert not (user.folder / "data" / "endpoints.json").exists()
        gone = user.firn("table", "list", "--data", "data")
        assert (gone.code, gone.out) == (3, "")
        assert gone.err == "firn: no daemon runs on data: start one with firn serve --embedded --data data\n"
        user.serve()
    assert user.firn("table", "show", TABLE, "--json").json == before
    assert user.firn("events", "--json", "--limit", "1000").lines == events
    more = user.firn("submit", "-", stdin=lines([append(user, f"r{time.time_ns()}")]))
    assert more.code == 0, more.out + more.err
    assert user.firn("fsck", TABLE, "--deep").code == 0


def test_a_breach_is_named_and_exits_with_one(user):
    victim = user.firn("table", "files", TABLE, "--json").json[0]["file-path"]
    Path(victim).rename(victim + ".away")
    broken = user.firn("fsck", TABLE)
    Path(victim + ".away").rename(victim)
    assert broken.code == 1
    assert f"nothing-missing: {victim}: the data file is gone" in broken.out
    assert user.firn("fsck", TABLE).code == 0


def test_commands_from_elsewhere_are_pointed_to_the_folder(user, tmp_path):
    elsewhere = User(tmp_path)
    assert TABLE in elsewhere.firn("table", "list", "--data", str(user.folder / "data")).out
    elsewhere.environment["FIRN_DATA"] = str(user.folder / "data")
    assert TABLE in elsewhere.firn("table", "list").out
    assert str(user.folder) in elsewhere.firn("config", "show").out


def test_a_second_daemon_on_the_same_folder_is_refused_in_one_line(user):
    second = subprocess.run(
        [*FIRN, "serve", "--embedded"], cwd=user.folder, env=user.environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 3
    assert second.stderr.splitlines()[-1].startswith("firn: ")
    assert "is in use by a server that another firn started" in second.stderr
    assert user.firn("table", "list").code == 0


def test_a_start_that_cannot_work_is_one_line(tmp_path):
    user = User(tmp_path)
    (tmp_path / "file").touch()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
        user.environment["FIRN_REDIS_URL"] = f"redis://{nobody}/0"
        without_redis = user.firn("serve")
    assert without_redis.code == 3
    assert without_redis.err.count("\n") == 1
    assert without_redis.err == f"firn: Redis at redis://{nobody}/0 does not answer: Connection refused\n"
    del user.environment["FIRN_REDIS_URL"]
    no_folder = user.firn("serve", "--embedded", "--data", "file/data")
    assert no_folder.code == 2
    assert no_folder.err.startswith("firn: --data file/data: Not a directory")
    user.environment["FIRN_DAEMON_SHARDS"] = "many"
    assert user.firn("serve").code == 2


def test_a_signal_during_the_start_is_a_good_end_and_leaves_no_server(tmp_path):
    user = User(tmp_path)
    starting = user.spawn("serve", "--embedded", FIRN_HTTP_PORT="0")
    deadline = time.monotonic() + READY_S
    while not (tmp_path / "data" / "servers" / "redis").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    starting.send_signal(signal.SIGTERM)
    out, _ = starting.communicate(timeout=END_S)
    assert starting.returncode == 0, user.errors
    assert out == b""
    deadline = time.monotonic() + END_S
    while left := subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout:
        assert time.monotonic() < deadline, left  # a guardian ends a moment after what it guarded
        time.sleep(0.05)


def test_help_comes_at_once():
    started = time.monotonic()
    done = subprocess.run([*FIRN, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert time.monotonic() - started < 5
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys; import firn.coordinator.cli; print(*sys.modules)"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "Exit codes: 0 done" in done.stdout
    assert not {"pyarrow", "kazoo", "redis", "aiohttp", "rich"} & set(loaded.stdout.split())
