"""The dashboard *Conflicts*: who fights whom?"""

from __future__ import annotations

from grafana.dashboard import Dashboard
from grafana.panels import Query, lines, listing, number
from grafana.queries import happened


def conflicts() -> Dashboard:
    """Who fights whom?"""
    refused = happened("firn_conflicts_total", "1h")
    conflicting = happened('firn_conflicts_total{hint!="fix"}', "1h")
    mistaken = happened('firn_conflicts_total{hint="fix"}', "1h")
    of_all = f"clamp_min(sum{happened('firn_intents_total', '1h')}, 1)"
    return Dashboard(
        uid="firn-conflicts",
        title="firn / Conflicts",
        question="Who fights whom?",
        rows=(
            (
                "Now",
                (
                    number(
                        "Share of conflicts, last hour",
                        f"(sum{conflicting} or vector(0)) / {of_all}",
                        unit="percentunit",
                        warn=0.1,
                        bad=0.3,
                        about="Of all intents, those that met what came first: a writer's work was lost.",
                    ),
                    number(
                        "Share of mistakes, last hour",
                        f"(sum{mistaken} or vector(0)) / {of_all}",
                        unit="percentunit",
                        about="Of all intents, those that only their writer can mend: typos, tables that exist.",
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
                        about="Entries that hold no intent, and intents that firn failed on: `firn dead-letters`.",
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
                        f"sort_desc(round(sum by (rule, hint) {refused}) > 0)",
                        ("rule", "rule"),
                        ("hint", "its writer can"),
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
