"""The recorded first week notices rows that are lost, doubled or never committed, and all else that must not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.first_week import observations
from tests.first_week.compaction import Compacted
from tests.first_week.load import ROWS, Told
from tests.first_week.observations import Disk, Rows, Size, disk_of, expected_versions, rows_of
from tests.first_week.report import Installed, Maintained, Record, Upgraded, markdown

TABLE = "shop.orders"


def told(operation: str = "append", **members: Any) -> Told:
    given = {"writer": "w", "table": TABLE, "status": "committed", "seconds": 0.1, "at": 1.0, **members}
    return Told(operation=operation, **given)


WEEK = [
    told(added=[(0, 0)]),
    told(added=[(200, 0)]),
    told("overwrite", added=[(0, 1)], removed=[0]),
    told(added=[(400, 0)]),
    told("delete-files", removed=[200]),
    told(added=[(600, 0)], status="rejected"),
    told(added=[(800, 0)], table="shop.clicks"),
]


def test_what_is_expected_follows_every_committed_wish() -> None:
    committed = [one for one in WEEK if one.table == TABLE and one.status == "committed"]
    assert expected_versions(committed) == {0: 1, 400: 0}
    assert expected_versions(reversed(committed)) == {0: 1, 400: 0}, "outcomes come in any order"


class Scan:
    """A table of some files, as PyIceberg has it."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths

    def from_metadata(self, _location: str) -> Any:
        return self

    def scan(self) -> Any:
        return self

    def plan_files(self) -> list[Any]:
        class Task(msgspec.Struct):
            file: Any

        class File(msgspec.Struct):
            file_path: str

        return [Task(File(str(path))) for path in self._paths]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([(0, 1), (400, 0)], Rows(2 * ROWS, 0, 0, 0)),
        ([(400, 0)], Rows(ROWS, ROWS, 0, 0)),
        ([(0, 1), (400, 0), (400, 0)], Rows(3 * ROWS, 0, ROWS, 0)),
        ([(0, 0), (400, 0)], Rows(2 * ROWS, ROWS, 0, ROWS)),
        ([(0, 1), (400, 0), (600, 0)], Rows(3 * ROWS, 0, 0, ROWS)),
        ([(0, 1), (200, 0), (400, 0)], Rows(3 * ROWS, 0, 0, ROWS)),
        ([], Rows(0, 2 * ROWS, 0, 0)),
    ],
    ids=["whole", "lost", "doubled", "an old version", "a refused file", "a deleted file", "empty"],
)
def test_rows_that_are_not_as_they_were_committed_are_counted(
    files: list[tuple[int, int]], found: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for number, (first, version) in enumerate(files):
        paths.append(tmp_path / f"{number}.parquet")
        ids = pa.table({"id": range(first, first + ROWS), "version": pa.array([version] * ROWS, pa.int32())})
        pq.write_table(ids, paths[-1])
    monkeypatch.setattr(observations, "StaticTable", Scan(paths))
    assert rows_of("anywhere", TABLE, WEEK) == found


GOOD = Record(
    commit="0123456", python="3.11", minutes=1.0, told=WEEK[:1],
    installed=Installed(extras=("demo",), packages=1, bytes=1, seconds=1.0, index=False),
    upgraded=Upgraded(older="db7e13b", began=0.0, ended=2.0, status=0, dead_letters=1),
    compacted={True: Compacted(status="committed", base_snapshot_id=1, base_age_s=60, snapshots_since=2,
                               base_expired=True, removed=2, added=1)},
    maintained=[Maintained(seconds=1.0, exit_code=0)], peaks={"firn-a": 1}, rows={TABLE: Rows(200, 0, 0, 0)},
    disk_at_upgrade=(disk := Disk(data=Size(), metadata=Size(), manifests=Size(), journal=Size(), others=Size())),
    disk_before=disk, disk=disk, dead_letters=1, codes={"fsck": 0, "status": 0, "doctor": 0},
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"told": [told(status="rejected", message="why")]}, ["w: append on shop.orders rejected: why"]),
        ({"told": [told(status="unknown")]}, ["w: append on shop.orders unknown: "]),
        ({"told": [told(status="committed", meant=True)]}, ["w: append on shop.orders committed: "]),
        ({"told": [told(status="rejected", meant=True)]}, []),
        ({"rows": {TABLE: Rows(1, 2, 0, 0)}}, ["shop.orders: 2 rows lost, 0 doubled, 0 not committed"]),
        ({"rows": {TABLE: Rows(1, 0, 2, 0)}}, ["shop.orders: 0 rows lost, 2 doubled, 0 not committed"]),
        ({"rows": {TABLE: Rows(1, 0, 0, 2)}}, ["shop.orders: 0 rows lost, 0 doubled, 2 not committed"]),
        ({"codes": {"fsck": 1}}, ["firn fsck ended with 1"]),
        ({"codes": {"status": 3}}, ["firn status ended with 3"]),
        ({"dead_letters": 3}, ["2 dead letters"]),
        ({"maintained": [Maintained(seconds=1.0, exit_code=1)]}, ["maintenance ended with 1"]),
    ],
)
def test_what_must_not_be_is_named(change: dict[str, Any], said: list[str]) -> None:
    assert msgspec.structs.replace(GOOD, **change).wrong == said


def test_a_compaction_that_was_not_committed_is_named() -> None:
    late = msgspec.structs.replace(GOOD.compacted[True], status="rejected", rule="unknown-base", message="too old")
    assert msgspec.structs.replace(GOOD, compacted={False: late}).wrong == [
        "the compaction that was not reserved: rejected, unknown-base: too old"
    ]


def test_every_line_of_the_table_has_a_value() -> None:
    lines = markdown(GOOD).splitlines()
    assert lines[:2] == ["| what | measured |", "|---|---|"]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert [line for line in cells if len(line) != 2 or not all(line)] == []
    assert "p50 100 ms, p99 100 ms, most 0.1 s" in dict(cells)["latency of a commit"]
    assert dict(cells)["alerts that fired"] == "not measured: there is no Prometheus here"


def test_files_of_a_warehouse_are_told_apart(tmp_path: Path) -> None:
    for name, size in {
        "db/t/data/a.parquet": 10,
        "db/t/metadata/00001-a.metadata.json": 20, "db/t/metadata/00002-a.gz.metadata.json": 2,
        "db/t/metadata/snap-1.avro": 30, "db/t/metadata/_journal/1.json": 40, "db/t/metadata/journal/0.json": 4,
        "db/t/metadata/stats.puffin": 50, "_firn-warehouse": 1,
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    found = disk_of(tmp_path)
    assert (found.data, found.metadata, found.manifests) == (Size(1, 10), Size(2, 22), Size(1, 30))
    assert (found.journal, found.others, found.beside_data) == (Size(2, 44), Size(2, 51), 147)
