"""The Helm chart: linted and rendered by a real helm for a table of values, and the plain manifests that it makes.

Without helm the plain manifests are still checked, against Kubernetes' schemas and each other.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from firn.coordinator.config import Settings
from tests.deploy.manifests import Manifests
from tests.deploy.prometheus import RULES
from tests.deploy.servers import DEPLOY
from tests.deploy.test_monitoring import DASHBOARDS, RUNBOOK_BASE

CHART: Final = DEPLOY / "helm" / "firn"
PLAIN: Final = DEPLOY / "kubernetes"
VALUES: Final[dict[str, Any]] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text())
ON: Final = {"enabled": True}
OFF: Final = {"enabled": False}

MONITORED: Final = {"monitoring": {"serviceMonitor": ON, "prometheusRule": ON, "dashboards": ON}}
EVERYTHING: Final[dict[str, Any]] = {
    "image": {"repository": "registry.example:5000/firn", "digest": f"sha256:{'0' * 64}", "pullSecrets": ["pull"]},
    "config": {
        "zookeeper": {"hosts": "zk-0:2281, z-1:2281,[::1]:2282", "tls": True, "tls-ca": "/run/secrets/firn-tls/ca.crt"},
        "warehouse": {
            "location": "/warehouse/tables",
            "options": {"s3": {"endpoint": "http://minio:9000", "allow_http": "true"}},
        },
        "daemon": {"drain-s": 45.5, "shards": 64},
        "http": {"port": 9191, "prometheus-url": "http://prometheus.monitoring:9090/p"},
        "limits": {"manifest-cache-bytes-max": 134_217_728},
        "log": {"level": "debug"},
    },
    "secret": {
        "name": "own", "create": True,
        "values": {"redis-url": "rediss://r:6380/0?x=%s\n", "zookeeper-auth": 'firn:"quoted"', "http-token": "t"},
    },
    "tls": {"secretName": "certificates"},
    "warehouse": {"persistentVolumeClaim": "shared"},
    "extraEnv": [{"name": "AWS_ACCESS_KEY_ID", "value": "key"}],
    "extraEnvFrom": [{"secretRef": {"name": "object-store"}}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/firn"}},
    "service": {"annotations": {"a": "b"}},
    "podAnnotations": {"c": "d"}, "podLabels": {"team": "lake"},
    "priorityClassName": "high", "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "lake", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "networkPolicy": {"redisPorts": [7000], "extraEgressPorts": [3128], "extraEgress": [{"to": [{"podSelector": {}}]}]},
    "maintenance": {"schedule": "0 * * * *", "args": ["maintain", "run", "--all"]},
    "monitoring": {
        "cluster": "north", "runbookBase": "https://firn.example.com/",
        "serviceMonitor": {"enabled": True, "labels": {"release": "p"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "p"}},
        "dashboards": {"enabled": True, "annotations": {"folder": "lake"}},
    },
}  # fmt: skip
LITTLE: Final[dict[str, Any]] = {
    "replicas": 1, "podDisruptionBudget": OFF, "networkPolicy": OFF, "maintenance": OFF,
    "serviceAccount": {"create": False}, "secret": {"files": {"FIRN_ZOOKEEPER_AUTH_FILE": None}},
}  # fmt: skip
VARIANTS: Final[dict[str, tuple[dict[str, Any], frozenset[str]]]] = {
    "as it is": ({}, frozenset({"firn"})),
    "monitored": (MONITORED, frozenset({"firn"})),
    "everything": (EVERYTHING, frozenset({"certificates"})),
    "little": (LITTLE, frozenset({"firn"})),
}
"""Values, and the secrets that somebody makes beside the chart."""


def helm(*arguments: str | Path, code: int = 0) -> str:
    """What helm prints: manifests, or on its standard error why not."""
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is not installed: .ci/run builds it with go install helm.sh/helm/v3/cmd/helm@v3.22.0")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def rendered(folder: Path, values: dict[str, Any], *, release: str = "firn", chart: Path = CHART) -> Manifests:
    """What a release is made of."""
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    text = helm(
        "template", release, chart, "--namespace", "lake", "--kube-version", "1.33.0", "-f", folder / "values.yaml"
    )
    return Manifests([document for document in yaml.safe_load_all(text) if document])


def plain(*names: str) -> Manifests:
    """The manifests for those who have no helm."""
    return Manifests([
        document for name in names for document in yaml.safe_load_all((PLAIN / name).read_text()) if document
    ])  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_helm_renders_objects_that_fit_each_other(tmp_path: Path, name: str) -> None:
    values, secrets = VARIANTS[name]
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    helm("lint", "--strict", CHART, "-f", tmp_path / "values.yaml")
    rendered(tmp_path, values).check(tmp_path, secrets=secrets)


def test_values_reach_the_objects(tmp_path: Path) -> None:
    found = rendered(tmp_path, EVERYTHING)
    settings = found.settings(tmp_path)
    assert settings.zookeeper.hosts == EVERYTHING["config"]["zookeeper"]["hosts"]
    assert (settings.daemon.shards, settings.daemon.drain_s, settings.http.port) == (64, 45.5, 9191)
    assert settings.limits.manifest_cache_bytes_max == 134_217_728
    assert settings.log.level == "debug"
    assert tomllib.loads(found.settings_text)["warehouse"]["options"]["s3"] == {
        "region": "eu-central-1", "endpoint": "http://minio:9000", "allow_http": "true"
    }  # fmt: skip
    assert found.egress_ports() == {7000, 2281, 2282, 9000, 9090, 3128}
    assert found.one("Secret")["stringData"] == EVERYTHING["secret"]["values"]
    for labels, pod in found.pods:
        (container,) = pod["containers"]
        assert container["image"] == f"registry.example:5000/firn@sha256:{'0' * 64}"
        assert {"name": "AWS_ACCESS_KEY_ID", "value": "key"} in container["env"]
        assert {"name": "warehouse", "mountPath": "/warehouse"} in container["volumeMounts"]
        assert labels["team"] == "lake"
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
    (endpoint,) = found.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "cluster", "replacement": "north"}]
    assert endpoint["authorization"]["credentials"] == {"name": "own", "key": "http-token"}


def test_the_usual_ports_of_servers_are_open_without_being_named(tmp_path: Path) -> None:
    found = rendered(tmp_path, {"config": {"zookeeper": {"hosts": "zk"}}})
    assert found.egress_ports() == {6379, 6380, 26379, 2181, 443}


@pytest.mark.parametrize("base", ["", "https://firn.example.com/", "https://firn.example.com/x"])
def test_the_chart_has_the_alerts_and_dashboards_of_the_repository(tmp_path: Path, base: str) -> None:
    values = {"monitoring": {**MONITORED["monitoring"], "runbookBase": base}}
    found = rendered(tmp_path, values)
    runbooks = base.rstrip("/") or "http://firn.lake:8080"
    expected = RULES.read_text().replace(RUNBOOK_BASE, f"{runbooks}/")
    assert found.one("PrometheusRule")["spec"] == yaml.safe_load(expected)
    (boards,) = [m["data"] for m in found.all("ConfigMap") if m["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert {name: json.loads(text) for name, text in boards.items()} == {
        f"firn-{path.name}": json.loads(path.read_text()) for path in DASHBOARDS
    }


def test_a_package_of_the_chart_has_all_of_it(tmp_path: Path) -> None:
    """Alerts and dashboards are links to where the repository keeps them."""
    helm("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("firn-*.tgz")
    of_package = rendered(tmp_path, MONITORED, chart=package)
    assert of_package.documents == rendered(tmp_path, MONITORED).documents


def test_two_releases_in_one_namespace_have_nothing_in_common(tmp_path: Path) -> None:
    first, second = (rendered(tmp_path, MONITORED, release=release) for release in ("north", "south"))
    names = [{(d["kind"], d["metadata"]["name"]) for d in found.documents} for found in (first, second)]
    assert not names[0] & names[1]
    selector = first.one("Service")["spec"]["selector"]
    assert not any(selector.items() <= labels.items() for labels, _ in second.pods)
    clusters = [
        found.one("ServiceMonitor")["spec"]["endpoints"][0]["relabelings"][0]["replacement"]
        for found in (first, second)
    ]
    assert clusters == ["lake/north-firn", "lake/south-firn"]


def test_a_change_of_settings_rolls_the_daemons(tmp_path: Path) -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = rendered(tmp_path, values).one("StatefulSet")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({}) == checksum({"replicas": 3}) != checksum({"config": {"log": {"level": "debug"}}})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"config": {"http": {"token": "x"}}}, "/config/http/token"),
        ({"secret": {"create": True}}, "secret.values.http-token is missing"),
    ],
)
def test_helm_refuses_values_that_would_not_work(tmp_path: Path, values: dict[str, Any], named: str) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    said = helm("template", "firn", CHART, "--kube-version", "1.33.0", "-f", tmp_path / "values.yaml", code=1)
    assert named in said


def test_the_notes_name_the_secret_that_is_missing(tmp_path: Path) -> None:
    """Helm shows them when it installs; here they are rendered as an object's data, as no cluster is there."""
    chart = tmp_path / "firn"
    shutil.copytree(CHART, chart)
    notes = chart / "templates" / "NOTES.txt"
    (chart / "templates" / "notes.yaml").write_text(
        f'{{{{ define "notes" }}}}{notes.read_text()}{{{{ end }}}}'
        'kind: ConfigMap\ndata: {notes: {{ include "notes" . | toJson }}}\n'
    )
    said = rendered(tmp_path, {}, chart=chart).documents
    (text,) = [document["data"]["notes"] for document in said if "notes" in document.get("data", {})]
    assert "once the secret firn is there, with the keys http-token redis-url zookeeper-auth." in text
    assert "kubectl -n lake exec firn-0 -- firn doctor" in text


