"""What conflicts were about: counted, as SQL, on the command line, and as a page."""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from firn.coordinator.cli.main import run
from firn.pipeline.commits_table import COMMITS_TABLE
from firn.pipeline.conflict_page import BARS_MAX, conflict_page, matrix_of, timeline_of
from firn.pipeline.conflict_queries import BY_HOUR, BY_RULE, BY_TABLE, BY_WRITERS
from firn.pipeline.conflict_report import (
    _WINNER,
    HOUR_MS,
    NOBODY,
    UNNAMED,
    ConflictReport,
    HourLine,
    PairLine,
    RuleLine,
    TableLine,
    Window,
    conflict_report,
)
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import append, create, delete
from tests.unit.pipeline.commits_bench import CommitsBench, LoopClient

HOSTILE = "<img src=x onerror=alert(1)>"
START_MS = int(datetime(2026, 3, 1, 7, tzinfo=UTC).timestamp() * 1000)


class ReportBench(CommitsBench, CliBench):
    """Tables with rejections, and the command."""

    async def fight(self) -> None:
        """db.a: the deleter loses twice against itself; db.b: somebody unnamed asks for a file that never was."""
        for table in ("db.a", "db.b"):
            await self.commit(create(table))
            await self.commit(append("one", "two", table=table, writer="etl"))
        await self.commit(delete("one", table="db.a", writer="deleter"))
        for loser in ("cleaner", "cleaner", HOSTILE):
            await self.refuse(delete("one", table="db.a", writer=loser))
        await self.refuse(delete("never", table="db.b"))

    async def report(self, **window: Any) -> ConflictReport:
        """Counted over what has been collected."""
        view = await asyncio.to_thread(LoopClient(self).table, COMMITS_TABLE)
        return await asyncio.to_thread(conflict_report, view, Window(**window), files=self.files)


async def test_rejections_are_counted_by_table_rule_writers_and_hour() -> None:
    bench = ReportBench()
    async with bench.daemon():
        await bench.fight()
        await bench.collect()
        report = await bench.report()
        of_b = await bench.report(table="db.b")
        newest_ms = max(row["decided_at"] for row in await bench.rows()) // 1000
        none = await bench.report(since_ms=newest_ms + 1)
        until = await bench.report(until_ms=newest_ms)
    assert (report.committed, report.rejected) == (5, 4)
    assert report.tables == (
        TableLine(table="db.a", committed=3, rejected=3), TableLine(table="db.b", committed=2, rejected=1),
    )  # fmt: skip
    assert report.rules == (RuleLine(rule="missing-file", hint="replan", rejected=4),)
    assert report.pairs == (
        PairLine(loser="cleaner", winner="deleter", rejected=2),
        PairLine(loser=UNNAMED, winner=NOBODY, rejected=1),
        PairLine(loser=HOSTILE, winner="deleter", rejected=1),
    )
    assert sum(hour.rejected for hour in report.hours) == 4
    assert (of_b.committed, of_b.rejected) == (2, 1)
    assert (none.committed, none.rejected) == (0, 0)
    assert until.committed + until.rejected < 9


async def test_sql_counts_the_same() -> None:
    bench = ReportBench()
    async with bench.daemon():
        await bench.fight()
        await bench.collect()
        report = await bench.report()
        rows = await bench.rows()
    # As engines see the column: a timestamp with a zone.
    times = pa.array([row["decided_at"] for row in rows], pa.timestamp("us", tz="UTC"))
    names = ("table_name", "status", "rule", "hint", "writer", *_WINNER)
    decided = pa.table({name: [row[name] for row in rows] for name in names} | {"decided_at": times})
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("decided", decided)
        found = {
            query.title: engine.execute(query.over("decided")).fetchall()
            for query in (BY_TABLE, BY_RULE, BY_WRITERS, BY_HOUR)
        }
    assert found["by table"] == [(one.table, one.committed, one.rejected) for one in report.tables]
    assert found["by rule"] == [(one.rule, one.hint, one.rejected) for one in report.rules]
    assert found["by loser and winner"] == [(one.loser, one.winner, one.rejected) for one in report.pairs]
    assert [(int(hour.timestamp() * 1000), *counts) for hour, *counts in found["by hour"]] == [
        (one.hour_ms, one.committed, one.rejected) for one in report.hours
    ]


async def test_the_command_collects_reports_and_writes_the_page(tmp_path: Path) -> None:
    bench = ReportBench()
    async with bench.daemon():
        await bench.fight()
        page = tmp_path / "conflicts.html"
        said = await bench.firn("report", "conflicts", "--html", str(page))
        assert said.code == 0, said.err
        assert "4 rejected, 5 committed" in said.out
        assert re.search(r"cleaner +deleter +2", said.out)
        assert "written to" in said.out
        assert HOSTILE not in page.read_text()
        as_json = await bench.firn("report", "conflicts", "--json", "--no-collect", "--table", "db.b")
        assert as_json.json["rejected"] == 1
        assert as_json.json["tables"] == [{"table": "db.b", "committed": 2, "rejected": 1}]
        again = await bench.firn("report", "commits")
        assert again.code == 0
        assert "nothing is new" in again.out


async def test_the_command_says_how_to_do_without_a_daemon() -> None:
    bench = ReportBench()
    async with bench.daemon():
        await bench.fight()
        await bench.collect()
    bench.redis.down = True
    await asyncio.sleep(0)
    said = await bench.firn("report", "conflicts", "--no-collect")
    assert said.code == 0, said.err
    assert "4 rejected" in said.out


