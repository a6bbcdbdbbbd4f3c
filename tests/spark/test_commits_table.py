"""The journals' table as Spark and PyIceberg see it."""

from __future__ import annotations

from pyiceberg.table import StaticTable

from firn.coordinator.client import Client
from firn.model.limits import Limits
from firn.model.outcome import Rejected
from firn.pipeline.commits_table import CommitsTable, JournalHead
from firn.pipeline.conflict_queries import BY_HOUR, BY_RULE, BY_TABLE, BY_WRITERS
from firn.pipeline.conflict_report import NOBODY, Window, conflict_report
from firn.pipeline.reads import read
from firn.storage.journal import JournalFiles
from tests.acceptance.stack import SCHEMA
from tests.spark.lake import Lake, committed

COMMITS = "firn.commits_of_test"


def collect(lake: Lake, client: Client, *tables: str) -> int:
    store = lake.connection.store()
    journal = JournalFiles(store, bytes_max=Limits().journal_bytes_max)
    heads = [JournalHead(table, head) for table in tables if (head := lake.stack.pointer(table).journal_head)]
    return CommitsTable(client, files=store, journal=journal, table=COMMITS).collect(heads).rows


def test_every_reader_counts_what_the_journals_say(lake: Lake) -> None:
    client = lake.client
    tables = ["db.journaled0", "db.journaled1"]
    for table in tables:
        committed(client.create_table(table, SCHEMA).result(30))
        refused = client.delete_files(table, ["/nowhere.parquet"], writer="cleaner").result(30)
        assert isinstance(refused, Rejected)
    assert collect(lake, client, *tables) == 4
    committed(client.update_properties(tables[0], {"owner": "us"}, writer="admin").result(30))
    assert collect(lake, client, *tables) == 1
    view = lake.view(COMMITS)

    report = conflict_report(view, Window(), files=lake.connection.store())
    assert (report.committed, report.rejected) == (3, 2)
    read(lake.spark, COMMITS).createOrReplaceTempView("commits")
    by_sql = {
        query: [tuple(row) for row in lake.spark.sql(query.over("commits")).collect()]
        for query in (BY_TABLE, BY_RULE, BY_WRITERS, BY_HOUR)
    }
    assert by_sql[BY_TABLE] == [(one.table, one.committed, one.rejected) for one in report.tables]
    assert by_sql[BY_RULE] == [(one.rule, one.hint, one.rejected) for one in report.rules]
    assert by_sql[BY_WRITERS] == [("cleaner", NOBODY, 2)]
    assert [counts for _, *counts in by_sql[BY_HOUR]] == [[one.committed, one.rejected] for one in report.hours]

    rows = StaticTable.from_metadata(view.metadata_location).scan("status = 'committed'").to_arrow()
    assert sorted(zip(rows["table_name"].to_pylist(), rows["operation"].to_pylist(), strict=True)) == sorted(
        [(table, "create-table") for table in tables] + [(tables[0], "update-properties")]
    )
