"""File-system tables are found whatever the hint says, and two writers never make the same version."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.model.errors import AlreadyExists, InvalidInput
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.local_files import LocalFiles
from firn.storage.memory_files import MemoryFiles


@pytest.fixture(params=["memory", "local"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileStore, str]:
    return (MemoryFiles(), "memory://wh/t") if request.param == "memory" else (LocalFiles(), str(tmp_path / "t"))


def make(files: FileStore, table: str, *versions: int) -> None:
    for version in versions:
        files.create(f"{table}/metadata/v{version}.metadata.json", b"{}")


def test_a_folder_without_versions_is_no_table(world: tuple[FileStore, str]) -> None:
    files, table = world
    assert FileSystemTables(files).newest(table) is None


@pytest.mark.parametrize("hint", [None, b"1", b"3\n", b"4", b"99", b"rubbish", b"-1", b"", b"0", b"9" * 60])
def test_the_newest_version_is_found_whatever_the_hint_says(world: tuple[FileStore, str], hint: bytes | None) -> None:
    files, table = world
    make(files, table, 1, 2, 3, 4)
    if hint is not None:
        files.replace(f"{table}/metadata/version-hint.text", hint)
    assert FileSystemTables(files).newest(table) == f"{table}/metadata/v4.metadata.json"


def test_a_version_ahead_of_the_hint_is_the_table_after_a_crash_between_the_two(world: tuple[FileStore, str]) -> None:
    files, table = world
    make(files, table, 1)
    tables = FileSystemTables(files)
    tables.hint(table, 1)
    tables.put(f"{table}/metadata/v2.metadata.json", b"{}")
    assert tables.newest(table) == f"{table}/metadata/v2.metadata.json"


def test_of_two_writers_of_one_version_the_second_is_told(world: tuple[FileStore, str]) -> None:
    files, table = world
    tables = FileSystemTables(files)
    location = tables.location_of(table, version=7, codec="none")
    tables.put(location, b"first")
    with pytest.raises(AlreadyExists):
        tables.put(location, b"second")
    assert files.read(location, bytes_max=100) == b"first"


def test_the_compressed_name_of_a_version_is_the_same_version(world: tuple[FileStore, str]) -> None:
    files, table = world
    tables = FileSystemTables(files)
    tables.put(tables.location_of(table, version=2, codec="gzip"), b"first")
    with pytest.raises(AlreadyExists):
        tables.put(tables.location_of(table, version=2, codec="none"), b"second")
    assert tables.newest(table) == f"{table}/metadata/v2.gz.metadata.json"


def test_known_versions_are_not_looked_for_again(world: tuple[FileStore, str]) -> None:
    files, table = world
    make(files, table, 5, 6)
    assert FileSystemTables(files).newest(table, at_least=5) == f"{table}/metadata/v6.metadata.json"


def test_a_name_without_a_version_is_refused(world: tuple[FileStore, str]) -> None:
    files, table = world
    with pytest.raises(InvalidInput):
        FileSystemTables(files).put(f"{table}/metadata/x.json", b"")
