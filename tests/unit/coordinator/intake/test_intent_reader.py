"""Intents read by a process of its own are what the daemon itself would read, and nothing depends on the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from mmap import mmap

import pytest
from msgspec.structs import replace

from firn.coordinator.client.encoded_files import with_encoded_metrics
from firn.coordinator.intake.intent_reader import IntentReader
from firn.coordinator.intake.read_appends import Page, Rules, decode_page, read_page
from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import Append, CountMap, ValueMap, digest_of, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from firn.storage.wire_metrics import EncodedFile, encoded_file
from tests.unit.coordinator.calculators import REPLIES, becomes_ready, calculator, exists, until
from tests.unit.coordinator.workbench import Workbench, append, content_file, create, delete

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is shared by memfd_create, which only Linux has"
)


@pytest.fixture(autouse=True)
def everything_is_worth_it(monkeypatch):
    monkeypatch.setattr("firn.coordinator.intake.intent_reader.WORTH_BYTES", 1)


@asynccontextmanager
async def intent_reader(*, limits=None, ready=True):
    async with calculator(limits=limits, ready=ready) as process:
        yield IntentReader(process)


def measured(name, **changes):
    return replace(content_file(name), **{
        "column_sizes": CountMap((1, 2), (40, 2**40)),
        "value_counts": CountMap((1, 2), (10, 10)),
        "null_value_counts": CountMap((1, 2), (0, 10)),
        "lower_bounds": ValueMap((1,), ((1).to_bytes(8, "little").hex(),)),
        "upper_bounds": ValueMap((1,), ((9).to_bytes(8, "little").hex(),)),
        "split_offsets": (4,), "sort_order_id": 0, **changes,
    })  # fmt: skip


def own(**changes):
    return append(data_files=(measured("a"), with_encoded_metrics(measured("b")), content_file("c")), **changes)


async def test_appends_are_what_the_daemon_would_read_with_their_metrics_as_bytes():
    full = own(
        reply_to=f"{REPLIES}x", writer="w", writer_sequence=3, summary={"a": "b"}, branch="audit", deadline_ms=2**50,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", base_snapshot_id=7, stage=True,
        wap_id="w", priority="maintenance", table_uuid="0192d0a0-0000-7000-8000-000000000000",
    )  # fmt: skip
    intents = [own(), full, replace(full, digest=digest_of(full)), append("plain"), append(*map(str, range(300)))]
    payloads = [encode_intent(intent) for intent in intents]
    async with intent_reader() as reader:
        read = await reader.read_ahead(payloads)
    for payload, one in zip(payloads, read, strict=True):
        expected = decode_intent(payload, limits=Limits())
        assert isinstance(expected.intent, Append)
        files = tuple(map(encoded_file, expected.intent.data_files))
        assert all(type(file) is EncodedFile for file in one.intent.data_files)
        assert one == replace(expected, intent=replace(expected.intent, data_files=files))


async def test_whatever_is_no_well_formed_append_is_left_to_the_daemon():
    good = own()
    payload = encode_intent(good)
    others = {
        "another operation": encode_intent(delete("a")),
        "another spelling": payload.replace(b",", b", "),
        "a default spelled out": payload.replace(b'"spec-id"', b'"content":"data","spec-id"', 1),
        "no json": b'{"operation":"append",',
        "nothing": b"",
        "a bad id": encode_intent(replace(good, intent_id="x")),
        "a reply elsewhere": encode_intent(replace(good, reply_to="intents:0")),
        "a wrong digest": encode_intent(replace(good, digest="0" * 32)),
        "no hexadecimal": encode_intent(append(data_files=(measured("a", lower_bounds=ValueMap((1,), ("zz",))),))),
        "no metrics": encode_intent(append(data_files=(replace(content_file("a"), encoded=b"\xff" * 9),))),
        "uneven lists": encode_intent(append(data_files=(measured("a", value_counts=CountMap((1, 2), (1,))),))),
        "too large": encode_intent(own(summary={"x": "y" * 5000})),
    }  # fmt: skip
    async with intent_reader(limits=Limits(intent_bytes_max=5000)) as reader:
        read = await reader.read_ahead([*others.values(), payload])
    assert {name for name, one in zip(others, read, strict=False) if one is not None} == set()
    assert read[-1] is not None


async def test_an_answer_for_which_there_is_no_room_is_left_to_the_daemon(monkeypatch):
    monkeypatch.setattr("firn.coordinator.intake.read_appends.SPARE_BYTES", 0)
    payload = encode_intent(own())
    with mmap(-1, 4096) as memory:
        memory[: len(payload)] = payload
        roomy = read_page(Page(7, 0, (len(payload), 0, 0, 0)), memory, Rules(Limits(), REPLIES))
        assert roomy is not None
        assert decode_page(memoryview(bytes(memory[:roomy])), [1, 2, 3, 4])[0] is not None
        memory[: len(payload)] = payload
        monkeypatch.setattr(Page, "room", roomy - 1)
        assert read_page(Page(8, 0, (len(payload), 0, 0, 0)), memory, Rules(Limits(), REPLIES)) is None
        assert memory[: len(payload)] == payload


async def test_many_files_without_metrics_find_room():
    async with intent_reader() as reader:
        (read,) = await reader.read_ahead([encode_intent(append(*map(str, range(5000))))])
    assert len(read.intent.data_files) == 5000


async def test_a_page_is_not_waited_for_while_the_process_starts():
    async with intent_reader(ready=False) as reader:
        assert await reader.read_ahead([encode_intent(own())]) == [None]
        await becomes_ready(reader._calculator)
        (read,) = await reader.read_ahead([encode_intent(own())])
        assert read is not None


async def test_little_is_not_handed_over(monkeypatch):
    async with intent_reader() as reader:
        monkeypatch.setattr("firn.coordinator.intake.intent_reader.WORTH_BYTES", 100_000)
        assert await reader.read_ahead([encode_intent(own())]) == [None]


async def test_pages_at_once_each_get_their_own_answer():
    intents = [own() for _ in range(40)]
    async with intent_reader() as reader:
        pages = await asyncio.gather(*(reader.read_ahead([encode_intent(intent)] * 3) for intent in intents))
    assert [[one.intent.intent_id for one in page] for page in pages] == [[i.intent_id] * 3 for i in intents]


async def test_a_process_that_is_killed_leaves_its_pages_to_the_daemon_and_another_comes_later(monkeypatch):
    async with calculator() as process:
        reader, first = IntentReader(process), process.pid
        os.kill(first, signal.SIGSTOP)
        under_way = asyncio.create_task(reader.read_ahead([encode_intent(own())]))
        await asyncio.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        assert await under_way == [None]
        assert not reader.takes([b"x"])  # it rests
        monkeypatch.setattr(process, "_rests_until", 0.0)
        await becomes_ready(process)
        (read,) = await reader.read_ahead([encode_intent(own())])
        assert read is not None
        assert process.pid != first


async def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("firn.coordinator.intake.intent_reader.ANSWER_S", 0.2)
    async with calculator() as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert await IntentReader(process).read_ahead([encode_intent(own())]) == [None]
        await until(lambda: not exists(process.pid))


async def test_a_process_that_is_killed_while_it_has_nothing_to_do_is_not_asked_and_another_comes_later(monkeypatch):
    async with calculator() as process:
        reader, first = IntentReader(process), process.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: process.rests)
        assert await reader.read_ahead([encode_intent(own())]) == [None]
        monkeypatch.setattr(process, "_rests_until", 0.0)
        await becomes_ready(process)
        assert process.pid != first


async def test_a_terminals_signals_do_not_end_it_and_closing_does():
    async with calculator() as process:
        reader, pid = IntentReader(process), process.pid
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        (read,) = await reader.read_ahead([encode_intent(own())])
        assert read is not None
    assert not exists(pid)


async def test_a_program_that_cannot_be_started_costs_nothing_but_a_warning(monkeypatch, capsys):
    monkeypatch.setattr("firn.coordinator.calculating.calculator.PROGRAM", "firn.no_such_program")
    async with calculator(ready=False) as process:
        reader = IntentReader(process)
        assert await reader.read_ahead([encode_intent(own())]) == [None]
        await until(lambda: process.rests)
        assert await reader.read_ahead([encode_intent(own())]) == [None]


async def test_a_daemon_commits_the_same_whoever_reads_and_whenever_the_process_dies():
    bench = Workbench()
    bad = append("n", data_files=(measured("n", lower_bounds=ValueMap((1,), ("zz",))),))
    async with calculator() as process, bench.daemon(calculator=process):
        await bench.commit(create())
        async with asyncio.timeout(60):
            sent = []
            for round_ in range(6):
                intents = [append(data_files=(measured(f"{round_}-{n}"),)) for n in range(40)]
                await bench.send(*intents)
                sent += intents
                if round_ == 2:
                    os.kill(process.pid, signal.SIGKILL)
                if round_ == 4:
                    process._rests_until = 0.0
            await bench.send(bad)
            outcomes = [await bench.outcome(intent) for intent in sent]
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        refused = await bench.outcome(bad)
        assert isinstance(refused, Rejected)
        assert "hexadecimal" in refused.message
        assert await bench.live() == sorted(f"{r}-{n}" for r in range(6) for n in range(40))


@pytest.mark.parametrize("format_version", [1, 2, 3])
async def test_what_is_in_the_table_does_not_depend_on_who_read_it(format_version):
    found = {}
    async with calculator() as process:
        for reads in (None, process):
            bench = Workbench()
            async with bench.daemon(calculator=reads):
                await bench.commit(create(format_version=format_version))
                await bench.commit(append(data_files=(measured("a"), measured("b", sort_order_id=None))))
                metadata = await bench.metadata()
            assert metadata.current_snapshot is not None
            tables = TableReader(bench.files, limits=Limits())
            (manifest,) = tables.manifests(metadata, metadata.current_snapshot)
            found[reads] = [entry.data_file for entry in tables.entries(metadata, manifest)]
    assert found[None] == found[process]
    assert found[None][0].column_sizes == {1: 40, 2: 2**40}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("connection.send(b'?')", id="no-message"),
        pytest.param("connection.send(e((999, None)))", id="unknown-number"),
        pytest.param("memory[p.start] = 0xC1; connection.send(e((p.number, 1)))", id="no-intents"),
        pytest.param("memory[p.start] = 0x90; connection.send(e((p.number, 1)))", id="too-few"),
        pytest.param("connection.send(e((p.number, -1)))", id="less-than-nothing"),
        pytest.param("connection.send(e((p.number, 2**62)))", id="more-than-there-is"),
        pytest.param(
            "deep = b'\\x91' + b'\\x94' + b'\\xc0' * 3 + b'\\x91' * 5000 + b'\\xc0';"
            " memory[p.start : p.start + len(deep)] = deep; connection.send(e((p.number, len(deep))))",
            id="bottomless",
        ),
        pytest.param(
            "said = e([[{'operation': 'append'}, [], 'd']]); memory[p.start : p.start + len(said)] = said;"
            " connection.send(e((p.number, len(said))))",
            id="half-an-intent",
        ),
        pytest.param(
            "memory[p.start : p.start + 5] = b'\\xdd' + b'\\xff' * 4; connection.send(e((p.number, 5)))",
            id="four-billion-intents",
        ),
    ],
)
async def test_a_process_of_another_version_is_ended_and_its_page_read_by_the_daemon(tmp_path, monkeypatch, said):
    """Its files may have been replaced since the daemon started."""
    program = tmp_path / "another_version.py"
    program.write_text(f"""
import msgspec
from firn.coordinator.calculating.messages import Request
from firn.storage.companion_program import serving
e = msgspec.msgpack.encode
with serving() as (connection, memory):
    while message := connection.recv(65536):
        p = msgspec.msgpack.decode(message, type=Request)
        if p.sizes:
            {said}
        else:
            memory[p.start] = 0x90
            connection.send(e((p.number, 1)))
""")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("firn.coordinator.calculating.calculator.PROGRAM", "another_version")
    async with calculator() as process:
        reader = IntentReader(process)
        assert await reader.read_ahead([encode_intent(own())]) == [None]
        assert not reader.takes([b"x"])
        await until(lambda: not exists(process.pid))
