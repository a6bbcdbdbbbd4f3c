"""The dashboard *Capacity*: what grows?"""

from __future__ import annotations

from grafana.dashboard import Dashboard
from grafana.panels import Query, bars, lines
from grafana.queries import COMMITTED, HITS, REJECTED, SWAPS


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
                        "Free space of the warehouse",
                        Query("min(firn_warehouse_free_bytes) and max(firn_warehouse_size_bytes) > 0", "free"),
                        Query("max(firn_warehouse_size_bytes) > 0", "size"),
                        unit="bytes",
                        about="Of the file system that a local warehouse is on; object stores have no such number.",
                    ),
                    lines(
                        "Journal, last day",
                        Query('sum(increase(firn_written_bytes_total{kind="journal"}[1d]))', "bytes"),
                        unit="bytes",
                    ),
                    lines(
                        "Files a second",
                        Query("sum by (kind) (rate(firn_written_files_total[$__rate_interval]))", "{{kind}}"),
                        unit="ops",
                    ),
                    lines(
                        "Written for a swap",
                        Query(
                            "sum(rate(firn_written_bytes_total[$__rate_interval]))"
                            ' / sum(rate(firn_batches_total{result="won"}[$__rate_interval]) > 0)',
                            "bytes",
                        ),
                        unit="bytes",
                        about="It grows with snapshots and manifests; `firn maintain run` makes it small again.",
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
                        "Tables forgotten",
                        Query("sum(rate(firn_table_states_forgotten_total[$__rate_interval]))", "tables"),
                        unit="ops",
                        about="For want of room, and read anew by their next batch: `limits.table-states-bytes-max`.",
                    ),
                ),
            ),
        ),
    )
