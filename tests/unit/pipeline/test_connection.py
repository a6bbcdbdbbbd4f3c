"""Where firn is, as texts and as settings say it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from firn.model.errors import Misconfigured
from firn.pipeline.connection import Connection
from firn.storage.zookeeper_place import ZooKeeperOptions

CANARY = "canary-77aa"
FULL = Connection(
    redis=f"rediss://firn:{CANARY}@redis:6379/0",
    prefix="other",
    zookeeper=ZooKeeperOptions(hosts="zk:2281/firn", digest=f"firn:{CANARY}", tls=True, tls_ca="/etc/firn/ca.pem"),
    files={"file": {}, "s3": {"region": "eu-north-1"}},
    timeout_s=5.0,
)
SETTINGS = """
[redis]
url = "redis://redis:6379/0"
[zookeeper]
hosts = "zk:2281"
tls = true
tls-ca = "/etc/firn/ca.pem"
[warehouse]
location = "s3://lake/warehouse"
[warehouse.options.s3]
region = "eu-north-1"
connect-timeout = "5s"
"""


@pytest.mark.parametrize("connection", [Connection(), Connection(zookeeper="zk:2181"), FULL])
def test_texts_and_pickles_bring_the_same_connection(connection: Connection) -> None:
    assert Connection.of_options(connection.options()) == connection
    assert pickle.loads(pickle.dumps(connection)) == connection


def test_no_password_is_shown() -> None:
    assert CANARY not in repr(FULL)
    assert "zk:2281/firn" in repr(FULL)


def test_a_settings_file_says_what_options_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With secrets from the files that the environment names, as a daemon takes them."""
    config, secret = tmp_path / "firn.toml", tmp_path / "auth"
    config.write_text(SETTINGS)
    secret.write_text(f"firn:{CANARY}\n")
    monkeypatch.setenv("FIRN_ZOOKEEPER_AUTH_FILE", str(secret))
    found = Connection.of_options({"config": str(config), "prefix": "other", "timeout": "5"})
    zookeeper = ZooKeeperOptions(
        hosts="zk:2281/firn", digest=f"firn:{CANARY}", digest_file=str(secret), tls=True, tls_ca="/etc/firn/ca.pem"
    )
    assert (found.redis, found.prefix, found.zookeeper) == ("redis://redis:6379/0", "other", zookeeper)
    assert found.files["s3"]["region"] == "eu-north-1"
    assert found.files["s3"]["client_options"]["connect_timeout"] == "5s"
    assert found.timeout_s == 5.0


@pytest.mark.parametrize(
    "options", [{"timeout": "soon"}, {"files": "{"}, {"zookeeper": '{"host": "zk"}'}, {"config": "/nowhere/firn.toml"}]
)
def test_a_value_that_does_not_fit_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(Misconfigured):
        Connection.of_options(options)
