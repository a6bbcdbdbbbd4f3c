"""Large entries are read a few at a time, before anything is known of them: a full page would be the daemon's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.intake import page_size as module
from firn.coordinator.intake.page_size import FIRST, GROWTH, PageSize
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from firn.storage.intent_streams import Entry
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create

ENTRY_BYTES = 5_000
READ_BYTES = 50_000


def entry(size: int, *, field: bytes | None = None) -> Entry:
    """One of this size, which is an intent, or has another `field`."""
    data = b"x" * size
    if field is None:
        return Entry(shard=0, entry_id="1-0", payload=data, deliveries=1)
    return Entry(shard=0, entry_id="1-0", payload=None, deliveries=1, fields={field: data})


def test_pages_begin_small_and_grow_as_long_as_they_fit() -> None:
    pages = PageSize(512)
    assert pages.count() == FIRST
    pages.saw([entry(1_000)])
    assert pages.count() == FIRST * GROWTH
    pages.saw([])
    assert pages.count() == FIRST * GROWTH
    pages.saw([entry(1_000)])
    assert pages.count() == 512
    assert pages.count(streams=16) == FIRST * GROWTH * GROWTH // 16


@pytest.mark.parametrize("large", [entry(16 * 2**20), entry(16 * 2**20, field=b"other")])
def test_one_large_entry_makes_the_next_page_small(large: Entry) -> None:
    pages = PageSize(512)
    for _ in range(5):
        pages.saw([entry(1_000)])
    pages.saw([entry(1_000), large, entry(1_000)])
    assert pages.count() == 4
    assert pages.count(streams=16) == 1


def recorded(daemon: Daemon, sizes: list[int]) -> None:
    """Note how much each answer of Redis to the daemon has."""
    streams: Any = daemon.intake._streams
    for name in ("take", "read_again"):
        ask = getattr(streams, name)

        async def asked(*arguments: Any, ask: Any = ask, **options: Any) -> Sequence[Entry]:
            entries: Sequence[Entry] = await ask(*arguments, **options)
            if entries:
                sizes.append(sum(len(one.payload or b"") for one in entries))
            return entries

        setattr(streams, name, asked)


@pytest.mark.parametrize("left_behind", [False, True], ids=["new", "left-behind"])
async def test_a_backlog_of_large_intents_is_read_in_parts(monkeypatch: pytest.MonkeyPatch, left_behind: bool) -> None:
    monkeypatch.setattr(module, "READ_BYTES_MAX", READ_BYTES)
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
    intents = [append(f"f{n}", summary={"padding": "x" * ENTRY_BYTES}) for n in range(100)]
    await bench.send(*intents)
    if left_behind:
        shard = shard_of(TABLE, shards=bench.shards)
        assert len(await bench.streams.take([shard], consumer="dead", count=1_000, block_ms=0)) == 100
    sizes: list[int] = []
    async with bench.daemon("b") as daemon:
        recorded(daemon, sizes)
        assert all([isinstance(await bench.outcome(intent), Committed) for intent in intents])
    assert max(sizes[1:]) <= READ_BYTES
    assert sizes[0] < (FIRST + 1) * (ENTRY_BYTES + 1_000)  # of which nothing was known
    assert await bench.live() == sorted(f"f{n}" for n in range(100))
