"""Kubernetes' objects of one deployment, and whether they fit each other: what a cluster would say late, or never."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import kubernetes_validate

from firn.coordinator.config import Settings, load_settings
from firn.coordinator.daemon import GIVE_UP_S

KUBERNETES_VERSION: Final = "1.33"
CUSTOM: Final = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that Kubernetes itself has no schema for."""

Object = dict[str, Any]


class Manifests:
    """The objects of one deployment."""

    def __init__(self, documents: Sequence[Object]) -> None:
        self.documents = documents

    def all(self, kind: str) -> list[Object]:
        """Every object of a kind."""
        return [document for document in self.documents if document["kind"] == kind]

    def one(self, kind: str) -> Object:
        """The only object of a kind."""
        (found,) = self.all(kind)
        return found

    @property
    def pods(self) -> Iterator[tuple[Object, Object]]:
        """Labels and spec of every pod that is made: daemons first, maintenance."""
        for document in [*self.all("StatefulSet"), *self.all("CronJob")]:
            template = document["spec"].get("jobTemplate", document)["spec"]["template"]
            yield template["metadata"]["labels"], template["spec"]

    @property
    def settings_text(self) -> str:
        """The settings file that daemons are given."""
        (text,) = [m["data"]["firn.toml"] for m in self.all("ConfigMap") if "firn.toml" in m["data"]]
        return str(text)

    def settings(self, folder: Path) -> Settings:
        """What a daemon reads: the settings file and the variables of its pod, with a secret's files in `folder`."""
        (folder / "firn.toml").write_text(self.settings_text)
        variables = {v["name"]: v.get("value", "name") for v in self._daemon()["env"] if v["name"].startswith("FIRN_")}
        del variables["FIRN_CONFIG"]
        for name, value in variables.items():
            if name.endswith("_FILE"):
                secret = folder / Path(value).name
                secret.write_text("redis://r:6379/0" if "REDIS_URL" in name else "user:secret")
                variables[name] = str(secret)
        return load_settings(folder / "firn.toml", environment=variables)

    def _daemon(self) -> Object:
        (container,) = next(self.pods)[1]["containers"]
        return dict(container)

    def check(self, folder: Path, *, secrets: frozenset[str] = frozenset({"firn"})) -> None:
        """Fail where an object does not fit its schema or another one. `secrets` are those made beside the objects."""
        for document in self.documents:
            if document["kind"] not in CUSTOM:
                kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)
        self._check_selectors()
        self._check_names(secrets | {document["metadata"]["name"] for document in self.all("Secret")})
        for _, pod in self.pods:
            _check_rights(pod)
        self._check_daemon(self.settings(folder))

    def _check_selectors(self) -> None:
        daemon, *others = [labels for labels, _ in self.pods]
        stateful_set, service = self.one("StatefulSet"), self.one("Service")
        for selector in (
            stateful_set["spec"]["selector"]["matchLabels"],
            service["spec"]["selector"],
            *(budget["spec"]["selector"]["matchLabels"] for budget in self.all("PodDisruptionBudget")),
        ):
            assert selector.items() <= daemon.items()
            for maintenance in others:
                assert not selector.items() <= maintenance.items(), "maintenance is taken for a daemon"
        for policy in self.all("NetworkPolicy"):
            selector = policy["spec"]["podSelector"]["matchLabels"]
            assert all(selector.items() <= labels.items() for labels in (daemon, *others))
        for monitor in self.all("ServiceMonitor"):
            assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
            assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "firn", "rules ask for job=firn"
        assert stateful_set["spec"]["serviceName"] == service["metadata"]["name"]

    def _check_names(self, secrets: frozenset[str] | set[str]) -> None:
        known: Mapping[str, set[str]] = {
            "secret": set(secrets),
            "configMap": {document["metadata"]["name"] for document in self.all("ConfigMap")},
        }
        accounts = {document["metadata"]["name"] for document in self.all("ServiceAccount")} | {"default"}
        for _, pod in self.pods:
            assert pod["serviceAccountName"] in accounts
            assert not pod["enableServiceLinks"]
            for volume in pod["volumes"]:
                if "secret" in volume:
                    assert volume["secret"]["secretName"] in known["secret"], volume
                if "configMap" in volume:
                    assert volume["configMap"]["name"] in known["configMap"], volume
        for monitor in self.all("ServiceMonitor"):
            for endpoint in monitor["spec"]["endpoints"]:
                assert endpoint["authorization"]["credentials"]["name"] in secrets
        assert len({document["metadata"]["namespace"] for document in self.documents}) == 1
        assert all(len(document["metadata"]["name"]) <= 63 for document in self.documents)

    def _check_daemon(self, settings: Settings) -> None:
        container = self._daemon()
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports == {"http": settings.http.port}
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[name]["httpGet"]["port"] in ports
        (port,) = self.one("Service")["spec"]["ports"]
        assert (port["targetPort"], port["port"]) == ("http", settings.http.port)
        for policy in self.all("NetworkPolicy"):
            assert [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]] == ["http"]
        pod = self.one("StatefulSet")["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= settings.daemon.drain_s + GIVE_UP_S + 3
        assert settings.http.host == "0.0.0.0"
        assert tomllib.loads(self.settings_text)

    def egress_ports(self) -> set[int]:
        """Ports that the network policy lets daemons reach anywhere, but for names."""
        rules = self.one("NetworkPolicy")["spec"]["egress"]
        return {port["port"] for rule in rules if "to" not in rule for port in rule["ports"]} - {53}


def _check_rights(pod: Object) -> None:
    """Not root, with no right that is not needed, and with nothing mounted that is not there."""
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert {"requests", "limits"} <= set(container["resources"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    for variable in container["env"]:
        if variable["name"].endswith("_FILE"):
            assert any(variable["value"].startswith(f"{path}/") for path in mounts.values()), variable
