"""Two deployments in one Prometheus do not mix: rules and dashboards tell them apart by the label `cluster`."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from grafana.panels import of_cluster
from tests.deploy.programs import needed
from tests.deploy.prometheus import RULES
from tests.deploy.servers import DEPLOY
from tests.deploy.test_monitoring import DASHBOARDS, panels, rules

TRIED: Final = Path(__file__).parent / "rules" / "alerts_test.yml"
WELL: Final = "a healthy fleet raises nothing"
AGGREGATION: Final = re.compile(r"\b(?:sum|max|min|count|group|avg|topk)\b ?(?:by \(([^)]*)\))?")


def test_every_aggregation_of_a_rule_keeps_the_cluster() -> None:
    for rule in rules():
        for found in AGGREGATION.finditer(rule["expr"]):
            labels = (found.group(1) or "").split(", ")
            assert "cluster" in labels, f"{rule.get('alert', rule.get('record'))}: {found.group()}"


def test_every_query_in_the_text_of_an_alert_is_about_its_cluster() -> None:
    for rule in rules():
        text = json.dumps(rule.get("annotations", {}))
        assert text.count("query ") == text.count("$labels.cluster)"), rule["alert"]


def with_cluster(series: str, cluster: str) -> str:
    """The notation of a series with one more label."""
    return f'{series[:-1]}, cluster="{cluster}"}}'


def still(values: str) -> str:
    """A counter's values that have been the same for long; at the beginning of a test any but 0 are new ones."""
    return re.sub(r"^\d+(?=x)", "0", values)


def beside_one_that_is_well(test: dict[str, Any], well: list[dict[str, str]]) -> dict[str, Any]:
    """The same test with its series in the cluster *sick*, and beside them the same metrics of a healthy one."""
    tried = copy.deepcopy(test)
    names = {one["series"].partition("{")[0] for one in tried["input_series"]}
    for one in tried["input_series"]:
        one["series"] = with_cluster(one["series"], "sick")
    for one in well:
        name = one["series"].partition("{")[0]
        if name in names:
            values = still(one["values"]) if name.endswith("_total") else one["values"]
            tried["input_series"].append({"series": with_cluster(one["series"], "well"), "values": values})
    for expected in tried.get("alert_rule_test", []):
        for alert in expected["exp_alerts"]:
            alert["exp_labels"]["cluster"] = "sick"
    return tried


@pytest.mark.parametrize("interval", ["15s", "1m"])
def test_of_two_clusters_only_the_sick_one_alerts(tmp_path: Path, interval: str) -> None:
    """All that is tried on one deployment, tried again beside a second one that is well."""
    loaded = yaml.safe_load(TRIED.read_text())
    (well,) = [test["input_series"] for test in loaded["tests"] if test["name"] == WELL]
    loaded["tests"] = [
        beside_one_that_is_well(test, well)
        for test in loaded["tests"]
        if test["name"] != WELL
        and test["interval"] == interval
        and test["input_series"]
        and "cluster=" not in test["input_series"][0]["series"]
    ]
    assert len(loaded["tests"]) >= 4
    loaded |= {"rule_files": [str(RULES)], "evaluation_interval": interval}
    (tmp_path / "clusters.yml").write_text(yaml.safe_dump(loaded))
    done = subprocess.run(
        [needed("promtool"), "test", "rules", str(tmp_path / "clusters.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_names_the_tables_of_its_own_cluster_only(tmp_path: Path) -> None:
    troubles = {("north", "db.a"), ("south", "db.b")}
    expected = [
        {"labels": f'{{cluster="{cluster}"}}', "value": 1} for cluster, _ in sorted(troubles)
    ]  # fmt: skip
    runbook = "docs/runbooks/tables.md#firntablesstalled"
    tried = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15s",
        "tests": [{
            "interval": "15s",
            "input_series": [
                series
                for cluster, table in sorted(troubles)
                for series in (
                    {"series": f'firn_stalled_tables{{cluster="{cluster}"}}', "values": "1x20"},
                    {
                        "series": f'firn_table_trouble{{cluster="{cluster}", table="{table}", trouble="stalled"}}',
                        "values": "1x20",
                    },
                )
            ],
            "promql_expr_test": [{
                "expr": 'count by (cluster) (ALERTS{alertname="FirnTablesStalled", alertstate="firing"})',
                "eval_time": "3m", "exp_samples": expected,
            }],
            "alert_rule_test": [{
                "eval_time": "3m", "alertname": "FirnTablesStalled",
                "exp_alerts": [
                    {
                        "exp_labels": {"severity": "page", "cluster": cluster},
                        "exp_annotations": {
                            "summary": f"Tables that cannot be committed to: {table}",
                            "description": "What their batches need is refused, by the storage or by a server. "
                            "Their intents wait and are tried again.",
                            "runbook": runbook, "runbook_url": f"http://127.0.0.1:8080/{runbook}",
                        },
                    }
                    for cluster, table in sorted(troubles)
                ],
            }],
        }],
    }  # fmt: skip
    (tmp_path / "tables.yml").write_text(yaml.safe_dump(tried))
    done = subprocess.run(
        [needed("promtool"), "test", "rules", str(tmp_path / "tables.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_selector_of_a_dashboard_is_for_the_chosen_cluster() -> None:
    for place, title, expression in panels():
        for name, matchers in re.findall(r"\b((?:firn_|process_)\w+|up|ALERTS)\b(?:\{([^}]*)\})?", expression):
            assert 'cluster=~"$cluster"' in matchers, f"{place}, {title}: {name}"


def test_every_dashboard_lets_its_reader_choose_a_cluster() -> None:
    for path in DASHBOARDS:
        first, *others = json.loads(path.read_text())["templating"]["list"]
        assert (first["name"], first["query"]) == ("cluster", "label_values(firn_build_info, cluster)")
        # "All" is everything, the deployment whose series have no such label, too.
        assert (first["includeAll"], first["allValue"]) == (True, ".*")
        for other in others:
            assert 'cluster=~"$cluster"' in other["query"], f"{path.name}: {other['name']}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sum(firn_lag_intents)", 'sum(firn_lag_intents{cluster=~"$cluster"})'),
        ('up{job="firn"} == 1', 'up{job="firn", cluster=~"$cluster"} == 1'),
        (
            'sum by (shard) (rate(firn_a[5m]) unless up{x="y"} offset 5m)',
            'sum by (shard) (rate(firn_a{cluster=~"$cluster"}[5m]) unless up{x="y", cluster=~"$cluster"} offset 5m)',
        ),
        ("vector(0)", "vector(0)"),
    ],
)
def test_a_query_is_narrowed_to_a_cluster(expression: str, expected: str) -> None:
    assert of_cluster(expression) == expected


def test_what_compose_scrapes_has_a_cluster() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert {config["labels"]["cluster"] for job in jobs for config in job["static_configs"]} == {"firn"}


def test_one_cluster_without_daemons_silences_no_other() -> None:
    config = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yml").read_text())
    assert [rule["equal"] for rule in config["inhibit_rules"]] == [["cluster"]]
    assert "cluster" in config["route"]["group_by"]
