"""docs/pipeline.md, run from top to bottom in one session, on a table that has what its reader is assumed to have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from firn.coordinator.client import Unknown
from firn.model.outcome import Committed, Rejected
from firn.pipeline.writes import append
from tests.documents import SPARK, page
from tests.spark.lake import Lake

ADDRESSES = ("redis://redis:6379/0", "zk:2181")
"""Where the page says that the servers are."""


@pytest.mark.parametrize("path", sorted(SPARK), ids=lambda path: path.name)
def test_the_page_does_what_it_says(path: Path, lake: Lake, tmp_path: Path) -> None:
    names = given(lake, tmp_path)
    for block in page(path).blocks:
        if block.is_run:
            assert block.language == "python", f"{block}: run in a session; commands have pages of their own"
            text = block.text.replace("db.events", names["table"])
            for shown, own in zip(ADDRESSES, (lake.connection.redis, lake.connection.zookeeper), strict=True):
                assert isinstance(own, str)
                text = text.replace(shown, own)
            exec(compile(text, str(block), "exec"), names)
            assert not isinstance(names.get("outcome"), Rejected | Unknown), block
    for query in lake.spark.streams.active:
        query.processAllAvailable()
        query.stop()
    ids = Counter(lake.ids(names["table"]))
    assert [ids[id] for id in (100, 101)] == [1, 1], "by SQL"
    assert [ids[id] for id in (200, 201)] == [2, 2], "by two streams, once each"


def given(lake: Lake, folder: Path) -> dict[str, Any]:
    """What the page takes for granted: a table with a branch and a past, rows, a stream of files."""
    spark, table = lake.spark, lake.create(version=3, partition=(("region", "identity"),), order=(("id", "asc"),))
    first = lake.events(0, 10)
    lake.events(100, 102).createOrReplaceTempView("arrived")
    lake.events(200, 202).write.parquet(str(folder / "incoming"))
    begun = append(first, table)
    assert isinstance(begun, Committed)
    assert begun.snapshot_id is not None
    lake.client.create_branch(table, "audit", snapshot_id=begun.snapshot_id).committed(60)
    return {
        "spark": spark,
        "table": table,
        "rows": first,
        "last_seen": begun.snapshot_id,
        "source": lake.events(5, 12).selectExpr("*", "id = 5 AS gone"),
        "stream": spark.readStream.schema(first.schema).parquet(str(folder / "incoming")),
        "checkpoints": str(folder / "checkpoints"),
    }
