"""Whose stores these are, as both servers and their twins keep it."""

from __future__ import annotations

import msgspec
import pytest

from firn.model.deployment import RedisMark
from firn.model.errors import Unavailable
from firn.storage.deployment_marks import DeploymentMarks
from firn.storage.folder_marks import FolderMarks

OURS = msgspec.json.encode(RedisMark(deployment="ours", zookeeper_root="/firn"))
THEIRS = msgspec.json.encode(RedisMark(deployment="theirs", zookeeper_root="/firn"))


async def test_the_first_mark_of_a_zookeeper_counts(world):
    marks = DeploymentMarks(await world.connect())
    assert (await marks.read(), await marks.folders(), await marks.has_tables()) == (None, {}, False)
    assert await marks.note("first") == "first"
    assert await DeploymentMarks(await world.connect()).note("second") == "first"
    folders = FolderMarks(await world.connect())
    assert await folders.note("/srv/a b", "x") == "x"
    assert await folders.note("/srv/a b", "y") == "x"
    await folders.renote("/srv/a b", "z")
    assert await marks.folders() == {"/srv/a b": "z"}


async def test_a_redis_is_marked_once_and_marked_anew_only_by_who_knows_the_mark(redis_world):
    one, other = await redis_world.connect(), await redis_world.connect()
    assert await one.deployment() is None
    assert await one.mark(OURS, replacing=None)
    assert not await other.mark(THEIRS, replacing=None)
    assert not await other.mark(THEIRS, replacing=THEIRS)
    assert await other.deployment() == OURS
    assert await other.mark(THEIRS, replacing=OURS)
    assert await one.deployment() == THEIRS


@pytest.mark.parametrize("mark", [THEIRS, b"nonsense"])
async def test_no_connection_to_another_deployments_redis_is_used(redis_world, mark):
    marking, expecting = await redis_world.connect(), await redis_world.connect()
    expecting.expect("ours")
    assert await marking.mark(mark, replacing=None)
    for use in (expecting.epoch, lambda: expecting.submit(0, b"{}"), lambda: expecting.lag(0)):
        with pytest.raises(Unavailable, match="another deployment's"):
            await use()
    assert await expecting.deployment() == mark, "it can be said whose it is"
    assert await marking.mark(OURS, replacing=mark)
    assert await expecting.epoch() == await marking.epoch()


async def test_an_emptied_redis_is_used(redis_world):
    expecting = await redis_world.connect()
    expecting.expect("ours")
    assert await expecting.mark(OURS, replacing=None)
    await redis_world.flush_all()
    await expecting.submit(0, b"{}")
    assert await expecting.deployment() is None
