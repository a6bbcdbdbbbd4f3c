"""PromQL that more than one panel asks: rates, quantiles of histograms, and what has happened in a window."""

from __future__ import annotations

from typing import Final

from grafana.panels import Query

COMMITTED: Final = 'sum(rate(firn_intents_total{outcome="committed"}[$__rate_interval]))'
REJECTED: Final = 'sum(rate(firn_intents_total{outcome="rejected"}[$__rate_interval]))'

CONFLICTS: Final = 'sum(rate(firn_conflicts_total{hint!="fix"}[$__rate_interval]))'
"""What was rejected because of what came first."""

MISTAKES: Final = 'sum(rate(firn_conflicts_total{hint="fix"}[$__rate_interval]))'
"""What was rejected because only its writer can mend it."""

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
