"""Makes the dashboards in ``grafana/dashboards/`` from what is written here: ``make dashboards``.

Four of them, each for one question: *Fleet* (is it healthy?), *Table* (why is my commit slow or refused?), *Conflicts*
(who fights whom?), *Capacity* (what grows?).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType

from grafana.panels import SOURCE, Query, bars, lines, listing, number, spread

FOLDER: Final = Path(__file__).parent / "dashboards"

COMMITTED: Final = 'sum(rate(firn_intents_total{outcome="committed"}[$__rate_interval]))'
REJECTED: Final = 'sum(rate(firn_intents_total{outcome="rejected"}[$__rate_interval]))'

REPEATED: Final = "sum(rate(firn_repeated_intents_total[$__rate_interval]))"

SWAPS: Final = 'sum(rate(firn_batches_total{result="won"}[$__rate_interval]))'
HITS: Final = "sum(rate(firn_cache_hits_total[$__rate_interval]))"


def quantile(share: float, metric: str, *, by: str = "") -> str:
    """A quantile of a histogram's rate, perhaps by a label."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


def quantiles(metric: str) -> tuple[Query, ...]:
    """Median, 95 % and 99 %."""
    return tuple(Query(quantile(share, metric), name) for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")))


def happened(metric: str, window: str) -> str:
    """How much each series of a counter has grown, those that have begun meanwhile from nothing: to be summed up.

    `increase` alone knows nothing of what a series begins with, so a rule's first refusal would not be counted.
    """
    grown = f"increase({metric}[{window}])"
    begun = f"min_over_time({metric}[{window}]) unless {metric} offset {window}"
    return f'(label_replace({grown}, "part", "grown", "", "") or label_replace({begun}, "part", "begun", "", ""))'


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard: rows of panels."""

    uid: str
    title: str
    question: str
    rows: tuple[tuple[str, tuple[Any, ...]], ...]
    per_table: bool = False


def fleet() -> Dashboard:
    """Is it healthy?"""
    return Dashboard(
        uid="firn-fleet",
        title="firn / Fleet",
        question="Is it healthy?",
        rows=(
            (
                "Now",
                (
                    number(
                        "Alerts",
                        'count(ALERTS{alertstate="firing", severity!="none"}) or vector(0)',
                        bad=1,
                        about="That are firing: docs/runbooks says what to do about each.",
                    ),
                    number("Daemons", 'count(up{job="firn"} == 1) or vector(0)', about="That answer Prometheus."),
                    number(
                        "Shards that are read",
                        "sum(firn_owned_shards)",
                        about="As many as daemon.shards, or intents wait.",
                    ),
                    number("Oldest intent", "max(firn_oldest_intent_age_seconds)", unit="s", warn=5, bad=60),
                    number(
                        "ZooKeeper away", "sum(1 - firn_zookeeper_connected)", bad=1, about="Daemons without a session."
                    ),
                    number(
                        "Redis away",
                        "sum(1 - firn_redis_connected)",
                        bad=1,
                        about="Daemons that Redis does not answer.",
                    ),
                    number(
                        "Unreadable tables",
                        "sum(firn_unreadable_tables)",
                        bad=1,
                        about="No commit is made on them: their files do not pass their checks.",
                    ),
                    number(
                        "Stalled tables",
                        "sum(firn_stalled_tables)",
                        bad=1,
                        about="Their batch is tried again and again. The Fleet page says what is in the way.",
                    ),
                ),
            ),
            (
                "Tables in trouble",
                (
                    listing(
                        "Tables that no commit can be made on",
                        "max by (table, trouble, instance) (firn_table_trouble)",
                        ("table", "table"),
                        ("trouble", "trouble"),
                        ("instance", "daemon"),
                        value=None,
                        width=24,
                        about="At most twenty a daemon. Its page `/tables` says what is wrong with each.",
                    ),
                ),
            ),
            (
                "Work",
                (
                    lines(
                        "Intents a second",
                        Query(COMMITTED, "committed"),
                        Query(REJECTED, "rejected"),
                        Query(REPEATED, "answered again"),
                        unit="ops",
                        about="Answered again: submitted once more after it had been decided.",
                    ),
                    lines(
                        "Time to an outcome",
                        *quantiles("firn_intent_seconds"),
                        unit="s",
                        about="From taking an intent to its outcome being sent.",
                    ),
                    lines(
                        "Waiting intents",
                        Query("sum(firn_lag_intents)", "not yet delivered"),
                        Query("sum(firn_pending_intents)", "under way"),
                        Query("sum(firn_held_back_intents)", "held back"),
                        stacked=True,
                    ),
                ),
            ),
            (
                "Trouble",
                (
                    lines(
                        "Swaps that were not won",
                        Query(
                            'sum by (result) (rate(firn_batches_total{result!="won"}[$__rate_interval]))', "{{result}}"
                        ),
                        unit="ops",
                        about="lost: another commit came first. fenced: the lock was gone. unknown: no answer.",
                    ),
                    lines(
                        "Dead letters",
                        Query(f"round(sum by (rule) {happened('firn_dead_letters_total', '5m')})", "{{rule}}"),
                    ),
                    lines(
                        "Decided, not yet told",
                        Query("sum(firn_publish_queue_batches)", "batches"),
                        about="Committed, but Redis has not taken the outcomes yet.",
                    ),
                ),
            ),
            (
                "Servers",
                (
                    lines(
                        "Time to an answer, p95",
                        Query(quantile(0.95, "firn_server_ping_seconds", by="server"), "{{server}}"),
                        unit="s",
                        about="Of a small question, every few seconds.",
                    ),
                    lines(
                        "Memory of Redis",
                        Query("max(firn_redis_memory_bytes)", "used"),
                        Query("max(firn_redis_memory_max_bytes) > 0", "limit"),
                        unit="bytes",
                        about="At the limit it takes no more intents: nothing is evicted.",
                    ),
                    lines(
                        "Redis writes to disk",
                        Query("min by (file) (firn_redis_persisting)", "{{file}}"),
                        about="0: the last write failed, or there is no append-only file.",
                    ),
                ),
            ),
            (
                "By daemon",
                (
                    lines("Shards", Query("firn_owned_shards", "{{instance}}"), stacked=True),
                    lines("Lanes", Query("firn_lanes", "{{instance}}"), about="Tables that are being committed to."),
                    lines("Memory", Query('process_resident_memory_bytes{job="firn"}', "{{instance}}"), unit="bytes"),
                    lines(
                        "Processor",
                        Query('rate(process_cpu_seconds_total{job="firn"}[$__rate_interval])', "{{instance}}"),
                        unit="percentunit",
                    ),
                    lines(
                        "Buffered",
                        Query("firn_buffered_bytes", "{{instance}}"),
                        unit="bytes",
                        about="Payloads taken and not yet decided; bounded by limits.buffered-bytes-max.",
                    ),
                    lines(
                        "ZooKeeper sessions",
                        Query("increase(firn_zookeeper_session_losses_total[5m])", "lost by {{instance}}"),
                        Query("increase(firn_zookeeper_reconnects_total[5m])", "connected again by {{instance}}"),
                    ),
                ),
            ),
        ),
    )


def table() -> Dashboard:
    """Why is my commit slow or refused?"""
    return Dashboard(
        uid="firn-table",
        title="firn / Table",
        question="Why is my commit slow or refused?",
        per_table=True,
        rows=(
            (
                "Where the time goes",
                (
                    lines(
                        "Time by stage, p95",
                        Query(quantile(0.95, "firn_stage_seconds", by="stage"), "{{stage}}"),
                        unit="s",
                        about="wait: behind others. lock: another daemon works on the table. load: somebody else "
                        "committed. replay, write, swap, publish: the commit itself.",
                    ),
                    lines(
                        "Share of each stage",
                        Query("sum by (stage) (rate(firn_stage_seconds_sum[$__rate_interval]))", "{{stage}}"),
                        unit="percentunit",
                        stacked=True,
                        about="Seconds spent per second, over all lanes.",
                    ),
                    spread("Time to an outcome", "firn_intent_seconds"),
                ),
            ),
            (
                "What it waits for",
                (
                    lines(
                        "Waiting in lanes",
                        Query("sum(firn_queued_intents)", "of all tables"),
                        Query('firn_table_queued_intents{table=~"$table"}', "{{table}}"),
                        about="Tables for which ten or more wait are named.",
                    ),
                    lines(
                        "Intents in a batch",
                        Query(
                            "sum(rate(firn_batch_intents_sum[$__rate_interval]))"
                            " / (sum(rate(firn_batch_intents_count[$__rate_interval])) > 0)",
                            "average",
                        ),
                        Query(f"clamp_min({quantile(0.99, 'firn_batch_intents')}, 1)", "p99"),
                        about="More waiting makes larger batches, not longer waits.",
                    ),
                    lines(
                        "The lock, p95",
                        Query(quantile(0.95, "firn_lock_wait_seconds"), "waited for"),
                        Query(quantile(0.95, "firn_lock_hold_seconds"), "held"),
                        unit="s",
                        about="Held for long is well while nobody waits: it is kept between batches.",
                    ),
                ),
            ),
            (
                "What a commit carries, of the largest tables",
                (
                    lines("Snapshots", Query('firn_table_snapshots{table=~"$table"}', "{{table}}")),
                    lines("Manifests of main", Query('firn_table_manifests{table=~"$table"}', "{{table}}")),
                    lines(
                        "Metadata file", Query('firn_table_metadata_bytes{table=~"$table"}', "{{table}}"), unit="bytes"
                    ),
                ),
            ),
            (
                "Refused",
                (
                    lines(
                        "By rule",
                        Query("sum by (rule) (rate(firn_conflicts_total[$__rate_interval]))", "{{rule}}"),
                        unit="ops",
                        stacked=True,
                    ),
                    lines(
                        "By operation",
                        Query(
                            'sum by (operation) (rate(firn_intents_total{outcome="rejected"}[$__rate_interval]))',
                            "{{operation}}",
                        ),
                        unit="ops",
                        stacked=True,
                    ),
                    lines(
                        "Maintenance waited",
                        *quantiles("firn_maintenance_wait_seconds"),
                        unit="s",
                        about="Maintenance yields to ingest, for a bounded time.",
                    ),
                ),
            ),
        ),
    )


def conflicts() -> Dashboard:
    """Who fights whom?"""
    refused = happened("firn_conflicts_total", "1h")
    return Dashboard(
        uid="firn-conflicts",
        title="firn / Conflicts",
        question="Who fights whom?",
        rows=(
            (
                "Now",
                (
                    number("Rejected, last hour", f"round(sum{refused}) or vector(0)"),
                    number(
                        "Share rejected",
                        f"{REJECTED} / ({COMMITTED} + {REJECTED})",
                        unit="percentunit",
                        warn=0.1,
                        bad=0.3,
                    ),
                    number(
                        "Replayed batches, last hour",
                        "round(sum(increase(firn_replays_total[1h])))",
                        about="Another commit came first; the batch was replayed and nobody noticed.",
                    ),
                    number(
                        "Dead letters, last hour",
                        f"round(sum{happened('firn_dead_letters_total', '1h')}) or vector(0)",
                        warn=1,
                        about="What was no intent, or wrong in itself: `firn dead-letters`.",
                    ),
                ),
            ),
            (
                "Who against whom",
                (
                    listing(
                        "Operation against operation, last hour",
                        f"sort_desc(round(sum by (operation, against, rule) {refused}) > 0)",
                        ("operation", "lost"),
                        ("against", "came first"),
                        ("rule", "rule"),
                        about="`firn conflicts` names the writers. Against none: no commit was in the way.",
                    ),
                    listing(
                        "By rule, last hour",
                        f"sort_desc(round(sum by (rule) {refused}) > 0)",
                        ("rule", "rule"),
                        about="docs/replay.md says what each rule protects.",
                    ),
                ),
            ),
            (
                "Over time",
                (
                    lines(
                        "By rule",
                        Query("sum by (rule) (rate(firn_conflicts_total[$__rate_interval]))", "{{rule}}"),
                        unit="ops",
                        stacked=True,
                    ),
                    lines(
                        "By operation that lost",
                        Query("sum by (operation) (rate(firn_conflicts_total[$__rate_interval]))", "{{operation}}"),
                        unit="ops",
                        stacked=True,
                    ),
                    lines(
                        "By operation that came first",
                        Query("sum by (against) (rate(firn_conflicts_total[$__rate_interval]))", "{{against}}"),
                        unit="ops",
                        stacked=True,
                    ),
                ),
            ),
        ),
    )


def capacity() -> Dashboard:
    """What grows?"""
    return Dashboard(
        uid="firn-capacity",
        title="firn / Capacity",
        question="What grows?",
        rows=(
            (
                "Load",
                (
                    lines(
                        "Intents by operation",
                        Query("sum by (operation) (rate(firn_intents_total[$__rate_interval]))", "{{operation}}"),
                        unit="ops",
                        stacked=True,
                    ),
                    lines(
                        "Swaps a second",
                        Query(SWAPS, "won"),
                        unit="ops",
                        about="Each is one ZooKeeper multi.",
                    ),
                    lines(
                        "Intents a swap",
                        Query(
                            f"({COMMITTED} + {REJECTED}) / {SWAPS}",
                            "intents",
                        ),
                        about="Group commit: grows with the load, so that swaps do not.",
                    ),
                ),
            ),
            (
                "Storage",
                (
                    lines(
                        "Written a second",
                        Query("sum by (kind) (rate(firn_written_bytes_total[$__rate_interval]))", "{{kind}}"),
                        unit="Bps",
                        stacked=True,
                    ),
                    lines(
                        "Size of a file",
                        Query(
                            "sum by (kind) (rate(firn_written_bytes_total[$__rate_interval]))"
                            " / (sum by (kind) (rate(firn_written_files_total[$__rate_interval])) > 0)",
                            "{{kind}}",
                        ),
                        unit="bytes",
                        about="On average. A growing manifest list or metadata file is written with every swap.",
                    ),
                    lines(
                        "Journal, last day",
                        Query('sum(increase(firn_written_bytes_total{kind="journal"}[1d]))', "bytes"),
                        unit="bytes",
                    ),
                ),
            ),
            (
                "Memory",
                (
                    lines(
                        "Of daemons", Query('process_resident_memory_bytes{job="firn"}', "{{instance}}"), unit="bytes"
                    ),
                    lines(
                        "Of Redis",
                        Query("max(firn_redis_memory_bytes)", "used"),
                        Query("max(firn_redis_memory_max_bytes) > 0", "limit"),
                        unit="bytes",
                        about="At the limit it takes no more intents: nothing is evicted.",
                    ),
                    lines(
                        "Manifests found in memory",
                        Query(
                            f"{HITS} / ({HITS} + sum(rate(firn_cache_misses_total[$__rate_interval])))",
                            "share",
                        ),
                        unit="percentunit",
                    ),
                ),
            ),
            (
                "Largest tables",
                (
                    bars(
                        "Metadata file",
                        Query("topk(10, max by (table) (firn_table_metadata_bytes))", "{{table}}"),
                        unit="bytes",
                        about="Written with every swap: expire snapshots when it is large.",
                    ),
                    bars("Snapshots", Query("topk(10, max by (table) (firn_table_snapshots))", "{{table}}")),
                    bars(
                        "Manifests",
                        Query("topk(10, max by (table) (firn_table_manifests))", "{{table}}"),
                        about="Of main: rewrite manifests when there are many small ones.",
                    ),
                ),
            ),
            (
                "Processes",
                (
                    lines(
                        "Processor",
                        Query('rate(process_cpu_seconds_total{job="firn"}[$__rate_interval])', "{{instance}}"),
                        unit="percentunit",
                        about="One core each: near 100 % it is time for another daemon.",
                    ),
                    lines("Open files", Query('process_open_fds{job="firn"}', "{{instance}}")),
                    lines(
                        "Buffered",
                        Query("firn_buffered_bytes", "{{instance}}"),
                        unit="bytes",
                        about="Payloads taken and not yet decided; bounded by limits.buffered-bytes-max.",
                    ),
                ),
            ),
        ),
    )


def built(described: Dashboard) -> str:
    """The dashboard as Grafana's JSON."""
    builder = (
        dashboard.Dashboard(described.title)
        .uid(described.uid)
        .description(described.question)
        .tags(["firn"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(dashboard.DashboardLink("firn").type(DashboardLinkType.DASHBOARDS).tags(["firn"]).as_dropdown(False))  # noqa: FBT003 - the library's
    )
    if described.per_table:
        names = dashboard.QueryVariable("table").label("Table").datasource(SOURCE).multi(True).include_all(True)  # noqa: FBT003 - the library's
        builder = builder.with_variable(names.query("label_values(firn_table_snapshots, table)"))
    for title, panels in described.rows:
        builder = builder.with_row(dashboard.Row(title))
        for panel in panels:
            builder = builder.with_panel(panel)
    return JSONEncoder(sort_keys=True, indent=1).encode(builder.build()) + "\n"


DASHBOARDS: Final = (fleet, table, conflicts, capacity)


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for described in DASHBOARDS:
        (FOLDER / f"{described.__name__}.json").write_text(built(described()), encoding="utf-8")


if __name__ == "__main__":
    main()
