"""A table's snapshots as a graph: where each dot and line is drawn, newest on top, one column a branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH

SNAPSHOTS_MAX: Final = 60
"""Snapshots that are drawn: the newest."""

ROW_PX: Final = 30
COLUMN_PX: Final = 18


class Dot(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot: `x` and `y` in pixels, the names of branches and tags that point at it."""

    snapshot_id: int
    operation: str
    x: int
    y: int
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    reachable: bool = True


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """From a snapshot up to one made on top of it."""

    x1: int
    y1: int
    x2: int
    y2: int


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The drawing. `left_out` older snapshots are not in it."""

    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    width: int
    height: int
    left_out: int = 0


def graph_of(metadata: TableMetadata, *, limit: int = SNAPSHOTS_MAX) -> Graph:
    """Lay the newest snapshots out. ``main`` is the first column, other branches follow by name."""
    ordered = sorted(metadata.snapshots, key=lambda s: (s.sequence_number, s.timestamp_ms), reverse=True)
    shown = ordered[:limit]
    columns = _columns(metadata)
    width = max(columns.values(), default=0) + 1
    refs: dict[int, tuple[list[str], list[str]]] = {}
    for name, ref in metadata.refs.items():
        refs.setdefault(ref.snapshot_id, ([], []))[ref.type == "tag"].append(name)
    places = {
        s.snapshot_id: (_x(columns.get(s.snapshot_id, width)), row * ROW_PX + ROW_PX // 2)
        for row, s in enumerate(shown)
    }
    dots = tuple(
        Dot(
            snapshot_id=s.snapshot_id,
            operation=s.operation or "?",
            x=places[s.snapshot_id][0],
            y=places[s.snapshot_id][1],
            branches=tuple(refs.get(s.snapshot_id, ([], []))[0]),
            tags=tuple(refs.get(s.snapshot_id, ([], []))[1]),
            reachable=s.snapshot_id in columns,
        )
        for s in shown
    )
    lines = tuple(
        Line(x1=places[parent][0], y1=places[parent][1], x2=places[s.snapshot_id][0], y2=places[s.snapshot_id][1])
        for s in shown
        if (parent := s.parent_snapshot_id) is not None and parent in places
    )
    loose = any(not dot.reachable for dot in dots)
    return Graph(
        dots=dots,
        lines=lines,
        width=(width + loose) * COLUMN_PX + COLUMN_PX,
        height=len(shown) * ROW_PX,
        left_out=len(ordered) - len(shown),
    )


def _x(column: int) -> int:
    return column * COLUMN_PX + COLUMN_PX


def _columns(metadata: TableMetadata) -> Mapping[int, int]:
    """The column of every snapshot that a branch or tag reaches; what no branch reaches has none."""
    parents = {s.snapshot_id: s.parent_snapshot_id for s in metadata.snapshots}
    names = sorted(metadata.refs, key=lambda name: (name != MAIN_BRANCH, metadata.refs[name].type, name))
    columns: dict[int, int] = {}
    next_column = 0
    for name in names:
        at: int | None = metadata.refs[name].snapshot_id
        taken = False
        while at is not None and at in parents and at not in columns:
            columns[at] = next_column
            taken = True
            at = parents[at]
        next_column += taken
    return columns
