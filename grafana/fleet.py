"""The dashboard *Fleet*: is it healthy?"""

from __future__ import annotations

from grafana.dashboard import Dashboard
from grafana.panels import Query, lines, listing, number
from grafana.queries import COMMITTED, CONFLICTS, MISTAKES, REPEATED, happened, quantile, quantiles


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
                    number(
                        "Paused tables",
                        "max(firn_tables_paused)",
                        warn=1,
                        about="Their intents wait until `firn resume`. `firn status` says who paused them.",
                    ),
                    number(
                        "Entries lost",
                        f"round(sum{happened('firn_lost_entries_total', '15m')})",
                        bad=1,
                        about="Removed from the streams before they were decided, by somebody, in 15 minutes.",
                    ),
                    number(
                        "Redis emptied",
                        f"round(sum{happened('firn_queue_emptied_total', '1h')})",
                        bad=1,
                        about="Times in an hour that daemons found it without what it had before.",
                    ),
                    number(
                        "Dead letters, an hour",
                        f"round(sum{happened('firn_dead_letters_total', '1h')}) or vector(0)",
                        warn=1,
                        about="Set aside for people: `firn dead-letters` lists them.",
                    ),
                    number(
                        "Outcomes stay in Redis",
                        "min(firn_outcomes_kept_seconds)",
                        unit="s",
                        about="How long, at least: a day, or less where very many are told. Journals keep all.",
                    ),
                    number(
                        "Versions",
                        "count(count by (version) (firn_build_info))",
                        warn=2,
                        about="Of daemons. More than one: an upgrade is under way, or was not finished.",
                    ),
                    number(
                        "Unanswered questions",
                        "round(sum(increase(firn_server_ping_failures_total[5m])))",
                        warn=1,
                        about="To Redis and ZooKeeper, small ones, in five minutes.",
                    ),
                    number(
                        "Locks lost",
                        "round(sum(increase(firn_lock_losses_total[5m])))",
                        warn=1,
                        about="With their session, in five minutes: by pauses of a machine, or of ZooKeeper.",
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
                        Query(CONFLICTS, "rejected: conflicts"),
                        Query(MISTAKES, "rejected: mistakes"),
                        Query(REPEATED, "answered again"),
                        unit="ops",
                        about="Mistakes: what only their writer can mend. Answered again: submitted once more after "
                        "it had been decided.",
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
                        Query("sum(firn_held_back_intents)", "of these held back"),
                        Query("sum(firn_paused_intents)", "of these paused"),
                        about="Held back: their table's lane is full. Paused: somebody paused their table.",
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
                    lines(
                        "Store trouble",
                        Query("sum by (store) (firn_store_trouble)", "{{store}}"),
                        about="Causes why a store refuses a daemon or does not answer it; `firn status` names them.",
                    ),
                    lines(
                        "Streams edited by others",
                        Query(f"round(sum by (kind) {happened('firn_stream_interferences_total', '5m')})", "{{kind}}"),
                        about="Somebody else works on intent streams or their group.",
                    ),
                    lines(
                        "Entries read again",
                        Query(f"round(sum {happened('firn_reclaimed_entries_total', '5m')})", "entries"),
                        about="They stood in a stream without an outcome, and nobody would have read them.",
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
