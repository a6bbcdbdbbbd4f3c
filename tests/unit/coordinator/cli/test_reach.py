"""Commands find their daemon, and every error is one line with the right exit code."""

import json
import os
from pathlib import Path

import click
import pytest

from firn.coordinator.cli import version
from firn.coordinator.cli.main import COMMANDS, firn, run
from firn.coordinator.cli.reach import settings_for
from firn.coordinator.config import Settings
from firn.coordinator.endpoints import Endpoints, write_endpoints
from firn.coordinator.version import VERSION
from firn.model.errors import Misconfigured, Unavailable

ELSEWHERE = "redis://10.1.2.3:6379/0"


def a_daemon_on(folder: Path, *, pid: int | None = None) -> Endpoints:
    folder.mkdir(exist_ok=True)
    endpoints = Endpoints(
        pid=os.getpid() if pid is None else pid, redis_url="redis://127.0.0.1:7777/0", redis_prefix="p",
        zookeeper_hosts="127.0.0.1:8888", zookeeper_root="/r", warehouse="/wh",
    )  # fmt: skip
    write_endpoints(folder, endpoints)
    return endpoints


def test_a_daemon_on_the_data_folder_is_found_without_any_setting(tmp_path):
    a_daemon_on(tmp_path / "data")
    settings, hint = settings_for(None, None, {})
    assert settings.redis.url == "redis://127.0.0.1:7777/0"
    assert settings.redis.prefix == "p"
    assert (settings.zookeeper.hosts, settings.zookeeper.root) == ("127.0.0.1:8888", "/r")
    assert settings.warehouse.location == "/wh"
    assert hint == ""


@pytest.mark.parametrize("variable", ["FIRN_REDIS_URL", "FIRN_CONFIG"])
def test_whoever_names_servers_means_those(tmp_path, variable):
    a_daemon_on(tmp_path / "data")
    (tmp_path / "own.toml").write_text(f'[redis]\nurl = "{ELSEWHERE}"\n')
    value = ELSEWHERE if variable == "FIRN_REDIS_URL" else str(tmp_path / "own.toml")
    assert settings_for(None, None, {variable: value})[0].redis.url == ELSEWHERE


def test_a_settings_file_in_the_folder_counts_and_an_explicit_folder_counts_more(tmp_path):
    a_daemon_on(tmp_path / "data")
    (tmp_path / "firn.toml").write_text(f'[redis]\nurl = "{ELSEWHERE}"\n')
    assert settings_for(None, None, {})[0].redis.url == ELSEWHERE
    assert settings_for(None, Path("data"), {})[0].redis.url == "redis://127.0.0.1:7777/0"


def test_the_file_of_a_daemon_that_is_gone_leads_nowhere(tmp_path):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    a_daemon_on(tmp_path / "data", pid=pid)
    settings, hint = settings_for(None, None, {})
    assert settings.redis == Settings().redis
    assert "firn serve --embedded" in hint
    with pytest.raises(Unavailable, match="no daemon runs on data: start one with firn serve --embedded --data data"):
        settings_for(None, Path("data"), {})


def test_a_damaged_endpoints_file_is_said(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "endpoints.json").write_text("{")
    with pytest.raises(Misconfigured, match=r"endpoints\.json"):
        settings_for(None, None, {})


def test_help_needs_no_command_and_says_of_each_what_it_says_itself(capsys):
    assert run(["--help"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    for name, lazy in COMMANDS.items():
        assert name in listed
        assert lazy.help in listed
        command = lazy.load()
        assert isinstance(command, click.Command)
        assert command.help
    assert firn.get_command(click.Context(firn), "nope") is None


@pytest.mark.parametrize(
    "arguments",
    [["nope"], ["table", "nope"], ["table", "show"], ["submit"], ["conflicts", "--since", "soon"], ["--nope"]],
)
def test_wrong_usage_is_said_and_exits_with_two(arguments, capsys):
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Error: " in said.err


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("FIRN_REDIS_URL", "http://x", "firn: redis.url: must begin with redis://"),
        ("FIRN_REDIS_URL", "redis://h:99999", "firn: redis.url: cannot be read: "),
        ("FIRN_NOPE", "1", "firn: FIRN_NOPE: there is no such setting"),
        ("FIRN_CONFIG", "nowhere.toml", "firn: nowhere.toml: "),
    ],
)
def test_wrong_settings_are_one_line_and_exit_with_two(monkeypatch, capsys, variable, value, said):
    monkeypatch.setenv(variable, value)
    assert run(["shard", "db.events"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(said)
    assert len(err.splitlines()) == 1


def test_config_check_names_file_and_setting(tmp_path, capsys):
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().out == "ok\n"
    (tmp_path / "firn.toml").write_text("[daemon]\nshards = 0\n")
    assert run(["config", "check"]) == 2
    assert capsys.readouterr().err == "firn: daemon.shards: 0 is not between 1 and 1024\n"
    (tmp_path / "firn.toml").write_text('[daemon]\nshards = "many"\n')
    assert run(["config", "check", "--json"]) == 2
    assert "firn.toml: [daemon] shards: " in capsys.readouterr().err


def test_config_show_is_a_settings_file_without_secrets(tmp_path, capsys):
    (tmp_path / "firn.toml").write_text(
        '[redis]\nurl = "redis://me:hunter2@h/0"\n[zookeeper]\nauth = "me:hunter2"\n'
        '[warehouse.options.s3]\nsecret-access-key = "hunter2"\nregion = "x"\n'
    )
    assert run(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    (tmp_path / "again.toml").write_text(shown)
    assert run(["config", "check", "--config", str(tmp_path / "again.toml")]) == 0


def test_a_mistake_of_ours_is_one_line_too_and_debug_shows_where(monkeypatch, capsys):
    def broken(*_arguments):
        raise RuntimeError("oh\nno")

    monkeypatch.setattr("firn.coordinator.cli.reach.settings_for", broken)
    assert run(["shard", "t"]) == 1
    err = capsys.readouterr().err
    assert err == "firn: internal error: RuntimeError: oh / no (firn --debug … shows where)\n"
    assert run(["--debug", "shard", "t"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("compiled", "shown"), [(True, "yes"), (False, "no")])
def test_version_is_known_to_people_and_programs(monkeypatch, capsys, compiled, shown):
    monkeypatch.setattr(version, "IS_COMPILED", compiled)
    assert run(["version"]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (told["firn"], told["compiled"]) == (VERSION, shown)
    assert run(["version", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["firn"], document["compiled"]) == (VERSION, compiled)
    assert {*document} == {*told}
