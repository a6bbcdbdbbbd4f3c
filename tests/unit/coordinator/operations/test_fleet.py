"""The fleet as operators see it while servers are away: each trouble once, in words that say which server it is."""

from __future__ import annotations

from typing import Any

import pytest

from firn.coordinator.embedded.server import free_port
from firn.coordinator.operations.fleet import fleet_of
from firn.model.errors import Unavailable
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers
from firn.storage.redis_streams import RedisStreams
from tests.unit.coordinator.workbench import Workbench


async def troubles_of(bench: Workbench, **changes: Any) -> list[str]:
    session = bench.zookeeper.connect()
    asked: dict[str, Any] = {
        "membership": Membership(session), "pointers": Pointers(session), "pauses": Pauses(session),
        "streams": bench.redis.connect(), "shards": 4, **changes,
    }  # fmt: skip
    try:
        return list((await fleet_of(**asked)).troubles)
    finally:
        await session.close()


async def test_a_redis_that_is_away_is_named_and_not_what_it_was_asked() -> None:
    streams = RedisStreams(f"redis://127.0.0.1:{free_port()}/0")
    try:
        found = await troubles_of(Workbench(), streams=streams)
    finally:
        await streams.close()
    said = [one for one in found if "Redis" in one]
    assert len(said) == 1
    assert said[0].startswith("Redis does not answer: ")


async def test_a_zookeeper_that_is_away_is_one_trouble_however_much_it_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for asked, name, path in ((Membership, "owners", "/shards"), (Membership, "members", "/members"),
                              (Pointers, "list", "/tables"), (Pauses, "all", "/paused")):  # fmt: skip

        async def away(*_: object, path: str = path, **__: object) -> None:
            raise Unavailable(f"{path}: ZooKeeper session lost")

        monkeypatch.setattr(asked, name, away)
    assert await troubles_of(Workbench()) == ["ZooKeeper session lost"]


async def test_shards_that_nobody_reads_are_counted_as_people_count() -> None:
    bench = Workbench()
    session = bench.zookeeper.connect()
    membership = Membership(session)
    try:
        await membership.join("a")
        assert await membership.take_shard(0)
        two = await troubles_of(bench, shards=3)
        assert await membership.take_shard(1)
        one = await troubles_of(bench, shards=3)
    finally:
        await membership.close()
        await session.close()
    assert two == ["no daemon reads shards 1, 2: intents there wait"]
    assert one == ["no daemon reads shard 2: intents there wait"]
