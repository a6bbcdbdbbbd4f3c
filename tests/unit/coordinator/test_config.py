"""Settings: what is set wins in the order file, environment; secrets stay secret; what cannot work is said at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.coordinator.config import load_settings, redacted, redacted_url
from firn.model.errors import Misconfigured

CANARY = "canary-7f3a"


def test_a_secret_can_come_from_a_mounted_file(tmp_path: Path) -> None:
    secret = tmp_path / "redis-url"
    secret.write_text(f"redis://daemon:{CANARY}@redis:6379/0\n")

    settings = load_settings(environment={"FIRN_REDIS_URL_FILE": str(secret)})

    assert settings.redis.url == f"redis://daemon:{CANARY}@redis:6379/0"


def test_the_short_names_can_come_from_files_too(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("a:2181,b:2181")

    assert load_settings(environment={"FIRN_ZOOKEEPER_FILE": str(hosts)}).zookeeper.hosts == "a:2181,b:2181"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"FIRN_HTTP_TOKEN_FILE": "/nowhere/token"}, "FIRN_HTTP_TOKEN_FILE: /nowhere/token: No such file"),
        ({"FIRN_HTTP_TOKEN_FILE": "/x", "FIRN_HTTP_TOKEN": "y"}, "FIRN_HTTP_TOKEN is set, too"),
        ({"FIRN_HTTP_TOKENS_FILE": __file__}, "FIRN_HTTP_TOKENS_FILE: there is no such setting"),
    ],
)
def test_a_secret_file_that_cannot_be_used_is_named(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misconfigured) as caught:
        load_settings(environment=environment)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[http]\nport = "x"', "[http] port: must be a whole number"),
        ('[log]\nlevel = "loud"', "[log] level: must be one of debug, info, warning, error"),
        ('[zookeeper]\ntls = "yes"', "[zookeeper] tls: must be true or false"),
        ('[warehouse]\nallowed = "s3://a"', "[warehouse] allowed: must be a list of texts"),
        ("[zookeeper]\nauth = 5", "[zookeeper] auth: must be a text"),
        ('[redis]\nurll = "x"', "[redis] urll: there is no such setting; did you mean 'url'"),
        ('[redsi]\nurl = "x"', "there is no section [redsi]; did you mean 'redis'?"),
        ("redis = 5", "redis is a section: write [redis]"),
        ("[rediss]", "there is no section [rediss]; did you mean 'redis'?"),
        ("[redis\nurl = 1", "at line 1, column 7"),
    ],
)
def test_a_file_that_is_wrong_is_told_what_is_wanted(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "firn.toml"
    file.write_text(text)
    with pytest.raises(Misconfigured) as caught:
        load_settings(file, {})
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("daemon_id", ["a/b", "\x1b[31m", "x" * 129, "-a", "a b", "..", "ä"])
def test_an_id_is_what_can_name_a_node_a_consumer_and_a_label(daemon_id: str) -> None:
    with pytest.raises(Misconfigured, match=r"daemon\.id: .* must be at most 128 letters"):
        load_settings(environment={"FIRN_DAEMON_ID": daemon_id})
    assert load_settings(environment={"FIRN_DAEMON_ID": "host-1.example.org:7"}).daemon_id == "host-1.example.org:7"


def test_a_variable_that_is_wrong_is_told_what_is_wanted_and_not_what_it_is() -> None:
    for name, value, message in (
        ("FIRN_HTTP_PORT", CANARY, "must be a whole number"),
        ("FIRN_LOG_FORMAT", CANARY, "must be one of json, console, auto"),
        ("FIRN_LIMITS_BATCH_INTENTS_MAX", CANARY, "must be a whole number"),
    ):
        with pytest.raises(Misconfigured) as caught:
            load_settings(environment={name: value})
        assert str(caught.value) == f"{name}: {message}"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "firn.internal"])
def test_no_daemon_listens_to_other_machines_without_a_token(host: str) -> None:
    with pytest.raises(Misconfigured, match=r"http\.host.*set http\.token"):
        load_settings(environment={"FIRN_HTTP_HOST": host})
    assert load_settings(environment={"FIRN_HTTP_HOST": host, "FIRN_HTTP_TOKEN": CANARY}).http.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.5.5", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert load_settings(environment={"FIRN_HTTP_HOST": host}).http.token is None


def test_no_secret_is_shown(tmp_path: Path) -> None:
    """A canary in every secret setting: none of it comes out of what people look at."""
    file = tmp_path / "firn.toml"
    file.write_text(
        f"""
        [redis]
        url = "rediss://daemon:{CANARY}@redis:6380/0"
        [zookeeper]
        auth = "firn:{CANARY}"
        tls-key-password = "{CANARY}"
        [http]
        token = "{CANARY}"
        prometheus-url = "https://reader:{CANARY}@prometheus/"
        trace-url = "https://traces/{{trace}}?api-key={CANARY}"
        [warehouse]
        location = "s3://bucket/warehouse"
        [warehouse.options.s3]
        region = "eu"
        access-key-id = "{CANARY}"
        secret-access-key = "{CANARY}"
        session-token = "{CANARY}"
        endpoint = "https://id:{CANARY}@store:9000"
        """
    )

    shown = redacted(load_settings(file, environment={}))

    assert CANARY not in str(shown)
    assert shown["warehouse"]["options"]["s3"]["region"] == "eu"
    assert shown["redis"]["url"] == "rediss://daemon:***@redis:6380/0"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        (f"redis://u:{CANARY}@h:1/0", "redis://u:***@h:1/0"),
        (f"redis://:{CANARY}@h:1/0", "redis://:***@h:1/0"),
        (f"redis://u:a/b?c#{CANARY}@h:1/0", "redis://u:***@h:1/0"),
        (f"redis://u:a@{CANARY}@h:1/0", "redis://u:***@h:1/0"),
        (f"redis://u:{CANARY}", "redis://***"),
        (f"redis://h:1/0?password={CANARY}&db=1", "redis://h:1/0?password=***&db=1"),
        (
            f"rediss://u@h/0?ssl_keyfile=/k.pem&ssl_password={CANARY}",
            "rediss://u@h/0?ssl_keyfile=/k.pem&ssl_password=***",
        ),
        ("/not/a/url", "/not/a/url"),
    ],
)
def test_a_url_is_shown_without_its_secrets_however_it_is_spelled(url: str, shown: str) -> None:
    assert redacted_url(url) == shown