async def test_a_report_of_what_was_never_collected_says_how_to_collect_it() -> None:
    bench = ReportBench()
    async with bench.daemon():
        await bench.fight()
        said = await bench.firn("report", "conflicts", "--no-collect")
        assert (said.code, said.out) == (1, "")
        assert "nothing to report from: there is no table 'firn.commits'" in said.err
        assert "firn report commits makes it" in said.err
        assert said.err.count("\n") == 1
        for command in (["conflicts", "--no-collect"], ["conflicts"], ["commits"]):
            other = await bench.firn("report", *command, "--commits", "db.a")
            assert (other.code, other.out) == (2, "")
            assert "db.a: is no table of commits" in other.err
        assert (await bench.firn("report", "commits")).code == 0
        assert "4 rejected" in (await bench.firn("report", "conflicts", "--no-collect")).out


async def test_a_report_of_a_table_that_nobody_knows_is_no_good_news() -> None:
    bench = ReportBench()
    async with bench.daemon():
        await bench.fight()
        said = await bench.firn("report", "conflicts", "--table", "db.zzz", "--since", "2026-11-21")
    assert said.out == "0 rejected, 0 committed of db.zzz since 2026-11-21 00:00:00.000Z\n"
    assert "no journal tells of db.zzz" in said.err


def test_a_missing_package_is_told_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("firn.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert run(["report", "commits"]) == 2
    assert "numpy is not installed here" in (said := capsys.readouterr().err)
    assert "pip install 'firn[maintain]'" in said


# ---------------------------------------------------------------------------------------------------------------------


def a_report(*, hours: list[HourLine] | None = None, pairs: list[PairLine] | None = None, **changes: Any):
    hours = [HourLine(hour_ms=START_MS, committed=90, rejected=10)] if hours is None else hours
    pairs = [PairLine(loser="a", winner="b", rejected=10)] if pairs is None else pairs
    return ConflictReport(**{
        "window": Window(), "committed": 90, "rejected": 10,
        "tables": (TableLine(table="db.t", committed=90, rejected=10),),
        "rules": (RuleLine(rule="missing-file", hint="replan", rejected=10),),
        "pairs": tuple(pairs), "hours": tuple(hours), **changes,
    })  # fmt: skip


class Tags(HTMLParser):
    """Every element and attribute of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


NOW = datetime(2026, 3, 2, tzinfo=UTC)


def test_names_that_are_markup_are_text_on_the_page() -> None:
    page = Tags(
        conflict_page(
            a_report(
                window=Window(table=HOSTILE),
                tables=(TableLine(table=HOSTILE, committed=0, rejected=10),),
                rules=(RuleLine(rule=HOSTILE, hint='"><script>alert(1)</script>', rejected=10),),
                pairs=[PairLine(loser='" onmouseover="alert(1)', winner=HOSTILE, rejected=10)],
            ),
            now=NOW,
        )
    )
    assert page.text.count(HOSTILE) >= 4
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "iframe", "link", "object"}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_the_page_needs_nothing_else() -> None:
    page = conflict_page(a_report(), now=NOW)
    assert not [
        value
        for _, attributes in Tags(page).elements
        for name, value in attributes.items()
        if name in {"src", "href", "action"}
    ]
    assert "url(" not in page
    assert "@import" not in page


def test_the_page_of_nothing_says_so() -> None:
    page = Tags(conflict_page(a_report(tables=(), rules=(), pairs=[], hours=[], committed=0, rejected=0), now=NOW)).text
    for sentence in ("Nothing was decided", "No table has a rejection", "No rule has refused anything", "Nobody lost"):
        assert sentence in page


def test_the_plot_over_time_has_a_column_for_each_hour_without_gaps() -> None:
    hours = [
        HourLine(hour_ms=START_MS, committed=4, rejected=2),
        HourLine(hour_ms=START_MS + 3 * HOUR_MS, committed=1, rejected=0),
    ]
    timeline = timeline_of(hours)
    assert timeline is not None
    assert timeline.unit == "hour"
    assert [(bar.committed, bar.rejected) for bar in timeline.bars] == [(4, 2), (0, 0), (0, 0), (1, 0)]
    assert [bar.when[-5:] for bar in timeline.bars] == ["07:00", "08:00", "09:00", "10:00"]
    assert [bar.rejected_share for bar in timeline.bars] == [1, 0, 0, 0]
    long = timeline_of([*hours, HourLine(hour_ms=START_MS + BARS_MAX * HOUR_MS, committed=0, rejected=5)])
    assert long is not None
    assert long.unit == "day"
    assert [bar.rejected for bar in long.bars] == [2, *[0] * 13, 5]


def test_the_matrix_shows_who_fights_most_and_counts_the_rest() -> None:
    pairs = [PairLine(loser=f"l{n:02}", winner=f"w{n:02}", rejected=50 - n) for n in range(20)]
    matrix = matrix_of(a_report(pairs=pairs))
    assert matrix is not None
    assert len(matrix.losers) == len(matrix.winners) == 12
    assert matrix.cells[0][0] == matrix.largest == 50
    assert matrix.cells[0][1] == 0
    assert matrix.left_out == sum(50 - n for n in range(12, 20))