# -- without helm ------------------------------------------------------------------------------------------------------


def test_the_plain_manifests_are_what_the_chart_makes(tmp_path: Path) -> None:
    """`make manifests` after every change of the chart or of a rule."""
    helm("version")
    subprocess.run(["sh", str(PLAIN / "render.sh"), str(tmp_path)], check=True, capture_output=True)
    for made in sorted(tmp_path.iterdir()):
        assert (PLAIN / made.name).read_text() == made.read_text(), f"{made.name}: make manifests"


def test_the_plain_manifests_fit_each_other(tmp_path: Path) -> None:
    plain("firn.yaml", "monitoring.yaml").check(tmp_path)


def test_the_plain_manifests_have_the_rules_of_the_repository() -> None:
    expected = RULES.read_text().replace(RUNBOOK_BASE, "http://firn.firn:8080/")
    assert plain("monitoring.yaml").one("PrometheusRule")["spec"] == yaml.safe_load(expected), "make manifests"


def test_the_plain_manifests_are_for_the_shipped_values() -> None:
    settings = tomllib.loads(plain("firn.yaml").settings_text)
    assert {name: table for name, table in settings.items() if table} == VALUES["config"], "make manifests"


def test_the_schema_is_one_and_takes_the_shipped_values() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(VALUES)
    assert set(VALUES) == set(SCHEMA["properties"]) - {"global"}


