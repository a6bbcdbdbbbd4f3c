"""The index of live files against a plain dict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firn.coordinator.replay import file_index
from firn.coordinator.replay.file_index import FileIndex
from firn.coordinator.replay.live_files import FILE_BYTES, LiveFiles

FILES = st.integers(0, 40).map("f{}".format)
MANIFESTS = st.integers(0, 6).map("m{}".format)
CHANGES = st.lists(
    st.tuples(st.just("put"), FILES, MANIFESTS)
    | st.tuples(st.just("remove"), FILES, st.none())
    | st.tuples(st.just("rename"), MANIFESTS, MANIFESTS)
    | st.tuples(st.just("adopt"), st.booleans(), st.none()),
    max_size=60,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: Any) -> None:
    monkeypatch.setattr(file_index, "_BUCKET_FILES", 4)
    monkeypatch.setattr(file_index, "_SHORT_NUMBERS", 8)
    monkeypatch.setattr(file_index, "_LONG_NUMBERS", 12)
    monkeypatch.setattr(file_index, "_SHORT_FILES_MAX", 16)


@example([("put", "f0", "m0"), ("adopt", False, None), ("rename", "m0", "m1"), ("rename", "m0", "m2")])
@example([
    ("put", "f0", "m0"), ("adopt", False, None), ("rename", "m0", "m1"), ("rename", "m2", "m0"), ("rename", "m1", "m2"),
    ("adopt", False, None),
])  # fmt: skip
@given(CHANGES)
def test_it_says_what_a_plain_dict_says(changes: Any) -> None:
    live, plain = LiveFiles(), {}
    for what, one, other in changes:
        if what == "put":
            live.put(one, manifest=other)
            plain[one] = other
        elif what == "remove":
            live.remove(one)
            plain.pop(one, None)
        elif what == "rename" and one != other:
            live.rename_manifests({one: other})
            plain = {file: other if manifest == one else manifest for file, manifest in plain.items()}
        elif what == "adopt":
            live.adopt(shared=one)
            live = live.branch_off()
        assert {f"f{n}": live.manifest_of(f"f{n}") for n in range(41)} == {
            f"f{n}": plain.get(f"f{n}") for n in range(41)
        }


@given(CHANGES)
def test_a_branch_does_not_change_what_it_came_from(changes: Any) -> None:
    base = LiveFiles()
    base.put_all([f"f{n}" for n in range(20)], manifest="m0")
    base.adopt(shared=False)
    branch = base.branch_off()
    for what, one, other in changes:
        if what == "put":
            branch.put(one, manifest=other)
        elif what == "remove":
            branch.remove(one)
        elif what == "rename" and one != other:
            branch.rename_manifests({one: other})
    branch.adopt(shared=True)
    assert [base.manifest_of(f"f{n}") for n in range(41)] == ["m0"] * 20 + [None] * 21


PUT_OR_KEPT = st.lists(
    st.tuples(st.just("put"), st.sets(FILES, max_size=6), MANIFESTS)
    | st.tuples(st.just("put in order"), st.sets(FILES, max_size=6), MANIFESTS)
    | st.tuples(st.just("rename"), MANIFESTS, MANIFESTS)
    | st.tuples(st.just("keep"), st.sets(MANIFESTS, min_size=4), st.none()),
    max_size=40,
)


@given(PUT_OR_KEPT)
def test_manifests_are_dropped_with_their_files_and_the_later_one_keeps_a_file(changes: Any) -> None:
    index, plain = FileIndex(), {}
    order = {f"m{number}": number for number in range(1, 5)}  # the others come before all of these
    for what, one, other in changes:
        if what == "put":
            index.put_all(one, other)
            plain.update(dict.fromkeys(one, other))
        elif what == "put in order":
            index.put_all(one, other, order=order)
            place = order.get(other, 0)
            plain.update({file: other for file in one if order.get(plain.get(file, ""), -1) <= place})
        elif what == "rename" and one != other:
            index.rename({one: other})
            plain = {file: other if manifest == one else manifest for file, manifest in plain.items()}
        elif what == "keep":
            before = index.copy()
            index.keep_only(one)
            assert {file: before.get(file) for file in plain} == plain
            plain = {file: manifest for file, manifest in plain.items() if manifest in one}
        assert len(index) == len(plain)
        assert {f"f{n}": index.get(f"f{n}") for n in range(41)} == {f"f{n}": plain.get(f"f{n}") for n in range(41)}
        held = list(plain.values())
        assert all(index.count_of(f"m{n}") == held.count(f"m{n}") for n in range(7))


def test_it_takes_eleven_bytes_a_file(monkeypatch: Any) -> None:
    monkeypatch.undo()
    index, count = FileIndex(), 50_000
    for manifest in range(count // 500):
        index.put_all((f"/wh/t/data/{manifest}-{n}.parquet" for n in range(500)), f"m{manifest}")
    assert len(index) == count
    assert index.memory <= FILE_BYTES * count
    assert index.get("/wh/t/data/7-99.parquet") == "m7"


def test_it_forgets_manifests_without_files() -> None:
    """Removed, rewritten or merged ones: a table that is overwritten again and again has a few."""
    index = FileIndex()
    index.put_all([f"f{n}" for n in range(20)], "m0")
    for turn in range(1, 100):
        index.put_all([f"f{n}" for n in range(10)], f"m{turn}")
        index.discard("f0")
        if turn % 2:
            index.rename({f"m{turn}": f"m{turn}x", "m0": f"m{turn}x"})
            index.rename({f"m{turn}x": "m0"})
        assert len(index._names) == len(index._numbers) == len(index._counts) <= 3
        assert sum(index._counts.values()) == len(index) == 19
        assert len(index._parents) <= file_index._LONG_NUMBERS + 4 * 3
    assert {index.get(f"f{n}") for n in range(10, 20)} == {"m0"}
    index.put_all([], "none")
    index.put_all(["f1", "f1"], "last")
    index.put_all(["f1"], "last")
    assert "none" not in index._numbers
    assert index.get("f1") == "last"
