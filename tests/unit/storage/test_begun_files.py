"""Files whose beginning was written before anybody asked for them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from firn.model.errors import AlreadyExists, Unavailable
from firn.storage.begun_files import BEGUN_MAX, FORGOTTEN_MAX, IDLE_S, Beginnings, BegunFile, BegunFiles
from firn.storage.file_writes import ProcessWrites
from firn.storage.grown_content import GrowingText, GrownContent, Stretch
from firn.storage.local_files import LocalFiles
from tests.unit.storage.batch_writing import create_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files without a name are Linux's")

OLD = b"snapshot," * 50_000
JOURNAL = b"segment"


def grown(text, size, pieces):
    return GrownContent((Stretch(text, 0, size),), pieces)


class Table:
    """Metadata that grows; what is handed to the process of each file is measured."""

    def __init__(self, folder):
        self.folder = folder
        self.beginning = GrowingText()
        self.text = OLD
        self.version = 0

    def next(self):
        self.text += b"new,"
        self.version += 1
        content = grown(self.beginning, len(self.text), (OLD, self.text[len(OLD) :], b"rest %d" % self.version))
        return [(f"{self.folder}/j{self.version}", JOURNAL), (f"{self.folder}/{self.version}.json", content)]


@asynccontextmanager
async def measured_writes():
    """Writes, and a list of how many bytes went through shared memory with each."""
    writes, handed = ProcessWrites(LocalFiles()), []
    put = writes._companion._arena.put

    def measured(parts):
        handed.append(sum(map(len, parts)))
        return put(parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes._companion._arena, "put", measured)
        try:
            yield writes, handed
        finally:
            await writes.close()


def check(files):
    for location, content in files:
        assert LocalFiles().read(location, bytes_max=10**7) == bytes(content)


def begun(number, text, size):
    return BegunFile(number, (Stretch(text, 0, size),))


class TwoTexts:
    """Metadata with a second text that grows, behind as much room as is said."""

    def __init__(self, folder):
        self.folder = folder
        self.first, self.second = GrowingText(), GrowingText()
        self.start, self.log = OLD, OLD[::-1]
        self.version = 0

    def next(self, *, second_at):
        self.version += 1
        new, between = b"new %d," % self.version, b"between %d," % self.version
        self.start, self.log = self.start + new, self.log + new
        spaces = second_at - len(self.start) - len(between)
        pieces = (self.start[:99], self.start[99:], between + b" " * spaces, self.log, b"end %d" % self.version)
        stretches = (Stretch(self.first, 0, len(self.start)), Stretch(self.second, second_at, len(self.log)))
        content = GrownContent(stretches, pieces, spaces)
        return [(f"{self.folder}/j{self.version}", JOURNAL), (f"{self.folder}/{self.version}.json", content)]


async def test_a_second_text_stays_where_it_is_as_long_as_it_may(tmp_path):
    table, room = TwoTexts(tmp_path), len(OLD) + 1_000
    async with measured_writes() as (writes, handed):
        for second_at in (room, room, room, room + 500, room + 500, room):
            await create_all(writes, files := table.next(second_at=second_at))
            check(files)
        table.second, table.log = GrowingText(), b"short"
        for _ in range(2):
            await create_all(writes, files := table.next(second_at=room))
            check(files)
    whole, second = 2 * len(OLD), len(OLD)
    assert handed[0] > whole
    assert [size > second for size in handed[1:]] == [False, False, True, False, True, False, False]
    assert max(handed[1], handed[2], handed[4], handed[7]) < 100
    assert max(handed[3], handed[5]) < whole


async def test_only_what_is_new_is_handed_over_and_every_file_is_whole(tmp_path):
    table, other = Table(tmp_path / "a"), Table(tmp_path / "b")
    async with measured_writes() as (writes, handed):
        for _ in range(4):
            one, two = table.next(), other.next()
            await asyncio.gather(create_all(writes, one), create_all(writes, two))
            check([*one, *two])
    assert min(handed[:2]) > len(OLD)
    assert max(handed[2:]) < 100
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(f"{n}.json" for n in range(1, 5)) + sorted(f"j{n}" for n in range(1, 5))


async def test_a_text_that_is_another_is_written_whole(tmp_path):
    table = Table(tmp_path)
    async with measured_writes() as (writes, handed):
        await create_all(writes, table.next())
        table.beginning, table.text = GrowingText(), OLD[:-9]
        files = table.next()
        await create_all(writes, [files[0], (files[1][0], grown(table.beginning, 9, (OLD[9:], b"x")))])
    assert min(handed) > len(OLD) - 9
    assert (tmp_path / "2.json").read_bytes() == OLD[9:] + b"x"


async def test_what_the_process_has_forgotten_is_written_whole(tmp_path):
    table = Table(tmp_path)
    async with measured_writes() as (writes, handed):
        await create_all(writes, table.next())
        writes._beginnings.put(begun(4711, table.beginning, len(OLD)))
        files = table.next()
        await create_all(writes, files)
        check(files)
        await create_all(writes, last := table.next())
        check(last)
    assert [size > len(OLD) for size in handed] == [True, False, True, False]


async def test_where_files_cannot_be_begun_they_are_soon_not_asked_for(tmp_path):
    table = Table(tmp_path)
    async with measured_writes() as (writes, handed):
        for number in range(FORGOTTEN_MAX + 3):
            if writes._beginnings.number_of_another() is not None:
                writes._beginnings.put(begun(4711 + number, table.beginning, len(OLD)))
            files = table.next()
            await create_all(writes, files)
            check(files)
    assert [size > len(OLD) for size in handed] == [False, True] * FORGOTTEN_MAX + [True] * 3


async def test_after_a_killed_process_the_next_file_is_written_whole(tmp_path):
    table = Table(tmp_path)
    async with measured_writes() as (writes, handed):
        await create_all(writes, table.next())
        process = writes._companion._process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        waiting = asyncio.create_task(create_all(writes, table.next()))
        await asyncio.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(Unavailable):
            await waiting
        files = table.next()
        await create_all(writes, files)
        check(files)
    assert [size > len(OLD) for size in handed] == [True, False, True]


async def test_a_name_that_is_taken_stays_what_it_is(tmp_path):
    table = Table(tmp_path)
    (tmp_path / "2.json").write_bytes(b"another's")
    async with measured_writes() as (writes, _):
        await create_all(writes, table.next())
        with pytest.raises(AlreadyExists, match=r"2\.json"):
            await create_all(writes, table.next())
        files = table.next()
        await create_all(writes, files)
        check(files)
    assert (tmp_path / "2.json").read_bytes() == b"another's"


def test_where_no_file_can_be_begun_there_is_none(tmp_path):
    files = BegunFiles()
    files.announce(1).begin(f"{tmp_path}/not-there", [(0, 10)])
    (tmp_path / "short").write_bytes(b"123")
    files.announce(2).begin(f"{tmp_path}/short", [(0, 10)])
    assert [files.take(1), files.take(2), files.take(3)] == [None, None, None]


def test_a_tables_place_goes_to_another_when_it_has_been_idle():
    now = 0.0
    book = Beginnings(clock=lambda: now)
    idle = GrowingText()
    for text in (idle, *(GrowingText() for _ in range(BEGUN_MAX - 1))):
        number = book.number_of_another()
        assert number is not None
        book.put(begun(number, text, 10))
    assert book.number_of_another() is None
    now = IDLE_S
    assert book.number_of_another() == BEGUN_MAX + 1
    assert book.given_up() == (1,)
    assert book.given_up() == ()
    assert book.take(grown(idle, 20, ())) is None


def test_what_is_longer_than_the_text_is_not_its_beginning():
    book, text = Beginnings(), GrowingText()
    book.put(begun(1, text, 10))
    assert book.take(grown(text, 9, ())) is None
    assert book.given_up() == (1,)
