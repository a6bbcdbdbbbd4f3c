"""The picture of a table's snapshots: every branch in its column, every parent below its child."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from firn.coordinator.pages.snapshot_graph import graph_of
from firn.model.metadata import TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import PartitionSpec
from firn.model.schema import schema_from_json
from firn.model.snapshot import RefType, Snapshot, SnapshotRef
from firn.model.sorting import UNSORTED

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


def table(parents: dict[int, int | None], refs: dict[str, tuple[RefType, int]]) -> TableMetadata:
    """Snapshots by id with their parents; branches and tags by name."""
    empty = new_table_metadata(
        schema=schema_from_json(SCHEMA, where="schema"), spec=PartitionSpec(spec_id=0), order=UNSORTED,
        location="memory://t", properties={}, format_version=2, table_uuid=str(uuid.UUID(int=1)), now_ms=0,
    )  # fmt: skip
    snapshots = tuple(
        Snapshot(snapshot_id=snapshot, parent_snapshot_id=parent, sequence_number=snapshot, timestamp_ms=snapshot)
        for snapshot, parent in parents.items()
    )
    return TableMetadata(
        **{name: getattr(empty, name) for name in empty.__struct_fields__}
        | {
            "snapshots": snapshots,
            "refs": {name: SnapshotRef(snapshot_id=at, type=kind) for name, (kind, at) in refs.items()},
        }
    )


def test_a_branch_has_a_column_of_its_own_from_where_it_left_main() -> None:
    graph = graph_of(table({1: None, 2: 1, 3: 2, 4: 2}, {"main": ("branch", 3), "audit": ("branch", 4)}))

    x = {dot.snapshot_id: dot.x for dot in graph.dots}
    assert x[1] == x[2] == x[3] < x[4]
    assert [dot.snapshot_id for dot in graph.dots] == [4, 3, 2, 1]
    assert {dot.snapshot_id: dot.branches for dot in graph.dots if dot.branches} == {3: ("main",), 4: ("audit",)}


def test_a_tag_on_a_branch_needs_no_column() -> None:
    graph = graph_of(table({1: None, 2: 1}, {"main": ("branch", 2), "v1": ("tag", 1)}))

    assert len({dot.x for dot in graph.dots}) == 1
    assert {dot.snapshot_id: dot.tags for dot in graph.dots if dot.tags} == {1: ("v1",)}


def test_what_no_branch_reaches_is_set_apart() -> None:
    graph = graph_of(table({1: None, 2: 1, 3: 1}, {"main": ("branch", 3)}))

    assert {dot.snapshot_id for dot in graph.dots if not dot.reachable} == {2}
    assert all(dot.x < graph.width for dot in graph.dots)


def test_an_empty_table_is_an_empty_picture() -> None:
    assert graph_of(table({}, {})).dots == ()


@given(st.data())
def test_any_history_fits_its_picture(data: st.DataObject) -> None:
    """Also one whose parents were expired or never existed: everything is inside the frame, lines go downwards."""
    count = data.draw(st.integers(1, 30))
    parents = {
        n: data.draw(st.one_of(st.none(), st.just(999), *([st.integers(1, n - 1)] if n > 1 else [])))
        for n in range(1, count + 1)
    }
    names = data.draw(st.lists(st.sampled_from(["main", "a", "b", "c", "t"]), unique=True))
    kinds: st.SearchStrategy[RefType] = st.sampled_from(["branch", "tag"])
    refs: dict[str, tuple[RefType, int]] = {
        n: ("branch" if n == "main" else data.draw(kinds), data.draw(st.integers(1, count))) for n in names
    }
    graph = graph_of(table(parents, refs), limit=data.draw(st.integers(1, 40)))

    assert len(graph.dots) + graph.left_out == count
    assert all(0 < dot.x < graph.width and 0 < dot.y < graph.height for dot in graph.dots)
    assert all(line.y1 > line.y2 for line in graph.lines)
    assert len({dot.y for dot in graph.dots}) == len(graph.dots)
