"""The conflict report as SQL over the table of commits, for Spark, DuckDB, Trino and whatever else reads Iceberg.

Each is a text with `{commits}` where the table's name goes, as that engine calls it.
"""

from __future__ import annotations

from typing import Final

import msgspec


class ReportQuery(msgspec.Struct, frozen=True):
    """One question, and the SQL that answers it."""

    title: str
    sql: str

    def over(self, commits: str) -> str:
        """The SQL, for a table of commits of this name."""
        return self.sql.format(commits=commits)


BY_TABLE: Final = ReportQuery(
    "by table",
    """\
SELECT table_name,
       sum(CASE WHEN status = 'committed' THEN 1 ELSE 0 END) AS committed,
       sum(CASE WHEN status = 'rejected' THEN 1 ELSE 0 END) AS rejected
FROM {commits}
GROUP BY table_name
ORDER BY rejected DESC, table_name""",
)

BY_RULE: Final = ReportQuery(
    "by rule",
    """\
SELECT rule, hint, count(*) AS rejected
FROM {commits}
WHERE status = 'rejected'
GROUP BY rule, hint
ORDER BY rejected DESC, rule""",
)

BY_WRITERS: Final = ReportQuery(
    "by loser and winner",
    """\
SELECT coalesce(writer, '(unnamed)') AS loser,
       CASE WHEN conflicting_writer IS NOT NULL THEN conflicting_writer
            WHEN conflicting_intent_id IS NULL AND conflicting_snapshot_id IS NULL THEN '(nobody)'
            ELSE '(unnamed)' END AS winner,
       count(*) AS rejected
FROM {commits}
WHERE status = 'rejected'
GROUP BY 1, 2
ORDER BY rejected DESC, loser, winner""",
)

BY_HOUR: Final = ReportQuery(
    "by hour",
    """\
SELECT date_trunc('hour', decided_at) AS hour,
       sum(CASE WHEN status = 'committed' THEN 1 ELSE 0 END) AS committed,
       sum(CASE WHEN status = 'rejected' THEN 1 ELSE 0 END) AS rejected
FROM {commits}
GROUP BY date_trunc('hour', decided_at)
ORDER BY hour""",
)

QUERIES: Final = (BY_TABLE, BY_RULE, BY_WRITERS, BY_HOUR)
