"""Merged manifests are the same whoever lays them out, and nothing depends on the process that does."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from mmap import mmap

import msgspec
import pytest
from msgspec.structs import replace

from firn.coordinator.calculating.messages import Answer
from firn.coordinator.calculating.program import Service
from firn.coordinator.intake.read_appends import Page, Rules, decode_page
from firn.coordinator.tables.manifest_merger import ManifestMerger
from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import encode_intent
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.storage.merge_messages import MergeAsked, room_for, spelled
from firn.storage.merged_manifests import gathered, laid_out
from firn.storage.shared_arena import ALIGNMENT
from tests.strategies.manifests import EXAMPLE_PARTITION, SPEC, added
from tests.unit.coordinator.calculators import REPLIES, becomes_ready, calculator, exists, until
from tests.unit.coordinator.workbench import Workbench, append, create, delete
from tests.unit.storage.test_merged_manifests import Stored

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is shared by memfd_create, which only Linux has"
)

EXAMPLE = added(spec_id=SPEC.spec_id, partition=EXAMPLE_PARTITION)


def never(part):
    pytest.fail(f"{part} is decoded")


def some_merge(*, parts=3, files=400, foreign=False):
    stored = Stored(2)
    for number in range(parts):
        stored.add([EXAMPLE] * files, kept=number > 0)
    made_of = gathered(stored.manifests, stored.metadata, stored.source)
    if foreign:  # another layout than the table's
        made_of = replace(made_of, layout=replace(made_of.layout, format_version=1), parts=made_of.parts[:1])
    return made_of


def here(made_of):
    return laid_out(made_of, decode=never).data


async def asked(merger, made_of):
    async with asyncio.timeout(30):
        return await asyncio.to_thread(merger.laid_out, made_of)


async def test_a_manifest_is_laid_out_as_the_daemon_would_and_the_process_is_started_for_it():
    made: list[None] = []
    async with calculator(ready=False) as process:
        merger = ManifestMerger(process, on_made=lambda: made.append(None))
        merges = [some_merge(), some_merge(parts=1, files=5), some_merge(parts=20)]
        laid = await asyncio.gather(*(asked(merger, made_of) for made_of in merges))
    assert laid == [here(made_of) for made_of in merges]
    assert len(made) == 3


async def test_a_manifest_of_another_layout_is_left_to_the_daemon_which_goes_on_asking():
    async with calculator() as process:
        merger, made_of = ManifestMerger(process), some_merge()
        assert await asked(merger, some_merge(foreign=True)) is None
        assert await asked(merger, replace(made_of, parts=(*made_of.parts, (made_of.parts[0][0], b"damaged")))) is None
        assert await asked(merger, made_of) == here(made_of)


@pytest.mark.parametrize("limit", ["tables.manifest_merger.HANDED_BYTES_MAX", "calculating.calculator.ARENA_BYTES"])
async def test_what_is_too_large_to_hand_over_is_left_to_the_daemon(monkeypatch, limit):
    small, large = some_merge(parts=1), some_merge()
    monkeypatch.setattr(f"firn.coordinator.{limit}", room_for(spelled(large)) - ALIGNMENT)
    async with calculator() as process:
        merger = ManifestMerger(process)
        assert await asked(merger, large) is None
        assert await asked(merger, small) == here(small)


async def test_an_answer_for_which_there_is_no_room_is_left_to_the_daemon(monkeypatch):
    monkeypatch.setattr("firn.storage.merge_messages.SPARE_BYTES", 0)
    stored = Stored(2)
    stored.add([EXAMPLE], kept=True)
    made_of = gathered(stored.manifests, stored.metadata, stored.source)
    assert len(here(made_of)) > room_for(spelled(made_of))
    async with calculator() as process:
        assert await asked(ManifestMerger(process), made_of) is None


async def test_a_process_that_is_killed_at_a_merge_leaves_it_to_the_daemon_and_another_comes_later(monkeypatch):
    made_of = some_merge()
    async with calculator() as process:
        merger, first = ManifestMerger(process), process.pid
        os.kill(first, signal.SIGSTOP)
        under_way = asyncio.create_task(asked(merger, made_of))
        await until(lambda: process._companion.asked)
        os.kill(first, signal.SIGKILL)
        assert await under_way is None
        assert await asked(merger, made_of) is None  # it rests
        monkeypatch.setattr(process, "_rests_until", 0.0)
        assert await asked(merger, made_of) == here(made_of)
        assert process.pid != first


async def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("firn.coordinator.tables.manifest_merger.ANSWER_S", 0.2)
    async with calculator() as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert await asked(ManifestMerger(process), some_merge()) is None
        await until(lambda: not exists(process.pid))


async def test_a_merge_under_way_is_finished_when_the_process_is_to_end():
    made_of = some_merge(parts=20)
    async with calculator() as process:
        merger, pid = ManifestMerger(process), process.pid
        under_way = asyncio.create_task(asked(merger, made_of))
        await until(lambda: process._companion.asked or under_way.done())
    assert await under_way == here(made_of)
    assert not exists(pid)
    assert await asked(merger, made_of) is None
    assert not await process.becomes_ready()


def test_a_loop_that_is_closed_is_not_waited_for():
    async def left():
        async with calculator() as process:
            merger = ManifestMerger(process)
        process._closed = False  # a thread that has looked before
        return merger

    merger = asyncio.run(left())
    assert merger.laid_out(some_merge()) is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param("memory[r.start:r.start + 3] = b'???'; answer(3)", "not an Avro file", id="no-manifest"),
        pytest.param("answer(r.room + 9**9)", "not an Avro file", id="too-much"),
        pytest.param("answer(-1)", "not an Avro file", id="less-than-nothing"),
        pytest.param("connection.send(b'?')", None, id="no-message"),
    ],
)
async def test_a_process_of_another_version_is_ended_and_the_daemon_merges(tmp_path, monkeypatch, capsys, said, reason):
    """Its files may have been replaced since the daemon started."""
    program = tmp_path / "another_version.py"
    program.write_text(f"""
