"""Manifests are read in order, the next ones at once, and never too many."""

import threading

import pytest

from firn.coordinator.tables import read_ahead
from firn.coordinator.tables.read_ahead import READS_AT_ONCE, ReadAhead
from firn.model.errors import NotFound
from tests.strategies.manifests import manifest

MANIFESTS = [manifest(f"m{n}", manifest_length=10) for n in range(50)]


def content(one):
    return one.manifest_path.encode()


@pytest.mark.parametrize("count", [0, 1, 2, 3, READS_AT_ONCE, 50])
def test_each_comes_with_its_bytes_in_order(count):
    assert list(ReadAhead(content).ahead(MANIFESTS[:count])) == [(one, content(one)) for one in MANIFESTS[:count]]


def test_several_are_under_way_at_once():
    together = threading.Barrier(3)

    def read(one):
        together.wait(10)  # each waits for two others
        return content(one)

    assert len(list(ReadAhead(read).ahead(MANIFESTS[:3]))) == 3


def test_an_error_comes_when_its_turn_does_and_ends_the_reading():
    def read(one):
        if one.manifest_path == "m20":
            raise NotFound("m20")
        return content(one)

    reading = ReadAhead(read).ahead(MANIFESTS)
    assert [next(reading)[0].manifest_path for _ in range(20)] == [f"m{n}" for n in range(20)]
    with pytest.raises(NotFound):
        next(reading)


def test_no_more_bytes_wait_than_the_limit_but_always_one_manifest(monkeypatch):
    monkeypatch.setattr(read_ahead, "READ_AHEAD_BYTES_MAX", 25)
    started = []

    def read(one):
        started.append(one.manifest_path)
        return content(one)

    reading = ReadAhead(read).ahead(MANIFESTS)
    taken = 0
    for _ in reading:
        taken += 1
        assert len(started) <= taken + 2
    monkeypatch.setattr(read_ahead, "READ_AHEAD_BYTES_MAX", 1)
    assert len(list(ReadAhead(read).ahead(MANIFESTS))) == len(MANIFESTS)
    assert taken == len(MANIFESTS)
