"""Files written by a process of its own, which may be killed at any time."""

from __future__ import annotations

import asyncio
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from firn.model.errors import AlreadyExists, InvalidInput, Unavailable
from firn.storage.file_writes import PROGRAM, ProcessWrites, ThreadWrites
from firn.storage.local_files import LocalFiles
from firn.storage.memory_files import MemoryFiles
from firn.storage.shared_arena import ALIGNMENT, SharedArena
from firn.storage.write_messages import Request
from tests.unit.storage.batch_writing import create_all

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is shared by memfd_create, which only Linux has"
)


@asynccontextmanager
async def process_writes(files):
    writes = ProcessWrites(files)
    try:
        yield writes
    finally:
        await writes.close()


def process_of(writes: ProcessWrites) -> int:
    process = writes._companion._process
    assert process is not None
    return process.pid


async def test_files_are_there_with_their_bytes(tmp_path):
    files = [(f"{tmp_path}/{name}", os.urandom(size)) for name, size in (("a/x", 0), ("a/y", 700_000), ("b/z", 17))]
    async with process_writes(LocalFiles()) as writes:
        await create_all(writes, files)
        await create_all(writes, [])
    for location, data in files:
        assert LocalFiles().read(location, bytes_max=1_000_000) == data


async def test_many_at_once_each_get_their_own_answer(tmp_path):
    (tmp_path / "taken-3").write_bytes(b"")
    async with process_writes(LocalFiles()) as writes:
        answers = await asyncio.gather(
            *(
                create_all(writes, [(f"{tmp_path}/{n}", b"x" * n), (f"{tmp_path}/taken-{n}", b"")])
                for n in range(40)
            ),
            return_exceptions=True,
        )  # fmt: skip
    failed = {n: answer for n, answer in enumerate(answers) if answer is not None}
    assert failed.keys() == {3}
    assert isinstance(failed[3], AlreadyExists)
    assert str(failed[3]) == f"{tmp_path}/taken-3"


async def test_an_error_is_of_the_class_and_says_what_the_store_would_say(tmp_path):
    location = f"{tmp_path}/" + "n" * 300
    with pytest.raises(InvalidInput) as direct:
        LocalFiles().create_all([(location, b""), (f"{tmp_path}/other", b"")])
    async with process_writes(LocalFiles()) as writes:
        with pytest.raises(InvalidInput) as through:
            await create_all(writes, [(location, b""), (f"{tmp_path}/another", b"")])
    assert str(through.value) == str(direct.value)


async def test_what_a_killed_process_was_at_is_unavailable_and_the_next_write_starts_another(tmp_path):
    async with process_writes(LocalFiles()) as writes:
        await create_all(writes, [(f"{tmp_path}/before", b"1")])
        first = process_of(writes)
        os.kill(first, signal.SIGSTOP)
        under_way = asyncio.create_task(create_all(writes, [(f"{tmp_path}/under-way", b"2")]))
        await asyncio.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(Unavailable, match="ended"):
            await under_way
        await create_all(writes, [(f"{tmp_path}/after", b"3")])
        assert process_of(writes) != first
    assert (tmp_path / "after").read_bytes() == b"3"


async def test_the_process_outlives_a_terminals_signals_and_ends_with_the_socket(tmp_path):
    async with process_writes(LocalFiles()) as writes:
        await create_all(writes, [(f"{tmp_path}/a", b"1")])
        pid = process_of(writes)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        await create_all(writes, [(f"{tmp_path}/b", b"2")])
        assert process_of(writes) == pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_files_are_waited_for_when_what_is_done_meanwhile_fails(tmp_path):
    def fail():
        raise ZeroDivisionError

    async with process_writes(LocalFiles()) as writes:
        with pytest.raises(ZeroDivisionError):
            await writes.create_all([(f"{tmp_path}/a", b"1"), (f"{tmp_path}/b", b"2")], meanwhile=fail)
        assert (tmp_path / "b").read_bytes() == b"2"
        assert not writes._companion.asked
    with pytest.raises(ZeroDivisionError):
        await ThreadWrites(LocalFiles()).create_all([(f"{tmp_path}/c", b"3")], meanwhile=fail)
    assert (tmp_path / "c").read_bytes() == b"3"


