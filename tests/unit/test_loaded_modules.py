"""What a process loads, it keeps: a daemon, a program or a command has no library in memory that it can do without."""

from __future__ import annotations

import subprocess
import sys

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

WRITE_ROWS = {"demo"}
"""Commands that write Parquet files themselves."""


def loaded_by(module: str) -> set[str]:
    """The top names of all modules that a new process has loaded after it has imported this one."""
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_a_daemon_does_without_arrow_and_without_object_stores():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS) & loaded_by("firn.coordinator.cli.serve")


def test_the_program_that_writes_files_knows_of_files_alone():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS | SERVERS) & loaded_by("firn.storage.file_writing_program")


def test_the_program_that_reads_intents_and_merges_knows_of_no_servers():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS | SERVERS) & loaded_by("firn.coordinator.calculating.program")


def test_a_client_does_without_arrow():
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS) & loaded_by("firn.coordinator.client")


def test_commands_that_reach_servers_do_without_arrow():
    modules = {command.module for name, command in COMMANDS.items() if command.extra is None and name not in WRITE_ROWS}
    assert not (ARROW | OBJECT_STORES | READERS_OF_ROWS) & loaded_by(", ".join(sorted(modules)))


def test_a_daemon_finds_what_it_loads_with_the_first_position_delete_file():
    """Its module is named in a string, so that nothing else would notice that it has moved."""
    deleted = {"/t/data/a.parquet": DeletionVector.of((1, 5))}
    data, file = encode_position_deletes(deleted, NewFile(location="/t/data/deletes.parquet"))
    files = MemoryFiles()
    files.create(file.file_path, data)
    assert TableReader(files, limits=Limits()).position_deletes(file) == deleted
