"""Make the dashboards in ``grafana/dashboards/`` from the modules beside this one, and dashboards and alerts as
objects of Kubernetes: ``make dashboards``.

Four of them, each for one question: *Fleet* (is it healthy?), *Table* (why is my commit slow or refused?), *Conflicts*
(who fights whom?), *Capacity* (what grows?).
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

from grafana.capacity import capacity
from grafana.conflicts import conflicts
from grafana.dashboard import built
from grafana.fleet import fleet
from grafana.table import table

FOLDER: Final = Path(__file__).parent / "dashboards"

DASHBOARDS: Final = (fleet, table, conflicts, capacity)

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
RULES: Final = DEPLOY / "prometheus" / "rules" / "firn.yml"
RULE_OBJECT: Final = DEPLOY / "kubernetes" / "monitoring" / "prometheus-rule.yaml"

DASHBOARD_OBJECT: Final = DEPLOY / "kubernetes" / "monitoring" / "dashboards.yaml"

DASHBOARD_HEAD: Final = """\
# `make dashboards` makes it of grafana/dashboards. The sidecar of Grafana's chart loads config maps with this label.
apiVersion: v1
kind: ConfigMap
metadata:
  name: firn-dashboards
  labels:
    grafana_dashboard: "1"
data:
"""

RULE_HEAD: Final = """\
# `make dashboards` makes it of deploy/prometheus/rules/firn.yml. A Prometheus that chooses its rules by a label
# (ruleSelector, often `release`) wants that label here: add it in an overlay.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: firn
spec:
"""


def rule_object() -> str:
    """Recording rules and alerts for Prometheus' operator: the file that Prometheus reads itself, as an object."""
    return RULE_HEAD + textwrap.indent(RULES.read_text(encoding="utf-8"), "  ")


def dashboard_object() -> str:
    """Return the dashboards as a config map, each file a block of text."""
    files = (
        f"  firn-{described.__name__}.json: |\n{textwrap.indent(built(described()), '    ')}"
        for described in DASHBOARDS
    )
    return DASHBOARD_HEAD + "".join(files)


def main() -> None:
    """Write all of them."""
    RULE_OBJECT.write_text(rule_object(), encoding="utf-8")
    DASHBOARD_OBJECT.write_text(dashboard_object(), encoding="utf-8")
    FOLDER.mkdir(exist_ok=True)
    for described in DASHBOARDS:
        (FOLDER / f"{described.__name__}.json").write_text(built(described()), encoding="utf-8")


if __name__ == "__main__":
    main()
