"""Redis and ZooKeeper that speak nothing but TLS, and the certificates that they and their clients show."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from firn.coordinator.embedded import RedisServer, programs
from firn.coordinator.embedded.server import free_port

UP_S: Final = 60.0
PASSWORD: Final = "the key's own"
LOG4J: Final = """\
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %-5p %c{1} %m%n
"""


class Authority:
    """Signs certificates for servers on loopback and for clients; all of them are PEM files in one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", str(self._key), "-out", str(self.certificate))  # fmt: skip

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1 and its key."""
        certificate, key, request = (self._folder / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                      "-keyout", str(key), "-out", str(request))  # fmt: skip
        self._openssl("x509", "-req", "-days", "2", "-in", str(request), "-CA", str(self.certificate),
                      "-CAkey", str(self._key), "-CAcreateserial", "-extfile", str(extensions),
                      "-out", str(certificate))  # fmt: skip
        return certificate, key

    def locked(self, key: Path) -> Path:
        """The same key, encrypted with `PASSWORD`."""
        locked = key.with_suffix(".locked")
        self._openssl("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", f"pass:{PASSWORD}", "-in", str(key),
                      "-out", str(locked))  # fmt: skip
        return locked

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Sealed:
    """Servers that speak TLS alone, and a daemon's settings for them."""

    def __init__(self, folder: Path, authority: Authority, *, redis_port: int, zookeeper_port: int) -> None:
        self.folder = folder
        self.stranger = Authority(folder, "stranger").certificate
        self.authority = authority.certificate
        self.certificate, self.key = authority.sign("daemon")
        self.other_certificate, self.other_key = authority.sign("another-service")
        self.locked_key = authority.locked(self.key)
        self.redis = f"rediss://127.0.0.1:{redis_port}/0"
        self.zookeeper = f"127.0.0.1:{zookeeper_port}"

    def redis_url(self, *, authority: Path | None = None) -> str:
        """Redis's URL with what is shown to it, and whose certificate it must have."""
        trusted = authority or self.authority
        return f"{self.redis}?ssl_ca_certs={trusted}&ssl_certfile={self.certificate}&ssl_keyfile={self.key}"

    def environment(self, **settings: str) -> dict[str, str]:
        """Of a daemon. ZooKeeper's key is encrypted."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("FIRN_")},
            "FIRN_REDIS_URL": self.redis_url(),
            "FIRN_ZOOKEEPER": self.zookeeper,
            "FIRN_ZOOKEEPER_AUTH": "firn:digest",
            "FIRN_ZOOKEEPER_SESSION_TIMEOUT_S": "4",
            "FIRN_ZOOKEEPER_TLS": "true",
            "FIRN_ZOOKEEPER_TLS_CA": str(self.authority),
            "FIRN_ZOOKEEPER_TLS_CERTIFICATE": str(self.certificate),
            "FIRN_ZOOKEEPER_TLS_KEY": str(self.locked_key),
            "FIRN_ZOOKEEPER_TLS_KEY_PASSWORD": PASSWORD,
            "FIRN_WAREHOUSE": str(self.folder / "warehouse"),
            **{f"FIRN_{name}": value for name, value in settings.items()},
        }

    def kazoo(self, *, user: str) -> KazooClient:
        """A session of another service, whose certificate ZooKeeper accepts."""
        return KazooClient(
            self.zookeeper, auth_data=[("digest", user)], use_ssl=True, ca=str(self.authority),
            certfile=str(self.other_certificate), keyfile=str(self.other_key),
        )  # fmt: skip


@contextmanager
def sealed_servers(folder: Path) -> Iterator[Sealed]:
    """Both servers, over TLS alone. Skips where certificates cannot be made."""
    needed()
    authority = Authority(folder, "authority")
    with redis_over_tls(folder, authority) as redis_port, zookeeper_over_tls(folder, authority) as zookeeper_port:
        yield Sealed(folder, authority, redis_port=redis_port, zookeeper_port=zookeeper_port)


def needed() -> None:
    """Skip where certificates cannot be made; CI must make them."""
    if shutil.which("openssl") is None:
        if "CI" in os.environ:
            pytest.fail("CI must speak TLS: install openssl")
        pytest.skip("openssl is not installed: no certificates can be made")


@contextmanager
def redis_over_tls(folder: Path, authority: Authority) -> Iterator[int]:
    """A Redis that asks its clients for certificates; its port.

    Where Redis was built without TLS, a tunnel in front of it speaks it instead, as one would in a deployment.
    """
    certificate, key = authority.sign("redis")
    port = free_port()
    options = {
        "port": "0", "tls-port": str(port), "bind": "127.0.0.1", "dir": str(folder), "save": "",
        "tls-cert-file": str(certificate), "tls-key-file": str(key), "tls-ca-cert-file": str(authority.certificate),
        "tls-auth-clients": "yes",
    }  # fmt: skip
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    probe, log = authority.sign("probe"), folder / "redis.log"
    with _running([str(programs.redis_server()), *arguments], log=log) as process:
        _wait_until(lambda: process.poll() is not None or _handshakes(port, authority, *probe), log=log)
        if process.poll() is None:
            yield port
            return
    assert re.search("TLS support|Bad directive", log.read_text()), log.read_text()
    with RedisServer() as server, _tunnel(server, authority, certificate, key) as port:
        yield port


@contextmanager
def _tunnel(server: RedisServer, authority: Authority, certificate: Path, key: Path) -> Iterator[int]:
    """TLS in front of a server without; its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    loop = asyncio.new_event_loop()
    host, _, port = server.address.rpartition(":")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, to_behind = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, to_behind), pump(behind, writer))

    listening = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_ended(listening), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _ended(listening: asyncio.Server) -> None:
    """Close a server and what it has under way."""
    listening.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def zookeeper_over_tls(folder: Path, authority: Authority, *, port: int | None = None) -> Iterator[int]:
    """A ZooKeeper that asks its clients for certificates, and listens on no other port; its port."""
    certificate, key = authority.sign("zookeeper")
    store = folder / "zookeeper-store.pem"
    store.write_text(key.read_text() + certificate.read_text())
    port = port or free_port()
    (folder / "log4j2.properties").write_text(LOG4J)
    (folder / "zoo.cfg").write_text(
        f"dataDir={folder}/zookeeper\nsecureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n"
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nadmin.enableServer=false\n"
        "tickTime=500\nminSessionTimeout=1000\n"
        f"ssl.keyStore.location={store}\nssl.keyStore.type=PEM\n"
        f"ssl.trustStore.location={authority.certificate}\nssl.trustStore.type=PEM\nssl.clientAuth=need\n"
    )
    jars = programs.zookeeper_jars()
    netty = sorted(jars[0].parent.glob("netty-*.jar"))
    command = [
        *(str(programs.java()), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-Dlog4j2.configurationFile=log4j2.properties", "-Dzookeeper.jmx.log4j.disable=true"),
        *("-Dzookeeper.preAllocSize=1024", "-cp", os.pathsep.join(map(str, [*jars, *netty]))),
        *("org.apache.zookeeper.server.ZooKeeperServerMain", "zoo.cfg"),
    ]
    log = folder / "zookeeper.log"
    probe = authority.sign("probe")
    with _running(command, log=log) as process:
        _wait_until(lambda: process.poll() is not None or _handshakes(port, authority, *probe), log=log)
        assert process.poll() is None, log.read_text()
        yield port


def _handshakes(port: int, authority: Authority, certificate: Path, key: Path) -> bool:
    context = ssl.create_default_context(cafile=authority.certificate)
    context.load_cert_chain(certificate, key)
    try:
        plain = socket.create_connection(("127.0.0.1", port), timeout=2)
        with plain, context.wrap_socket(plain, server_hostname="127.0.0.1"):
            return True
    except OSError:
        return False


@contextmanager
def _running(command: list[str], *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_until(holds: Callable[[], bool], *, log: Path) -> None:
    ends_at = time.monotonic() + UP_S
    while not holds():
        assert time.monotonic() < ends_at, log.read_text()
        time.sleep(0.1)
