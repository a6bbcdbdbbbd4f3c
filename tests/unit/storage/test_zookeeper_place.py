"""A path behind ZooKeeper's servers is the root, and what can be none is refused with where it stands."""

from __future__ import annotations

import pytest

from firn.coordinator.client.table_view import zookeeper_at
from firn.coordinator.config import Settings, load_settings
from firn.coordinator.store_addresses import zookeeper_options
from firn.model.errors import Misconfigured
from firn.storage.zookeeper_place import ZooKeeperOptions, place_with_root


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("h:1", "h:1/firn"),
        ("h:1,i:2", "h:1,i:2/firn"),
        ("h:1/lake", "h:1/lake"),
        (" h:1,i:2/prod/lake/ ", "h:1,i:2/prod/lake"),
        ("h:1/", "h:1/"),
        ("[::1]:2181/firn", "[::1]:2181/firn"),
    ],
)
def test_one_text_leads_to_the_same_nodes_at_every_door(place: str, found: str) -> None:
    assert place_with_root(place, where="here") == found
    assert zookeeper_at(place).hosts == found
    assert zookeeper_at(ZooKeeperOptions(hosts=place)).hosts == found
    assert zookeeper_options(load_settings(environment={"FIRN_ZOOKEEPER": place})).hosts == found


@pytest.mark.parametrize(
    "place", ["", "/firn", "h:1,,i:2", "h:1/a,i:2/a", "h:1/a,i:2", "h:1//a", "h:1/../a", "h:1/a\n/b", "zk://h:1/firn"]
)
def test_what_can_be_no_place_is_refused_at_every_door(place: str) -> None:
    with pytest.raises(Misconfigured, match=r"^zookeeper: "):
        zookeeper_at(place)
    with pytest.raises(Misconfigured, match=r"^zookeeper\.hosts: "):
        load_settings(environment={"FIRN_ZOOKEEPER": place})


@pytest.mark.parametrize("root", ["lake", "", "/a//b", "/.", "/a/../b"])
def test_what_can_be_no_root_is_refused(root: str) -> None:
    with pytest.raises(Misconfigured, match=r"^zookeeper\.root: "):
        load_settings(environment={"FIRN_ZOOKEEPER_ROOT": root})


@pytest.mark.parametrize(("place", "root"), [("h:1", "/lake"), ("h:1/lake", "/lake"), ("h:1/lake/", "/lake//")])
def test_a_root_may_be_said_twice(place: str, root: str) -> None:
    settings = load_settings(environment={"FIRN_ZOOKEEPER": place, "FIRN_ZOOKEEPER_ROOT": root})
    assert (settings.zookeeper.hosts, settings.zookeeper.root) == ("h:1", "/lake")


@pytest.mark.parametrize("root", ["/firn", "/lake/firn", "/"])
def test_two_roots_are_refused(root: str) -> None:
    with pytest.raises(Misconfigured, match=rf"^zookeeper\.hosts has the path /lake, .* zookeeper\.root is {root}:"):
        load_settings(environment={"FIRN_ZOOKEEPER": "h:1/lake", "FIRN_ZOOKEEPER_ROOT": root})


def test_without_settings_the_root_is_the_usual_one() -> None:
    assert zookeeper_options(Settings()).hosts == "127.0.0.1:2181/firn"