async def test_other_stores_are_written_to_in_a_thread():
    files = MemoryFiles()
    async with process_writes(files) as writes:
        await create_all(writes, [("memory://w/a", b"1")])
        assert writes._companion._process is None
    assert files.read("memory://w/a", bytes_max=10) == b"1"


def test_the_process_ends_quietly_when_its_daemon_is_killed_with_answers_unread(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, SharedArena(4096) as arena:
        descriptors = (theirs.fileno(), arena.descriptor)
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, *map(str, descriptors)], pass_fds=descriptors, stderr=subprocess.PIPE
        )
        start = arena.put([b"1"])
        assert start is not None
    ours.sendall(msgspec.msgpack.encode(Request(0, start, (f"{tmp_path}/a",), (1,))))
    assert select.select([ours], [], [], 20)[0]  # the answer is there, and is never read
    ours.close()
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, b"")


async def test_a_disk_that_hangs_does_not_keep_a_daemon_from_ending(tmp_path, monkeypatch):
    monkeypatch.setattr("firn.storage.companion.CLOSE_S", 0.2)
    async with process_writes(LocalFiles()) as writes:
        await create_all(writes, [(f"{tmp_path}/a", b"1")])
        pid = process_of(writes)
        os.kill(pid, signal.SIGSTOP)
    process = writes._companion._process
    assert process is not None
    assert await asyncio.wait_for(process.wait(), 20) == -signal.SIGKILL


async def test_what_does_not_fit_into_the_shared_memory_or_a_message_is_written_in_a_thread(tmp_path, monkeypatch):
    monkeypatch.setattr("firn.storage.file_writes.ARENA_BYTES", 4096)
    long = [(f"{tmp_path}/{'n' * 200}/{n}", b"x") for n in range(400)]
    async with process_writes(LocalFiles()) as writes:
        await create_all(writes, [(f"{tmp_path}/large", b"x" * 5000)])
        await create_all(writes, long)
        assert not writes._companion.asked
        assert writes._companion._arena.put([b"x" * 4096]) == 0  # all of it is free again
    assert (tmp_path / "large").read_bytes() == b"x" * 5000
    assert len(list((tmp_path / ("n" * 200)).iterdir())) == 400


async def test_memory_stays_taken_until_the_process_has_answered_whoever_has_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("firn.storage.file_writes.ARENA_BYTES", 4096)
    async with process_writes(LocalFiles()) as writes:
        await create_all(writes, [(f"{tmp_path}/before", b"1")])
        os.kill(process_of(writes), signal.SIGSTOP)
        gone = asyncio.create_task(create_all(writes, [(f"{tmp_path}/gone", b"first" * 100)]))
        await asyncio.sleep(0.05)
        gone.cancel()
        other = asyncio.create_task(create_all(writes, [(f"{tmp_path}/other", b"other" * 100)]))
        await asyncio.sleep(0.05)
        os.kill(process_of(writes), signal.SIGCONT)
        await other
        for _ in range(500):
            if not writes._companion.asked:
                break
            await asyncio.sleep(0.01)
        assert writes._companion._arena.put([b"x" * 4096]) == 0
    assert (tmp_path / "gone").read_bytes() == b"first" * 100
    assert (tmp_path / "other").read_bytes() == b"other" * 100


def test_the_lowest_place_that_is_large_enough_is_taken_and_free_ones_join():
    with SharedArena(10 * ALIGNMENT) as arena:
        starts = [arena.put([b"x" * size]) for size in (1, 3 * ALIGNMENT, ALIGNMENT + 1, 0)]
        assert starts == [0, ALIGNMENT, 4 * ALIGNMENT, 6 * ALIGNMENT]
        assert arena.put([b"x" * 4 * ALIGNMENT]) is None
        arena.give_back(ALIGNMENT)
        assert arena.put([b"ab", b"c"]) == ALIGNMENT
        assert os.pread(arena.descriptor, 3, ALIGNMENT) == b"abc"
        for start in (6 * ALIGNMENT, 0, 4 * ALIGNMENT, ALIGNMENT):
            arena.give_back(start)
        assert arena.put([b"x" * 10 * ALIGNMENT]) == 0


