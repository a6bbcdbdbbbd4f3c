"""Whose stores these are: every combination of marks has one meaning."""

from __future__ import annotations

from itertools import product

import pytest

from firn.model.deployment import RedisMark, StoreMarks, is_foreign_mark, judge, redis_mark_in

A, B, C = "a" * 32, "b" * 32, "c" * 32


def redis(deployment: str | None, root: str | None = "/firn") -> RedisMark | None:
    return None if deployment is None else RedisMark(deployment=deployment, zookeeper_root=root)


@pytest.mark.parametrize(
    ("marks", "finding", "deployment"),
    [
        ({}, "first-start", None),
        ({"has_journals": True}, "zookeeper-empty", None),
        ({"warehouse": A}, "zookeeper-empty", A),
        ({"redis": redis(A)}, "zookeeper-empty", A),
        ({"redis": redis(A), "warehouse": A}, "zookeeper-empty", A),
        ({"redis": redis(B), "warehouse": A}, "zookeeper-empty", A),
        ({"redis": redis(A, None), "warehouse": A}, "zookeeper-empty", A),
        ({"redis": redis(A, "/other"), "warehouse": A}, "zookeeper-other-root", A),
        # A start that was cut short after it had marked ZooKeeper.
        ({"zookeeper": A}, "same", A),
        ({"zookeeper": A, "warehouse": A}, "same", A),
        ({"zookeeper": A, "redis": redis(A), "warehouse": A}, "same", A),
        # Redis was emptied, or is marked for the first time.
        ({"zookeeper": A, "redis": None, "warehouse": A, "has_tables": True}, "same", A),
        # From before there were marks.
        ({"has_tables": True}, "same", None),
        ({"has_tables": True, "folders": {A}, "warehouse": A}, "same", A),
        ({"folders": {A}, "warehouse": A}, "same", A),
        ({"has_tables": True, "redis": redis(A), "folders": {A}, "warehouse": A}, "same", A),
        # A warehouse that was copied or moved keeps its mark; another one may be known, too.
        ({"zookeeper": A, "folders": {A, C}, "warehouse": C, "redis": redis(A)}, "same", A),
        # A disk that is not mounted is found out by each access; an object store is not.
        ({"zookeeper": A, "redis": redis(A), "warehouse_noted": True}, "same", A),
        ({"zookeeper": A, "warehouse_noted": True, "warehouse_is_local": False}, "warehouse-unmarked", A),
        # Somebody else's.
        ({"zookeeper": A, "redis": redis(B), "warehouse": A}, "redis-foreign", A),
        ({"zookeeper": A, "redis": redis(B)}, "redis-foreign", A),
        ({"zookeeper": A, "redis": redis(A), "warehouse": B}, "warehouse-foreign", A),
        ({"zookeeper": A, "warehouse": B}, "warehouse-foreign", A),
        ({"zookeeper": B, "redis": redis(A), "warehouse": A}, "zookeeper-foreign", A),
        ({"zookeeper": A, "redis": redis(B), "warehouse": C}, "zookeeper-foreign", C),
        # Restored in part, or from a copy from before there were marks.
        ({"has_tables": True, "warehouse": A}, "zookeeper-unmarked", A),
        ({"has_tables": True, "redis": redis(A), "warehouse": A}, "zookeeper-unmarked", A),
        ({"has_tables": True, "folders": {B}, "redis": redis(A), "warehouse": A}, "zookeeper-foreign", A),
    ],
)
def test_what_marks_mean(marks, finding, deployment):
    marks = {**marks, "folders": frozenset(marks.get("folders", ()))}
    verdict = judge(StoreMarks(**{"zookeeper_root": "/firn", **marks}))
    assert (verdict.finding, verdict.deployment) == (finding, deployment)
    assert verdict.is_fine == (not verdict.reason)
    if not verdict.is_fine:
        assert "firn recover" in verdict.reason or "correct" in verdict.reason


def test_work_goes_on_only_where_all_that_is_marked_agrees_and_zookeeper_knows_it():
    ids = (None, A, B)
    for zookeeper, folder, in_redis, warehouse, tables in product(ids, ids, ids, ids, (False, True)):
        folders = frozenset() if folder is None else frozenset({folder})
        marks = StoreMarks(
            zookeeper=zookeeper, folders=folders, redis=redis(in_redis), warehouse=warehouse, has_tables=tables,
            zookeeper_root="/firn",
        )  # fmt: skip
        known = {zookeeper, folder} - {None}
        others = {in_redis, warehouse} - {None}
        knows_something = bool(known) or tables
        assert judge(marks).is_fine == (others <= known if knows_something else not others), marks


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b'{"deployment": 1}', b"\xff\xfe"])
def test_a_mark_that_cannot_be_read_is_nobodys(data):
    assert redis_mark_in(data) is not None
    assert is_foreign_mark(data, A)
    assert not is_foreign_mark(data, None)
    assert not is_foreign_mark(None, A)