import msgspec
from firn.coordinator.calculating.messages import Answer, Request
from firn.storage.companion_program import serving
from firn.storage.merge_messages import MergeAsked
def answer(size):
    connection.send(msgspec.msgpack.encode(Answer(r.number, size)))
with serving() as (connection, memory):
    while message := connection.recv(65536):
        r = msgspec.msgpack.decode(message, type=Request)
        if isinstance(r, MergeAsked):
            {said}
        else:
            memory[r.start] = 0x90
            answer(1)
""")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("firn.coordinator.calculating.calculator.PROGRAM", "another_version")
    async with calculator() as process:
        assert await asked(ManifestMerger(process), some_merge()) is None
        await until(lambda: not exists(process.pid))
        assert process.rests
        if reason is not None:
            assert reason in capsys.readouterr().out


def test_a_page_of_intents_does_not_wait_for_the_end_of_a_merge(monkeypatch):
    monkeypatch.setattr("firn.coordinator.calculating.program.STEP_S", 0.0)
    made_of, payload = some_merge(), encode_intent(append("a"))
    parts = spelled(made_of)
    room = room_for(parts)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, mmap(-1, room + 65536) as memory:
        memory[: sum(map(len, parts))] = b"".join(parts)
        memory[room : room + len(payload)] = payload
        for request in (
            MergeAsked(1, 0, len(parts[0]), room),
            MergeAsked(2, 0, 0, 0),
            Page(3, room, (len(payload),)),
        ):
            ours.send(msgspec.msgpack.encode(request))
        ours.shutdown(socket.SHUT_WR)
        service = Service(theirs, memory, Rules(Limits(), REPLIES))
        with pytest.raises(msgspec.MsgspecError):  # the second merge is of nothing
            service.serve()
        first, second = (msgspec.msgpack.decode(ours.recv(65536), type=Answer) for _ in range(2))
        assert (first.number, second.number) == (3, 1)
        assert first.size is not None
        assert decode_page(memoryview(memory[room : room + first.size]), [len(payload)])[0] is not None
        assert memory[: second.size] == here(made_of)


@pytest.mark.parametrize("format_version", [1, 2, 3])
async def test_a_daemon_commits_the_same_whoever_merges_and_whenever_the_process_dies(monkeypatch, format_version):
    monkeypatch.setattr("firn.storage.merged_manifests.TAKEN_OVER_FROM", 2)
    properties = {"commit.manifest.min-count-to-merge": "3"}
    found = {}
    async with calculator() as process:
        for calculates in (None, process):
            bench = Workbench()
            async with bench.daemon(calculator=calculates) as daemon:
                await bench.commit(create(properties=properties, format_version=format_version))
                for number in range(16):
                    intent = delete("f05") if number == 12 else append(f"f{number:02d}")
                    assert isinstance(await bench.commit(intent), Committed)
                    if calculates is not None and number in {5, 9}:
                        os.kill(process.pid, signal.SIGKILL)
                        await until(lambda: process.rests)
                    if calculates is not None and number == 7:
                        monkeypatch.setattr(process, "_rests_until", 0.0)
                        await becomes_ready(process)
                    await bench.merged()
                assert await bench.live() == [f"f{n:02d}" for n in range(16) if n not in {5, 12}]
                metadata = await bench.metadata()
                made = daemon.metrics.merged_apart._value.get()
            assert metadata.current_snapshot is not None
            assert bool(made) is (calculates is not None)
            tables = TableReader(bench.files, limits=Limits())
            manifests = tables.manifests(metadata, metadata.current_snapshot)
            found[calculates] = [
                (entry.data_file.file_path, entry.sequence_number, entry.data_file.first_row_id)
                for manifest in manifests
                for entry in tables.entries(metadata, manifest)
            ]
    assert sorted(found[None]) == sorted(found[process])