REFUSED: Final = [
    ({"replicaCount": 2}, "'replicaCount' was unexpected"),
    ({"replicas": -1}, "$.replicas"),
    ({"image": {"tag": "latest"}}, "$.image.tag"),
    ({"image": {"digest": "0.1.0"}}, "$.image.digest"),
    ({"config": {"http": {"token": "x"}}}, "$.config.http.token"),
    ({"config": {"redis": {"url": "redis://r"}}}, "$.config.redis.url"),
    ({"config": {"zookeeper": {"auth": "a:b"}}}, "$.config.zookeeper.auth"),
    ({"config": {"zookeeper": {"tls-key-password": "a"}}}, "$.config.zookeeper['tls-key-password']"),
    ({"config": {"zookeeper": {"hosts": ""}}}, "$.config.zookeeper.hosts"),
    ({"config": {"zookeper": {"hosts": "zk"}}}, "'zookeper' was unexpected"),
    ({"config": {"http": {"host": "127.0.0.1"}}}, "$.config.http.host"),
    ({"config": {"http": {"port": "http"}}}, "$.config.http.port"),
    ({"networkPolicy": {"redisPorts": [0]}}, "$.networkPolicy.redisPorts[0]"),
    ({"networkPolicy": {"ingressFrom": []}}, "$.networkPolicy.ingressFrom"),
    ({"secret": {"files": {"REDIS": "redis-url"}}}, "REDIS"),
    ({"warehouse": {"mountPath": "warehouse"}}, "$.warehouse.mountPath"),
    ({"monitoring": {"runbookBase": "firn.example.com"}}, "$.monitoring.runbookBase"),
]
"""Values, and what of them the schema's error names."""


def merged(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Values with others laid over them, as helm does it."""
    return values | {
        name: merged(values[name], value) if isinstance(value, dict) and isinstance(values.get(name), dict) else value
        for name, value in others.items()
    }


@pytest.mark.parametrize(("values", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_the_schema_refuses_values_that_would_not_work(values: dict[str, Any], named: str) -> None:
    (error,) = jsonschema.Draft7Validator(SCHEMA).iter_errors(merged(VALUES, values))
    assert named in f"{error.json_path} {error.message}"


@pytest.mark.parametrize("name", VARIANTS)
def test_the_schema_takes_values_that_work(name: str) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(merged(VALUES, VARIANTS[name][0]))


def test_the_schema_knows_every_section_of_the_settings() -> None:
    assert set(SCHEMA["properties"]["config"]["properties"]) == set(Settings.__struct_fields__)


def test_maintenance_is_the_same_as_under_systemd() -> None:
    units = {name: (DEPLOY / "systemd" / f"firn-maintain.{name}").read_text() for name in ("service", "timer")}
    values = VALUES["maintenance"]
    minute, hour, *_ = values["schedule"].split()
    assert f"ExecStart=/opt/firn/bin/firn {' '.join(values['args'])}\n" in units["service"]
    assert f"OnCalendar=*-*-* {int(hour):02}:{int(minute):02}\n" in units["timer"]
    assert f"TimeoutStartSec={values['activeDeadlineSeconds'] // 3_600}h\n" in units["service"]
    assert f"MemoryMax={values['resources']['limits']['memory'].removesuffix('i')}\n" in units["service"]


def test_the_chart_is_of_this_version() -> None:
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_the_chart_copies_no_alert_and_no_dashboard() -> None:
    assert (CHART / "files" / "rules").resolve() == RULES.parent
    assert (CHART / "files" / "dashboards").resolve() == DASHBOARDS[0].parent
