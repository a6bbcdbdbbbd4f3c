"""`firn serve` ends in good order: on a signal, when it cannot start, and when a loop of the daemon dies."""

import asyncio
import json
import os
import platform
import signal
from contextlib import asynccontextmanager

import pytest

from firn.coordinator.cli import serve as module
from firn.coordinator.cli.main import run
from firn.coordinator.config import (
    DaemonSettings,
    HttpSettings,
    LogSettings,
    RedisSettings,
    Settings,
    WarehouseSettings,
    load_settings,
)
from firn.coordinator.connections import Connections
from firn.coordinator.intake.intake import Intake
from firn.coordinator.logs import configure_logs
from firn.coordinator.version import VERSION, build_commit
from firn.model.errors import FirnError, Misconfigured, Unavailable
from firn.storage.memory_coordination import MemorySession
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench

SETTINGS = Settings(
    redis=RedisSettings(url="redis://me:hunter2@h:1/0"),
    warehouse=WarehouseSettings(location=WAREHOUSE),
    daemon=DaemonSettings(id="d", drain_s=2),
    http=HttpSettings(port=-1),
)


class ServeBench(Workbench):
    """Twins in the place of the servers; `open` counts connections that are not closed."""

    open = 0
    session: MemorySession


@pytest.fixture
def bench(monkeypatch):
    bench = ServeBench()

    @asynccontextmanager
    async def connect(_settings):
        session = bench.session = bench.zookeeper.connect()
        bench.open += 1
        try:
            yield Connections(session=session, streams=bench.redis.connect(), files=bench.files)
        finally:
            bench.open -= 1
            await session.close()

    monkeypatch.setattr(module, "connect", connect)
    return bench


async def until_ready(capsys):
    async with asyncio.timeout(5):
        while True:
            await asyncio.sleep(0.01)
            if "firn is ready" in (said := capsys.readouterr().out):
                return said


@pytest.mark.parametrize("number", module.SIGNALS)
async def test_a_signal_drains_and_ends_it(bench, tmp_path, capsys, number):
    serving = asyncio.create_task(module._serve(SETTINGS, data=tmp_path))
    greeting = await until_ready(capsys)
    assert "hunter2" not in greeting
    assert json.loads((tmp_path / "endpoints.json").read_text())["pid"] == os.getpid()
    os.kill(os.getpid(), number)
    await asyncio.wait_for(serving, 5)
    assert bench.open == 0
    assert not (tmp_path / "endpoints.json").exists()


async def test_the_greeting_has_what_settings_take(bench, tmp_path, capsys):
    """One text for FIRN_ZOOKEEPER and for clients: the path behind the servers is the root."""
    serving = asyncio.create_task(module._serve(SETTINGS, data=tmp_path))
    (line,) = [line for line in (await until_ready(capsys)).splitlines() if line.startswith("  zookeeper")]
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 5)
    found = load_settings(environment={"FIRN_ZOOKEEPER": line.split()[1]}).zookeeper
    assert (found.hosts, found.root) == (SETTINGS.zookeeper.hosts, SETTINGS.zookeeper.root)


@pytest.mark.parametrize(
    "name", ["FIRN_REDIS_URL", "FIRN_REDIS_URL_FILE", "FIRN_ZOOKEEPER", "FIRN_ZOOKEEPER_HOSTS_FILE"]
)
def test_embedded_servers_and_others_are_refused_together(monkeypatch, capsys, tmp_path, name):
    monkeypatch.setenv(name, "127.0.0.1:2181")
    assert run(["serve", "--embedded", "--data", str(tmp_path)]) == 2
    assert (
        f"--embedded starts servers of its own, and {name.removesuffix('_FILE')} names others"
        in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compiled", [True, False])
async def test_the_log_begins_with_what_runs(bench, monkeypatch, capsys, compiled):
    """A start that cannot work is one line: it is said when the servers have answered."""

    def refuse(*_settings, **_stores):
        raise Unavailable("the warehouse is away")

    monkeypatch.setattr(module, "warehouse_folders", refuse)
    monkeypatch.setattr(module, "IS_COMPILED", compiled)
    configure_logs(LogSettings(level="info", format="json"))
    with pytest.raises(Unavailable):
        await module._serve(SETTINGS, data=None)
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    told = {
        "event": "daemon begins",
        "version": VERSION,
        "commit": build_commit(),
        "python": platform.python_version(),
        "compiled": compiled,
    }
    assert told.items() <= said.items()


async def test_a_second_signal_is_a_hurry_and_a_third_is_the_systems_to_answer():
    before = [signal.getsignal(number) for number in module.SIGNALS]
    try:
        signals = module._Signals()
        for number, (stop, hurried) in ((signal.SIGTERM, (True, False)), (signal.SIGINT, (True, True))):
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.02)
            assert (signals.stop.is_set(), signals.hurried.is_set()) == (stop, hurried)
        assert {signal.getsignal(number) for number in module.SIGNALS} == {signal.SIG_DFL}
    finally:
        for number, handler in zip(module.SIGNALS, before, strict=True):
            signal.signal(number, handler)


async def test_a_signal_ends_it_while_a_server_is_away(bench, capsys):
    serving = asyncio.create_task(module._serve(SETTINGS, data=None))
    await until_ready(capsys)
    await asyncio.sleep(0.2)
    bench.session.suspend()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 5)
    assert bench.open == 0


async def test_a_signal_ends_it_while_it_waits_for_servers(monkeypatch):
    @asynccontextmanager
    async def never(_settings):
        await asyncio.sleep(60)
        yield

    monkeypatch.setattr(module, "connect", never)
    serving = asyncio.create_task(module._serve(SETTINGS, data=None))
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 5)


async def test_a_loop_that_dies_ends_it_with_the_reason(bench, monkeypatch, tmp_path):
    async def broken(_intake):
        await asyncio.sleep(0.05)
        raise ZeroDivisionError("our mistake")

    monkeypatch.setattr(Intake, "run", broken)
    with pytest.raises(FirnError, match="the daemon failed: ZeroDivisionError: our mistake"):
        await asyncio.wait_for(module._serve(SETTINGS, data=tmp_path), 5)
    assert bench.open == 0
    assert not (tmp_path / "endpoints.json").exists()


async def test_a_daemon_that_cannot_start_leaves_nothing_open(bench):
    bench.redis.down = True
    with pytest.raises(Unavailable, match="Redis is down"):
        await module._serve(SETTINGS, data=None)
    assert bench.open == 0


async def test_a_port_that_is_taken_is_said(bench):
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        settings = Settings(warehouse=SETTINGS.warehouse, http=HttpSettings(port=port))
        with pytest.raises(Misconfigured, match=rf"cannot listen on 127.0.0.1:{port}: .*FIRN_HTTP_PORT"):
            await module._serve(settings, data=None)
    assert bench.open == 0
