"""Folders that are held to be the ones they were: nothing is read, made or missed below one that is not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from firn.model.errors import CorruptFile, NotFound, Unavailable, UnknownOutcome
from firn.storage.file_writes import ProcessWrites
from firn.storage.files import FileStore
from firn.storage.folder_marks import FolderMarks
from firn.storage.local_files import LocalFiles
from firn.storage.locations import MARK_NAME
from firn.storage.marked_folders import MarkedFiles, MarkedFolders, read_mark
from firn.storage.memory_coordination import MemoryZooKeeper


class Disk:
    """A folder that has a mark, and can be taken from its place as a disk can."""

    def __init__(self, tmp_path: Path, mark: str = "one") -> None:
        self.folder, self._aside = tmp_path / "warehouse", tmp_path / "aside"
        self.folder.mkdir()
        (self.folder / MARK_NAME).write_text(f"{mark}\n")
        (self.folder / "there").write_bytes(b"there")
        self.folders = MarkedFolders({str(self.folder): mark})
        self.files = MarkedFiles(LocalFiles(), self.folders)

    def unmount(self) -> None:
        self.folder.rename(self._aside)
        self.folder.mkdir()

    def mount(self) -> None:
        self.folder.rmdir()  # which says that nothing was made in it
        self._aside.rename(self.folder)

    def at(self, name: str) -> str:
        return f"{self.folder}/{name}"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


OPERATIONS: list[Callable[[FileStore, Disk], object]] = [
    lambda files, disk: files.read(disk.at("there"), bytes_max=10),
    lambda files, disk: files.read_range(f"file://{disk.at('there')}", offset=0, length=2),
    lambda files, disk: files.size(disk.at("there")),
    lambda files, disk: list(files.list(disk.at("t"))),
    lambda files, disk: list(files.list(str(disk.folder))),
    lambda files, disk: files.create(disk.at("t/metadata/new"), b"new"),
    lambda files, disk: files.create_all([(disk.at("t/a"), b"a"), (disk.at("t/b"), b"b")]),
    lambda files, disk: files.replace(disk.at("t/hint"), b"1"),
    lambda files, disk: files.delete(disk.at("gone")),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_done_below_a_folder_whose_disk_has_gone_until_it_is_back(
    disk: Disk, operation: Callable[[FileStore, Disk], object]
) -> None:
    disk.unmount()
    with pytest.raises(Unavailable, match=rf"{disk.folder} is not the folder it was: its mark .* is missing"):
        operation(disk.files, disk)
    disk.mount()
    operation(disk.files, disk)


def test_a_folder_of_another_mark_is_as_good_as_none_and_a_copy_of_the_folder_as_good_as_the_folder(
    disk: Disk, tmp_path: Path
) -> None:
    assert disk.files.size(disk.at("there")) == 5
    mark = disk.folder / MARK_NAME
    mark.rename(tmp_path / "mark")
    mark.write_text("two")
    with pytest.raises(Unavailable, match=rf"another folder .* says 'two' and not one.*echo one > {mark}"):
        disk.files.size(disk.at("there"))
    mark.unlink()
    mark.write_text("one")  # as the message says
    assert disk.files.size(disk.at("there")) == 5


def test_what_lies_beside_a_marked_folder_is_none_of_its_business(disk: Disk, tmp_path: Path) -> None:
    disk.unmount()
    beside = f"{tmp_path}/warehouse2/t"
    disk.files.create(beside, b"beside")
    assert disk.files.read(beside, bytes_max=10) == b"beside"
    with pytest.raises(NotFound):
        disk.files.size(f"{tmp_path}/nothing")


def test_a_file_is_missed_only_in_a_folder_that_is_there_before_and_after(disk: Disk) -> None:
    class Going(LocalFiles):
        """A store whose disk goes between the first look and the operation."""

        def size(self, location: str) -> int:
            disk.unmount()
            return super().size(location)

        def create_all(self, files: Sequence[tuple[str, object]]) -> None:
            disk.unmount()
            super().create_all(files)  # type: ignore[arg-type]

    files = MarkedFiles(Going(), disk.folders)
    with pytest.raises(Unavailable, match="is not the folder it was"):
        files.size(disk.at("there"))
    disk.mount()
    with pytest.raises(UnknownOutcome, match="went while files were written"):
        files.create_all([(disk.at("t/a"), b"a"), (disk.at("t/b"), b"b")])


def nothing() -> None:
    """What a daemon would do meanwhile."""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared by memfd_create, which only Linux has")
async def test_the_process_that_writes_files_makes_none_where_the_disk_has_gone(disk: Disk) -> None:
    writes = ProcessWrites(disk.files, disk.folders)
    try:
        await writes.create_all([(disk.at("t/a"), b"a"), (disk.at("t/b"), b"b")], meanwhile=nothing)
        disk.unmount()
        for name in ("t/c", "u/c"):
            with pytest.raises(Unavailable, match="is not the folder it was"):
                await writes.create_all([(disk.at(name), b"c"), (disk.at(f"{name}2"), b"d")], meanwhile=nothing)
        disk.mount()
        await writes.create_all([(disk.at("t/c"), b"c"), (disk.at("t/d"), b"d")], meanwhile=nothing)
    finally:
        await writes.close()
    assert disk.files.read(disk.at("t/c"), bytes_max=10) == b"c"


def test_a_mark_is_read_or_not_there_or_says_that_it_is_damaged(disk: Disk, tmp_path: Path) -> None:
    assert read_mark(LocalFiles(), str(disk.folder)) == "one"
    assert read_mark(LocalFiles(), str(tmp_path)) is None
    (disk.folder / MARK_NAME).write_text("")
    with pytest.raises(CorruptFile, match="is empty"):
        read_mark(LocalFiles(), str(disk.folder))


async def test_of_two_that_note_a_folder_at_once_both_hear_of_the_first() -> None:
    zookeeper = MemoryZooKeeper()
    one, two = FolderMarks(zookeeper.connect()), FolderMarks(zookeeper.connect())
    assert await one.of("/warehouse") is None
    assert await one.note("/warehouse", "a") == "a"
    assert await two.note("/warehouse", "b") == "a"
    assert await two.of("/warehouse") == "a"
