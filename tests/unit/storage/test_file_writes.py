"""Files written by a process of its own, which may be killed at any time."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager

import msgspec
import pytest

from firn.model.errors import AlreadyExists, InvalidInput, Unavailable
from firn.storage.file_writes import LENGTH_BYTES, PROGRAM, ProcessWrites, Request
from firn.storage.local_files import LocalFiles
from firn.storage.memory_files import MemoryFiles


@asynccontextmanager
async def process_writes(files):
    writes = ProcessWrites(files)
    try:
        yield writes
    finally:
        await writes.close()


def process_of(writes: ProcessWrites) -> int:
    process = writes._process
    assert process is not None
    return process.pid


async def test_files_are_there_with_their_bytes(tmp_path):
    files = [(f"{tmp_path}/{name}", os.urandom(size)) for name, size in (("a/x", 0), ("a/y", 700_000), ("b/z", 17))]
    async with process_writes(LocalFiles()) as writes:
        await writes.create_all(files)
        await writes.create_all([])
    for location, data in files:
        assert LocalFiles().read(location, bytes_max=1_000_000) == data


async def test_many_at_once_each_get_their_own_answer(tmp_path):
    (tmp_path / "taken-3").write_bytes(b"")
    async with process_writes(LocalFiles()) as writes:
        answers = await asyncio.gather(
            *(
                writes.create_all([(f"{tmp_path}/{n}", b"x" * n), (f"{tmp_path}/taken-{n}", b"")])
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
            await writes.create_all([(location, b""), (f"{tmp_path}/another", b"")])
    assert str(through.value) == str(direct.value)


async def test_what_a_killed_process_was_at_is_unavailable_and_the_next_write_starts_another(tmp_path):
    async with process_writes(LocalFiles()) as writes:
        await writes.create_all([(f"{tmp_path}/before", b"1")])
        first = process_of(writes)
        os.kill(first, signal.SIGSTOP)
        under_way = asyncio.create_task(writes.create_all([(f"{tmp_path}/under-way", b"2")]))
        await asyncio.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(Unavailable, match="ended"):
            await under_way
        await writes.create_all([(f"{tmp_path}/after", b"3")])
        assert process_of(writes) != first
    assert (tmp_path / "after").read_bytes() == b"3"


async def test_the_process_outlives_a_terminals_signals_and_ends_with_the_socket(tmp_path):
    async with process_writes(LocalFiles()) as writes:
        await writes.create_all([(f"{tmp_path}/a", b"1")])
        pid = process_of(writes)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        await writes.create_all([(f"{tmp_path}/b", b"2")])
        assert process_of(writes) == pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_other_stores_are_written_to_in_a_thread():
    files = MemoryFiles()
    async with process_writes(files) as writes:
        await writes.create_all([("memory://w/a", b"1")])
        assert writes._process is None
    assert files.read("memory://w/a", bytes_max=10) == b"1"


def test_the_process_ends_quietly_when_its_daemon_is_killed_with_answers_unread(tmp_path):
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(theirs.fileno())], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE
        )
    head = msgspec.msgpack.encode(Request(0, (f"{tmp_path}/a",), (1,)))
    ours.sendall(len(head).to_bytes(LENGTH_BYTES, "big") + head + b"1")
    assert select.select([ours], [], [], 20)[0]  # the answer is there, and is never read
    ours.close()
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, b"")


async def test_a_disk_that_hangs_does_not_keep_a_daemon_from_ending(tmp_path, monkeypatch):
    monkeypatch.setattr("firn.storage.file_writes.CLOSE_S", 0.2)
    async with process_writes(LocalFiles()) as writes:
        await writes.create_all([(f"{tmp_path}/a", b"1")])
        pid = process_of(writes)
        os.kill(pid, signal.SIGSTOP)
    process = writes._process
    assert process is not None
    assert await asyncio.wait_for(process.wait(), 20) == -signal.SIGKILL
