"""What a process loads, it keeps: a daemon, a program or a command has no library in memory that it can do without."""

from __future__ import annotations

import subprocess
import sys

import pytest

from firn.coordinator.cli.main import COMMANDS
from firn.coordinator.tables.table_reader import TableReader
from firn.model.deletion_vector import DeletionVector
from firn.model.limits import Limits
from firn.storage.data_files import NewFile
from firn.storage.memory_files import MemoryFiles
from firn.storage.position_deletes import encode_position_deletes

ARROW = {"pyarrow", "numpy"}
"""As much memory as all else of an idle daemon, and most of a second before a command begins."""

OBJECT_STORES = {"obstore"}
READERS_OF_ROWS = {"pyorc", "pyiceberg", "pyspark"}
SERVERS = {"redis", "kazoo", "aiohttp", "structlog", "rich"}

HEAVY = {"redis", "kazoo", "structlog", "aiohttp", "prometheus_client", "opentelemetry", "fastavro"}
"""Libraries of servers and of manifests."""

DAEMON = ("firn.coordinator.daemon", "firn.coordinator.lanes", "firn.coordinator.commits", "firn.coordinator.replay.e")
LIGHT = [name for name, one in COMMANDS.items() if one.extra is None and name not in {"serve", "demo", "top"}]
READ_MANIFESTS = {"doctor", "fsck", "give-up", "recover"}
INTENTS = ("firn.coordinator.client.intents", "firn.coordinator.client.operations", "firn.coordinator.cli.asking")
"""What makes and submits intents. Beside a command that changes something is one that only reads (`table list`)."""

MAKES_INTENTS = {"doctor", "give-up", "recover"}

WITH = {"file": {"kazoo"}} | {name: {"fastavro"} for name in READ_MANIFESTS}
"""`file` describes Parquet files for a table as the client finds it, in ZooKeeper; none of its commands only reads."""

WITH["doctor"] |= {"redis", "opentelemetry"}

WRITE_ROWS = {"demo"}
"""Commands that write Parquet files themselves."""


def modules_of(module: str) -> set[str]:
    """All modules that a new process has loaded after it has imported this one."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def loaded_by(module: str) -> set[str]:
    """Return the top names of those modules."""
    return {name.partition(".")[0] for name in modules_of(module)}


def test_a_daemon_does_without_arrow_and_without_object_stores():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS) & loaded_by("firn.coordinator.cli.serve")


def test_the_program_that_writes_files_knows_of_files_alone():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS | SERVERS) & loaded_by("firn.storage.file_writing_program")


def test_the_program_that_reads_intents_and_merges_knows_of_no_servers():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS | SERVERS) & loaded_by("firn.coordinator.calculating.program")


def test_intents_do_without_what_reads_them():
    """Every client and most commands load them: what reads REST requests is the daemon's."""
    readers = {
        "firn.model.rest_updates",
        "firn.model.rest_requirements",
        "firn.model.metadata",
        "firn.model.intent_codec",
    }
    assert not readers & modules_of("firn.model.intent")


FAMILIES = ("table", "view", "branch", "tag", "snapshot", "expire", "schema", "partition", "sort-order", "property")


@pytest.mark.parametrize("command", FAMILIES)
def test_a_family_with_commands_that_only_read_loads_no_intents(command):
    assert "firn.model.intent" not in modules_of(COMMANDS[command].module)


def test_a_client_does_without_arrow():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS) & loaded_by("firn.coordinator.client")


def test_commands_that_reach_servers_do_without_arrow():
    modules = {command.module for name, command in COMMANDS.items() if command.extra is None and name not in WRITE_ROWS}
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS) & loaded_by(", ".join(sorted(modules)))


@pytest.mark.parametrize("command", LIGHT)
def test_a_command_loads_no_library_of_a_server_and_no_rule_of_replay_before_it_needs_them(command):
    """Imports are most of what a command takes. What it needs for its work it loads when it connects, or reads."""
    loaded = modules_of(COMMANDS[command].module)
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & (ARROW | OBJECT_STORES | READERS_OF_ROWS | HEAVY - WITH.get(command, set()))
    if command not in READ_MANIFESTS:
        assert not {name for name in loaded if name.startswith(DAEMON)}
    if command not in MAKES_INTENTS:
        assert not {name for name in loaded if name.startswith(INTENTS)}


@pytest.mark.parametrize(
    ("module", "libraries"),
    [
        ("firn.coordinator.cli.connectors", HEAVY | {"rich"}),
        ("firn.coordinator.zookeeper_connection", HEAVY - {"kazoo"}),
        ("firn.coordinator.redis_connection", HEAVY - {"redis", "opentelemetry"}),
        ("firn.coordinator.tables.metadata_reader", HEAVY),
        ("firn.coordinator.tables.followed_tables", HEAVY),
        ("firn.coordinator.client.intents", HEAVY - {"kazoo"}),
    ],
)
def test_what_a_command_loads_for_one_server_loads_nothing_for_another(module, libraries):
    assert not libraries & loaded_by(module)


@pytest.mark.parametrize(("line", "logged"), [("warning", False), ("info", False), ("error", True)])
def test_a_command_loads_structlog_for_an_error_alone(line, logged):
    """A warning, such as that ZooKeeper is open to everybody, is the daemon's to write; rich comes with structlog."""
    program = (
        "import sys; from firn.coordinator.cli.connectors import quiet_logs; from firn.storage.log import get_logger\n"
        f"quiet_logs(); get_logger().{line}('a-line', table='db.t'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ("a-line" in done.stderr) == logged
    assert ({"structlog", "rich"} <= set(done.stdout.split())) == logged


def test_a_daemon_finds_what_it_loads_with_the_first_position_delete_file():
    """Its module is named in a string, so that nothing else would notice that it has moved."""
    deleted = {"/t/data/a.parquet": DeletionVector.of((1, 5))}
    data, file = encode_position_deletes(deleted, NewFile(location="/t/data/deletes.parquet"))
    files = MemoryFiles()
    files.create(file.file_path, data)
    assert TableReader(files, limits=Limits()).position_deletes(file) == deleted
