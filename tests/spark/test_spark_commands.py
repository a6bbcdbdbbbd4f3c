"""`firn spark` as somebody runs it who writes no code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firn.pipeline.reads import read
from tests.spark.lake import Lake

QUICK_START = (
    "--master", "local[1]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "--conf", "spark.sql.shuffle.partitions=1", "--conf", "spark.sql.codegen.wholeStage=false",
)  # fmt: skip
START_S = 240.0


def firn(lake: Lake, *arguments: str) -> Any:
    """The JSON that the command prints."""
    done = lake.stack.firn(*arguments, "--json", timeout_s=START_S)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return json.loads(done.stdout)


def test_a_demo_is_submitted_and_the_table_looked_after(lake: Lake) -> None:
    table = "demo.submitted"
    told = firn(lake, "spark", "submit-demo", "--table", table, "--rows", "900", *QUICK_START)
    assert (told["rows-appended"], told["rows-in-table"]) == (900, 900)
    assert read(lake.spark, table).count() == 900
    plan = firn(lake, "spark", "compact", table, "--all", "--dry-run")
    assert len(plan["groups"]) == 30
    expired = firn(lake, "spark", "expire", table, "--older-than", "0s", "--retain-last", "1")
    assert expired["answer"]["status"] == "committed"
    assert expired["removal"]["failed"] == []
    counted = firn(lake, "spark", "stats", table, "--partitions-only")
    assert counted["partitions"] == 30
    found = firn(lake, "spark", "orphans", table)
    assert found["dry-run"]
    assert found["count"] == 0
    refused = lake.stack.firn("spark", "orphans", table, "--older-than", "2h")
    assert refused.returncode == 2
    assert "24 hours" in refused.stderr
    assert read(lake.spark, table).count() == 900


@pytest.mark.long
def test_a_table_is_compacted_and_reported_on_with_sql(lake: Lake) -> None:
    table = "demo.compacted"
    for _ in range(2):
        firn(lake, "spark", "submit-demo", "--table", table, "--rows", "300", *QUICK_START)
    done = firn(lake, "spark", "compact", table, "--all", *QUICK_START)
    assert (done["ok"], done["files-before"], done["files-after"]) == (True, 60, 30)
    assert read(lake.spark, table).count() == 600
    counted = firn(lake, "spark", "stats", table, "--columns", "country,id", *QUICK_START)
    assert counted["distinct-values"] == {"country": 8, "id": 300}
    query = f"SELECT operation, count(*) AS n FROM commits WHERE table_name = '{table}' GROUP BY operation ORDER BY 1"
    counted = firn(lake, "spark", "report", "--sql", query, *QUICK_START)["query"]
    assert [(row["operation"], row["n"]) for row in counted][:2] == [("append", 2), ("create-table", 1)]
    assert counted[2]["operation"] == "replace"
    report = firn(lake, "spark", "report", "--no-collect", *QUICK_START)
    assert list(report) == ["by table", "by rule", "by loser and winner", "by hour"]
