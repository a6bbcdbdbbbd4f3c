"""An entry that arrives after its shard was given up is added anew: its new owner may have looked for such already."""

from __future__ import annotations

from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.storage.intent_streams import Entry
from firn.storage.memory_streams import MemoryStreams
from tests.unit.coordinator.workbench import Workbench, append, create


async def test_an_entry_of_a_shard_that_was_given_up_meanwhile_is_added_anew_and_committed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Workbench()
    take = MemoryStreams.take
    given_up: list[Entry] = []
    armed: list[Daemon] = []

    async def taken_too_late(self: MemoryStreams, shards: Any, **options: Any) -> Any:
        entries = await take(self, shards, **options)
        if entries and armed and not given_up:
            given_up.extend(entries)
            armed[0].intake._backlogs.clear()
        return entries

    monkeypatch.setattr(MemoryStreams, "take", taken_too_late)

    def added() -> int:
        return sum(stream.added for name, stream in bench.redis.streams.items() if ":intents:" in name)

    async with bench.daemon() as daemon:
        await bench.commit(create())
        before = added()
        armed.append(daemon)
        await bench.commit(append("a.parquet"))
        assert given_up, "nothing came too late: the test proves nothing"
        assert added() - before == 2, "the entry, and the same added anew"
        assert len(await bench.live()) == 1