def test_memory_that_is_free_behind_everything_goes_back(monkeypatch):
    monkeypatch.setattr("firn.storage.shared_arena.KEPT_BYTES", mmap.PAGESIZE)
    with SharedArena(64 * mmap.PAGESIZE) as arena:

        def pages():
            return os.fstat(arena.descriptor).st_blocks * 512 // mmap.PAGESIZE

        places = [arena.put([b"x" * 10 * mmap.PAGESIZE]) for _ in range(3)]
        first, second, third = (place for place in places if place is not None)
        assert pages() == 30
        arena.give_back(second)
        assert pages() == 30
        arena.give_back(third)
        assert pages() == 10
        with arena.memory(first) as memory:
            assert bytes(memory) == b"x" * 10 * mmap.PAGESIZE
        arena.give_back(first)
        assert pages() == 1
        assert arena.put([b"y" * 20 * mmap.PAGESIZE]) == 0
        with arena.memory(0) as memory:
            assert bytes(memory) == b"y" * 20 * mmap.PAGESIZE


async def test_the_process_ends_quietly_after_a_write_that_failed(tmp_path, capfd):
    async with process_writes(LocalFiles()) as writes:
        (tmp_path / "taken").write_bytes(b"")
        with pytest.raises(AlreadyExists):
            await create_all(writes, [(f"{tmp_path}/new", b"1"), (f"{tmp_path}/taken", b"2")])
        process = writes._companion._process
    assert process is not None
    assert (process.returncode, capfd.readouterr().err) == (0, "")


async def test_a_request_that_the_process_does_not_understand_is_answered_by_its_end(tmp_path, monkeypatch):
    """Its files may have been replaced since the daemon started: nobody must wait for ever."""
    number: Any = "a number of another version"
    monkeypatch.setattr("firn.storage.file_writes.Request", lambda _, *said: Request(number, *said))
    async with process_writes(LocalFiles()) as writes:
        with pytest.raises(Unavailable, match="ended"):
            await asyncio.wait_for(create_all(writes, [(f"{tmp_path}/a", b"1")]), 10)
        monkeypatch.undo()
        await asyncio.wait_for(create_all(writes, [(f"{tmp_path}/b", b"2")]), 10)
    assert (tmp_path / "b").read_bytes() == b"2"


async def test_what_goes_wrong_beside_the_writes_leaves_no_write_without_an_answer(tmp_path, monkeypatch, capfd):
    """What is made ready for the next batch costs at most a process."""
    (tmp_path / "broken_writer.py").write_text("""
from firn.storage import file_writing_program, spare_files
def restock(self, folders):
    raise RuntimeError("cannot think of any")
spare_files.SpareFiles.restock = restock
file_writing_program.main()
""")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("firn.storage.file_writes.PROGRAM", "broken_writer")
    async with process_writes(LocalFiles()) as writes:
        await create_all(writes, [(f"{tmp_path}/0", b"1")])
        first = process_of(writes)
        both = [create_all(writes, [(f"{tmp_path}/{name}", b"1")]) for name in ("1", "2")]
        for answer in await asyncio.wait_for(asyncio.gather(*both, return_exceptions=True), 10):
            assert answer is None or isinstance(answer, Unavailable)
        for _ in range(500):
            if not writes._companion.runs:
                break
            await asyncio.sleep(0.01)
        await create_all(writes, [(f"{tmp_path}/3", b"3")])
        assert process_of(writes) != first
    assert (tmp_path / "0").read_bytes() == b"1"
    assert (tmp_path / "3").read_bytes() == b"3"
    said = capfd.readouterr().err
    assert "the process that writes files ends: RuntimeError: cannot think of any" in said
    assert "Traceback" not in said
