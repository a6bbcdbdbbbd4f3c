"""The dashboard *Table*: why is my commit slow or refused?"""

from __future__ import annotations

from grafana.dashboard import Dashboard
from grafana.panels import Query, lines, spread
from grafana.queries import quantile, quantiles


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
                        about="A lock held for long is no fault while nobody waits: it is kept between batches.",
                    ),
                ),
            ),
            (
                "What a commit carries, of the largest tables",
                (
                    lines("Snapshots", Query('firn_table_snapshots{table=~"$table"}', "{{table}}"), width=6),
                    lines("Manifests of main", Query('firn_table_manifests{table=~"$table"}', "{{table}}"), width=6),
                    lines(
                        "History",
                        Query(
                            'firn_table_history_seconds{table=~"$table", by="snapshot"}', "{{table}}, oldest snapshot"
                        ),
                        Query('firn_table_history_seconds{table=~"$table", by="time"}', "{{table}}, without a gap"),
                        unit="s",
                        about="How far back a table can be read: to its oldest snapshot, and as far as no snapshot of "
                        "main is missing.",
                        width=6,
                    ),
                    lines(
                        "Metadata file",
                        Query('firn_table_metadata_bytes{table=~"$table"}', "{{table}}"),
                        unit="bytes",
                        width=6,
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
