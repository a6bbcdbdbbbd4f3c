"""Files that were made before anybody asked for them."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from firn.model.errors import AlreadyExists
from firn.storage.file_writes import ProcessWrites
from firn.storage.local_files import LocalFiles
from firn.storage.spare_files import FAILURES_MAX, IDLE_S, SpareFiles
from tests.unit.storage.batch_writing import create_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files without a name are Linux's")


@asynccontextmanager
async def process_writes():
    writes = ProcessWrites(LocalFiles())
    try:
        yield writes
    finally:
        await writes.close()


def inodes_of_spare_files(process: int | str, *, within: Path) -> set[int]:
    found = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            target, status = descriptor.readlink(), descriptor.stat()
        except FileNotFoundError:
            continue
        if not status.st_nlink and target.is_relative_to(within):
            found.add(status.st_ino)
    return found


async def spare_files(writes: ProcessWrites, *, within: Path, count: int) -> set[int]:
    assert writes._companion._process is not None
    ends_at = time.monotonic() + 10
    while len(found := inodes_of_spare_files(writes._companion._process.pid, within=within)) != count:
        assert time.monotonic() < ends_at, f"{len(found)} spare files"
        await asyncio.sleep(0.01)
    return found


async def test_the_next_files_are_the_ones_that_were_spare(tmp_path):
    async with process_writes() as writes:
        await create_all(writes, [(f"{tmp_path}/a", b"a"), (f"{tmp_path}/b", b"b"), (f"{tmp_path}/deep/c", b"c")])
        spare = await spare_files(writes, within=tmp_path, count=3)
        files = [(f"{tmp_path}/d", b"d" * 300_000), (f"{tmp_path}/deep/e", b""), (f"{tmp_path}/f", b"f")]
        await create_all(writes, files)
        for location, content in files:
            assert LocalFiles().read(location, bytes_max=10**6) == content
        assert {(tmp_path / name).stat().st_ino for name in ("d", "deep/e", "f")} == spare
        assert not await spare_files(writes, within=tmp_path, count=3) & spare
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "d", "deep", "f"]
    mode = (tmp_path / "d").stat().st_mode
    assert mode == (tmp_path / "a").stat().st_mode, "one that was spare has other rights than one that was not"


async def test_a_name_that_is_taken_is_not_overwritten_and_the_others_are_still_made(tmp_path):
    async with process_writes() as writes:
        await create_all(writes, [(f"{tmp_path}/a", b"a"), (f"{tmp_path}/b", b"b")])
        await spare_files(writes, within=tmp_path, count=2)
        with pytest.raises(AlreadyExists, match=r"/b$"):
            await create_all(writes, [(f"{tmp_path}/c", b"c"), (f"{tmp_path}/b", b"other")])
        await create_all(writes, [(f"{tmp_path}/d", b"d"), (f"{tmp_path}/e", b"e")])
    assert [(tmp_path / name).read_bytes() for name in "abde"] == [b"a", b"b", b"d", b"e"]


async def test_a_folder_that_has_gone_meanwhile_is_made_again(tmp_path):
    async with process_writes() as writes:
        await create_all(writes, [(f"{tmp_path}/t/a", b"a"), (f"{tmp_path}/t/b", b"b")])
        await spare_files(writes, within=tmp_path, count=2)
        shutil.rmtree(tmp_path / "t")
        await create_all(writes, [(f"{tmp_path}/t/a", b"new"), (f"{tmp_path}/t/b", b"too")])
    assert [(tmp_path / "t" / name).read_bytes() for name in "ab"] == [b"new", b"too"]


def test_there_is_one_for_each_that_was_asked_for_and_no_more(tmp_path):
    spare = SpareFiles()
    spare.restock([str(tmp_path)] * 2)
    spare.restock([str(tmp_path)] * 2)
    taken = [spare.take(str(tmp_path)) for _ in range(3)]
    assert [one is None for one in taken] == [False, False, True]
    for descriptor in taken[:2]:
        assert descriptor is not None
        os.close(descriptor)
    assert spare.take(str(tmp_path / "other")) is None


def test_folders_that_are_not_used_any_more_give_way_when_there_is_no_room(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    folders = [str(tmp_path / name) for name in "abc"]
    now = 0.0
    spare = SpareFiles(spare_max=4, clock=lambda: now)
    for folder in folders:
        spare.restock([folder] * 2)
    assert spare.take(folders[2]) is None, "a folder that is in use had to give way"
    now = IDLE_S
    spare.restock([folders[1]] * 2)
    spare.restock([folders[2]] * 2)
    assert spare.take(folders[0]) is None
    for folder in folders[1:]:
        for _ in range(2):
            descriptor = spare.take(folder)
            assert descriptor is not None
            os.close(descriptor)
    spare.close()


def test_where_files_cannot_be_made_or_named_they_are_soon_not_made_any_more(tmp_path):
    spare, folder = SpareFiles(), str(tmp_path)
    for _ in range(FAILURES_MAX - 1):
        spare.restock([folder])
        spare.failed([folder])
        assert spare.take(folder) is None
    spare.worked()
    spare.restock([f"{folder}/missing"])
    for _ in range(FAILURES_MAX - 1):
        spare.restock([folder])
        spare.failed([folder])
    spare.restock([folder])
    assert spare.take(folder) is None


def test_closing_gives_all_up(tmp_path):
    spare = SpareFiles()
    spare.restock([str(tmp_path)] * 3)
    assert len(inodes_of_spare_files("self", within=tmp_path)) == 3
    spare.close()
    assert not inodes_of_spare_files("self", within=tmp_path)
