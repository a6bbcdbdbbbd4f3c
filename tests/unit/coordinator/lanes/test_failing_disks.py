"""A disk that fails at any one of the calls that a batch makes of it: the batch is made again, nothing is lost."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from firn.coordinator.config import DaemonSettings, HttpSettings, Settings, WarehouseSettings
from firn.coordinator.daemon import Daemon
from firn.model.intent import Append, ContentFile
from firn.model.outcome import Committed
from firn.storage.file_writes import ProcessWrites
from firn.storage.local_files import LocalFiles
from firn.storage.whole_sync import WholeSyncs, syncfs
from tests.unit.coordinator.lanes.test_swap_faults import check_chain
from tests.unit.coordinator.workbench import Workbench, append, create

CALLS = ("open", "write", "pwrite", "pread", "link", "mkdir", "fsync", "syncfs", "replace")
CALLS_OF_A_BATCH_MAX = 80


class Disk:
    """The operating system's calls, one of which fails: the one that is `left` calls away."""

    def __init__(self) -> None:
        self.left = 0
        self.error = 0
        self.failed: str | None = None

    def __getattr__(self, name: str) -> Any:
        real = syncfs if name == "syncfs" else getattr(os, name)
        return self._failing(name, real) if name in CALLS else real

    def _failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                self.failed = name
                raise OSError(self.error, os.strerror(self.error))
            return real(*arguments, **named)

        return call

    def fail_in(self, calls: int, error: int) -> None:
        self.left, self.error, self.failed = calls, error, None


def located(intent: Append, warehouse: str) -> Append:
    """The append with its files below another warehouse."""
    files = tuple(
        ContentFile(
            file_path=f"{warehouse}/db/events/data/{file.file_path.rpartition('/')[2]}", file_format="parquet",
            spec_id=0, record_count=file.record_count, file_size_in_bytes=file.file_size_in_bytes,
        )
        for file in intent.data_files
    )  # fmt: skip
    return append(data_files=files)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.coordinator.lanes.lane.BACKOFF_S", (0.001, 0.01))


@pytest.mark.parametrize("at_once", [False, True], ids=["one-by-one", "at-once"])
@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
async def test_whichever_call_fails_the_batch_is_committed_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: int,
    catalog: Literal["metastore", "file-system"],
    at_once: bool,
) -> None:
    """The first sync of all files at once that fails is the last one: for each such error the disk is met anew."""
    disk, warehouse = Disk(), str(tmp_path)
    monkeypatch.setattr("firn.storage.local_files.os", disk)
    monkeypatch.setattr("firn.storage.write_back.os", disk)
    files = LocalFiles(fsync=disk.fsync)
    bench = Workbench(files=files, warehouse=warehouse)
    names, met, failed = [], list[str](), set()
    async with bench.daemon() as daemon:
        await bench.commit(create(catalog=catalog))
        for calls in range(1, CALLS_OF_A_BATCH_MAX):
            names.append(f"f{calls:02}")
            if at_once and (calls == 1 or disk.failed == "syncfs"):
                files._whole_syncs = WholeSyncs(sync=disk.syncfs, unwritten_bytes=lambda: 0, is_fit=lambda _: True)
                await bench.commit(located(append(f"met-{names[-1]}"), warehouse))
                met.append(f"met-{names[-1]}")
            disk.fail_in(calls, error)
            await bench.commit(located(append(names[-1]), warehouse))
            if disk.failed is None:
                break
            failed.add(disk.failed)
            assert not daemon.lanes.unreadable
        disk.fail_in(0, 0)
        assert not daemon.lanes.stalled
    assert {"open", "write", "link" if catalog == "file-system" else "fsync", "fsync"} <= failed
    assert ("syncfs" in failed) is at_once
    assert len(names) > 10
    assert await bench.live() == sorted(names + met)
    await check_chain(bench)


PROGRAM = """
import os, signal
from firn.storage import file_writing_program, local_files
class Dying:
    left = int(open({left!r}).read())
    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in {calls!r}:
            return real
        def call(*arguments, **named):
            Dying.left -= 1
            if Dying.left == 0:
                open({left!r}, "w").write("0")
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)
        return call
local_files.os = Dying()
local_files.LocalFiles.__init__.__kwdefaults__["fsync"] = local_files.os.fsync
file_writing_program.main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared by memfd_create, which only Linux has")
async def test_whenever_the_writing_process_dies_the_batch_is_committed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two files of a batch, between a file and its name, before and after each sync."""
    left, warehouse = tmp_path / "left", str(tmp_path / "wh")
    (tmp_path / "dying_writer.py").write_text(PROGRAM.format(left=str(left), calls=CALLS))
    left.write_text("0")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("firn.storage.file_writes.PROGRAM", "dying_writer")
    files = LocalFiles()
    bench = Workbench(files=files, warehouse=warehouse)
    writes = ProcessWrites(files)
    settings = Settings(
        warehouse=WarehouseSettings(location=warehouse), daemon=DaemonSettings(id="a", shards=bench.shards),
        http=HttpSettings(port=-1),
    )  # fmt: skip
    session, streams = bench.zookeeper.connect(), bench.redis.connect(names=bench.names)
    daemon = Daemon(settings, session=session, streams=streams, files=files, writes=writes)
    await daemon.start()
    names, deaths = [], 0
    try:
        await bench.commit(create())
        for calls in range(1, CALLS_OF_A_BATCH_MAX):
            left.write_text(str(calls))
            writes._companion.kill()  # the next one begins to count
            names.append(f"f{calls:02}")
            assert isinstance((await bench.settle(located(append(names[-1]), warehouse)))[0], Committed)
            if left.read_text() != "0":
                break
            deaths += 1
    finally:
        await daemon.stop()
        await session.close()
        await writes.close()
    assert deaths > 10
    assert await bench.live() == sorted(names)
    await check_chain(bench)
    assert not daemon.lanes.all_under_way()
