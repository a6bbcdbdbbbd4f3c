"""What `deploy/` ships is well-formed: its files are checked against the schemas of those who will read them."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from firn.coordinator.config import load_settings
from firn.coordinator.daemon import GIVE_UP_S
from tests.deploy.prometheus import RULES
from tests.deploy.servers import DEPLOY, secrets_in

ROOT = DEPLOY.parent

EXPOSURE_MAX = 2.0
"""Of 10, as systemd rates what a service may do."""


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def test_compose_is_what_the_specification_says() -> None:
    schema = json.loads((Path(__file__).parent / "data" / "compose-spec.json").read_text())
    jsonschema.Draft7Validator(schema).validate(compose())


def test_compose_names_only_what_there_is() -> None:
    """A typo in a secret's or volume's name shows when the stack is started, which is late."""
    stack = compose()
    for name, service in stack["services"].items():
        assert set(service.get("secrets", [])) <= set(stack["secrets"]), name
        assert set(service.get("depends_on", [])) <= set(stack["services"]), name
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in stack["volumes"], mount


def test_compose_has_what_the_fleet_needs(secrets: Path) -> None:
    services = compose()["services"]
    assert {"redis", "zookeeper-1", "zookeeper-2", "zookeeper-3", "firn-a", "firn-b"} <= set(services)
    assert {"prometheus", "alertmanager", "grafana"} <= set(services)
    assert services["redis"]["user"] == "redis"
    assert {Path(secret["file"]).name for secret in compose()["secrets"].values()} == {
        p.name for p in secrets.iterdir()
    }
    for name, service in services.items():
        assert service["logging"]["options"]["max-size"], f"{name}'s log is not rotated"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), f"{name} is open to others"


def test_images_are_named_with_their_version() -> None:
    images = [service["image"] for service in compose()["services"].values()]
    images += re.findall(r"^FROM (\S+)", (DEPLOY / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    for image in images:
        assert re.search(r":v?\d", image), image
        assert not image.endswith(":latest"), image


def test_the_dockerfile_follows_good_practice() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run(
        [str(hadolint), str(DEPLOY / "docker" / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout


def test_the_dockerfile_copies_what_there_is() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    assert re.search(r"^USER (?!0|root)", text, re.MULTILINE)
    assert "HEALTHCHECK" in text


def test_the_image_installs_what_the_locks_agree_on() -> None:
    def pins(path: Path) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(), re.MULTILINE))

    whole, image = pins(ROOT / "requirements.lock"), pins(DEPLOY / "docker" / "requirements.lock")
    assert image.items() <= whole.items()
    assert {"kazoo", "redis", "msgspec", "fastavro", "structlog", "prometheus-client"} <= set(image)
    assert not {"pyspark", "pytest", "ruff"} & set(image)


def test_alerts_are_sent_to_receivers_that_there_are() -> None:
    config = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yml").read_text())
    receivers = {receiver["name"] for receiver in config["receivers"]}
    routes = [config["route"], *config["route"]["routes"]]
    assert {route["receiver"] for route in routes} == receivers
    alerts = {rule.get("alert") for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
    matchers = [m for route in config["route"]["routes"] for m in route["matchers"]]
    matchers += [m for rule in config["inhibit_rules"] for m in (*rule["source_matchers"], *rule["target_matchers"])]
    named = {name for matcher in matchers for name in re.findall(r"Firn\w+", matcher)}
    assert named <= alerts
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    ((target,),) = (c["targets"] for a in prometheus["alerting"]["alertmanagers"] for c in a["static_configs"])
    assert target.partition(":")[0] in compose()["services"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_timer(tmp_path: Path) -> None:
    for name in ("firn-maintain.timer", "firn-maintain.service"):
        (tmp_path / name).write_text((DEPLOY / "systemd" / name).read_text())
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "firn-maintain.timer")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", ["firn.service", "firn-maintain.service"])
def test_systemd_takes_the_unit_and_rates_it_safe(tmp_path: Path, name: str) -> None:
    unit = tmp_path / name
    text = (DEPLOY / "systemd" / name).read_text()
    unit.write_text(text.replace("/opt/firn/bin/firn", "/bin/true").replace("file:///opt/firn/docs", "man:true(1)"))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True, check=True
    )
    level = re.search(r"Overall exposure level .*: ([\d.]+)", rated.stdout)
    assert level is not None
    assert float(level.group(1)) <= EXPOSURE_MAX


def test_the_shipped_settings_are_settings() -> None:
    settings = load_settings(DEPLOY / "firn.toml", environment={"FIRN_HTTP_TOKEN": "x"})
    assert settings.zookeeper.hosts.count(",") == 2


@pytest.mark.parametrize(
    "path",
    [
        "compose.yaml",
        "kubernetes/firn.yaml",
        "systemd/firn.service",
        "systemd/firn-maintain.service",
        "docker/Dockerfile",
    ],
)
def test_the_variables_that_daemons_are_started_with_are_settings(path: str, secrets: Path) -> None:
    """firn refuses a variable that it does not know; here before anything is deployed."""
    names = set(re.findall(r"\bFIRN_[A-Z_]+", (DEPLOY / path).read_text())) - {"FIRN_CONFIG"}
    environment = {
        name: str(secrets / name.removeprefix("FIRN_").removesuffix("_FILE").lower().replace("_", "-"))
        if name.endswith("_FILE")
        else "firn-a"
        for name in names
    }
    load_settings(environment=environment)


def test_a_daemon_has_time_to_drain_before_it_is_killed() -> None:
    """It drains for so long, then gives everything up, and closes its connections."""
    least_s = load_settings(DEPLOY / "firn.toml", environment={"FIRN_HTTP_TOKEN": "x"}).daemon.drain_s + GIVE_UP_S
    unit = (DEPLOY / "systemd" / "firn.service").read_text()
    given = {
        "compose": float(compose()["services"]["firn-a"]["stop_grace_period"].removesuffix("s")),
        "systemd": float(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0]),
    }
    assert {name: given_s for name, given_s in given.items() if given_s < least_s + 3} == {}


def test_secrets_are_random_kept_and_closed_to_others(tmp_path: Path) -> None:
    folder = secrets_in(tmp_path / "secrets")
    first = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(set(first.values())) == len(first)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    secrets_in(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == first


def test_no_secret_is_in_what_is_shipped() -> None:
    ignored = (DEPLOY / ".gitignore").read_text().split()
    assert "secrets/" in ignored
