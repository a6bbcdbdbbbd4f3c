"""A daemon takes no store for its own that is not: it holds what it is asked for, says why, and goes on by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from firn.coordinator.config import Settings, ZooKeeperSettings
from firn.coordinator.daemon import Daemon, wall_clock_ms
from firn.coordinator.store_identity import root_of
from firn.model.deployment import RedisMark
from firn.model.operations.tables import CreateTable
from firn.model.outcome import Committed
from firn.storage.deployment_marks import DEPLOYMENT
from firn.storage.locations import MARK_NAME
from firn.storage.memory_coordination import MemoryZooKeeper
from firn.storage.memory_streams import MemoryRedis
from firn.storage.pointers import PointerChange, Pointers
from tests.unit.coordinator.lanes.test_pauses import until
from tests.unit.coordinator.recovery.test_recover import lose_servers, recover
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create

THEIRS = msgspec.json.encode(RedisMark(deployment="theirs"))


async def mark_of(bench: Workbench) -> str:
    data, _ = await bench.zookeeper.connect().get(DEPLOYMENT)
    return data.decode()


def is_not_ready(daemon: Daemon, what: str) -> Callable[[], bool]:
    return lambda: any(what in reason for reason in daemon.health().reasons)


async def test_a_first_start_marks_all_stores_and_later_ones_find_the_marks() -> None:
    bench = Workbench(is_marked=True)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await until(lambda: daemon.health().ready)
    mark = await mark_of(bench)
    known = msgspec.json.decode(await bench.streams.deployment() or b"", type=RedisMark)
    assert known.deployment == mark
    assert bench.files.read(f"{WAREHOUSE}/{MARK_NAME}", bytes_max=100).decode().strip() == mark
    async with bench.daemon("b") as daemon:
        await bench.commit(append("a"))
    assert await mark_of(bench) == mark


async def test_a_deployment_from_before_marks_is_adopted() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
    bench.is_marked = True
    async with bench.daemon() as daemon:
        await bench.commit(append("a"))
        await until(lambda: daemon.health().ready)
    assert await mark_of(bench)


async def test_an_emptied_redis_is_marked_again_and_work_goes_on() -> None:
    bench = Workbench(is_marked=True)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        bench.redis.flush_all()
        await bench.commit(append("a"))
        assert daemon._stores is not None
        await daemon._stores.look()
        await until(lambda: daemon.health().ready)
    assert await bench.streams.deployment() is not None


@pytest.mark.parametrize("marked", [True, False])
async def test_with_an_empty_zookeeper_work_is_held_until_the_pointers_are_back(marked: bool) -> None:
    """Also where the journals alone know of tables: nothing was marked, and Redis is empty, too."""
    bench = Workbench(is_marked=marked)
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    bench.is_marked = True
    lose_servers(bench, redis=not marked)
    async with bench.daemon("b") as daemon:
        assert is_not_ready(daemon, "ZooKeeper is empty")()
        assert daemon._stores is not None
        assert daemon.ownership.owned() == []
        held, made = append("b"), create()
        await bench.send(held, made)
        await until(lambda: daemon.ownership.owned() == [])
        assert await bench.streams.outcome(held.intent_id) is None
        await recover(bench)
        assert not daemon.health().ready
        await daemon._stores.adopt(redis=False, warehouse=False)
        await until(lambda: daemon.health().ready)
        assert isinstance(await bench.outcome(held), Committed)
        assert not isinstance(await bench.outcome(made), Committed), "the table is there"
    assert sorted(await bench.live()) == ["a", "b"]


async def test_a_zookeeper_swapped_for_an_empty_one_under_a_daemon_is_noticed() -> None:
    bench = Workbench(is_marked=True)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        nodes = forget_all(bench)
        await bench.send(held := append("a"))
        await until(is_not_ready(daemon, "ZooKeeper is empty"))
        await until(lambda: not daemon.ownership.owned())
        assert await bench.streams.outcome(held.intent_id) is None
        assert bench.zookeeper._nodes.keys().isdisjoint({"/members/a"})
        bench.zookeeper._nodes.update(nodes)
        bench.zookeeper.expire(bench.sessions["a"])
        assert isinstance(await bench.outcome(held), Committed)
        await until(lambda: daemon.health().ready)


def forget_all(bench: Workbench) -> dict[str, Any]:
    """Take all persistent nodes away, and end all sessions, as a server does that begins anew with an empty folder."""
    nodes = {path: node for path, node in bench.zookeeper._nodes.items() if path != "/" and not node.ephemeral_owner}
    for path in nodes:
        del bench.zookeeper._nodes[path]
    for session in bench.sessions.values():
        bench.zookeeper.expire(session)
    return nodes


async def test_another_deployments_redis_is_not_used_and_the_right_one_is_gone_on_with() -> None:
    bench = Workbench(is_marked=True)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        content = bench.redis.keys[bench.names.deployment]
        bench.redis.keys[bench.names.deployment] = (THEIRS, None)
        await bench.send(held := append("a"))
        await until(is_not_ready(daemon, "Redis is another deployment's"))
        assert await bench.streams.outcome(held.intent_id) is None
        bench.redis.keys[bench.names.deployment] = content
        assert isinstance(await bench.outcome(held), Committed)


@pytest.mark.parametrize("behind", [1, 2, 3])
async def test_a_pointer_older_than_its_journal_is_not_built_upon(behind: int) -> None:
    bench = Workbench(is_marked=True)
    pointers = Pointers(bench.zookeeper.connect())
    async with bench.daemon():
        await bench.commit(create())
        older = (await pointers.read(TABLE)).pointer
        for number in range(behind):
            await bench.commit(append(f"a{number}"))
    newest = await pointers.read(TABLE)
    await pointers.swap([PointerChange(table=TABLE, pointer=older, expected=newest.version)], leases=())
    async with bench.daemon("b") as daemon:
        held = append("held")
        await bench.send(held)
        await until(lambda: TABLE in daemon.lanes.stalled)
        assert f"firn recover {TABLE}" in daemon.lanes.stalled[TABLE]
        assert (await pointers.read(TABLE)).pointer == older
        back = newest.pointer
        version = (await pointers.read(TABLE)).version
        await pointers.swap([PointerChange(table=TABLE, pointer=back, expected=version)], leases=())
        assert isinstance(await bench.outcome(held), Committed)
    assert sorted(await bench.live()) == sorted(["held", *(f"a{number}" for number in range(behind))])


async def test_no_table_is_made_in_the_folder_of_one_that_zookeeper_does_not_know() -> None:
    bench = Workbench()
    pointers = Pointers(bench.zookeeper.connect())
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    lost = await pointers.read(TABLE)
    await pointers.swap([PointerChange(table=TABLE, pointer=None, expected=lost.version)], leases=())
    bench.redis = MemoryRedis()
    bench.streams = bench.redis.connect(names=bench.names)
    async with bench.daemon("b") as daemon:
        over = msgspec.structs.replace(create("db.other"), location=lost.pointer.location)
        assert isinstance(over, CreateTable)
        await bench.send(create(), over)
        await until(lambda: daemon.lanes.stalled.keys() == {TABLE, "db.other"})
        assert all("firn recover" in why for why in daemon.lanes.stalled.values())
        assert await pointers.list() == []


async def test_a_creation_that_never_came_off_holds_nothing_up() -> None:
    """A daemon died between the files of a table and its swap: the next one makes the table."""
    bench = Workbench(is_marked=True)
    async with bench.daemon():
        await bench.commit(create())
    pointers = Pointers(bench.zookeeper.connect())
    made = await pointers.read(TABLE)
    await pointers.swap([PointerChange(table=TABLE, pointer=None, expected=made.version)], leases=())
    bench.redis.flush_all()
    async with bench.daemon("b"):
        await bench.commit(create())
        await bench.commit(append("a"))


@pytest.mark.parametrize(
    ("hosts", "root", "found"),
    [("h:1", "/firn", "/firn"), ("h:1,i:2", "/firn/", "/firn"), ("h:1/a", "/firn", "/a/firn"), ("h:1", "/", "")],
)
def test_the_root_is_the_same_wherever_the_settings_have_it(hosts: str, root: str, found: str) -> None:
    assert root_of(Settings(zookeeper=ZooKeeperSettings(hosts=hosts, root=root))) == found


def test_the_twin_of_zookeeper_has_what_these_tests_take_away() -> None:
    assert MemoryZooKeeper(now_ms=wall_clock_ms)._nodes.keys() >= {"/"}
