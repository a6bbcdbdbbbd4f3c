"""What a daemon says of itself is short and readable, whatever it is stuck on; daemons of any age are understood."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from firn.coordinator.operations import bulletin
from firn.coordinator.operations.bulletin import TROUBLES_MAX
from firn.coordinator.operations.fleet import notices
from firn.coordinator.operations.notices import Notice, notice_in
from firn.coordinator.version import VERSION
from firn.model.errors import Unavailable
from firn.model.trouble import WHY_CHARACTERS_MAX
from firn.storage.membership import Membership
from tests.unit.coordinator.workbench import Workbench


async def test_very_many_troubles_of_any_kind_fit_into_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulletin, "LOOK_S", 0.02)
    bench = Workbench()
    async with bench.daemon("a") as daemon:
        for number in range(TROUBLES_MAX + 50):
            daemon.lanes.found_unreadable(f"db.t{number}", f"/data/\udcff{'x' * 600}")
        membership = Membership(bench.zookeeper.connect())
        async with asyncio.timeout(10):
            while not (await notices(membership))["a"].troubles:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        notice = (await notices(membership))["a"]
        assert (len(notice.troubles), notice.troubles_in_all) == (TROUBLES_MAX, TROUBLES_MAX + 50)
        assert {len(trouble.why) for trouble in notice.troubles} == {WHY_CHARACTERS_MAX}
        assert not [reason for reason in daemon.health().reasons if "ended" in reason]
        await membership.close()


@pytest.mark.parametrize(
    ("data", "notice"),
    [
        (b'{"version":"0.0.9","http":"http://h:1"}', Notice(version="0.0.9", http="http://h:1")),
        (b'{"version":"9","http":null,"troubles":[{"table":"t","state":"haunted"}]}', Notice(version="9")),
        (b'{"version":7,"http":7}', Notice(version="7")),
        (b"[1]", Notice()),
        (b"", Notice()),
    ],
)
def test_a_daemon_of_another_version_is_understood_as_far_as_can_be(data: bytes, notice: Notice) -> None:
    assert notice_in(data) == notice


async def test_a_daemon_that_is_well_says_its_version_and_nothing_else() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        said = (await notices(Membership(bench.zookeeper.connect())))["a"]
    assert msgspec.to_builtins(said) == {
        "version": VERSION,
        "http": None,
        "troubles": (),
        "troubles-in-all": 0,
        "unmerged": {},
        "stores": (),
        "work": None,
    }


async def test_a_zookeeper_that_does_not_take_it_is_logged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulletin, "LOOK_S", 0.02)
    restate, asked = Membership.restate, 0

    async def refusing(membership: Membership, info: bytes) -> None:
        nonlocal asked
        asked += 1
        if asked < 5:
            raise Unavailable("the session is suspended")
        await restate(membership, info)

    monkeypatch.setattr(Membership, "restate", refusing)
    bench = Workbench()
    with capture_logs() as logs:
        async with bench.daemon("a") as daemon:
            daemon.lanes.found_unreadable("db.t", "/data/x")
            membership = Membership(bench.zookeeper.connect())
            async with asyncio.timeout(10):
                while not (await notices(membership))["a"].troubles:  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0.02)
            await membership.close()
    assert [line["reason"] for line in logs if line["event"] == "notice not changed"] == ["the session is suspended"]
