"""Settings: ``firn.toml``, overridden by ``FIRN_<SECTION>_<NAME>`` in the environment, checked before anything starts.

``FIRN_<SECTION>_<NAME>_FILE`` names a file that holds the value: a secret that is mounted stays out of the environment.

``firn config show`` prints what is in force, secrets redacted; ``firn config check`` says what is wrong and where.
"""

from __future__ import annotations

import os
import re
import socket
import tomllib
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin
from urllib.parse import quote

import msgspec

from firn.model.errors import InvalidInput, Misconfigured
from firn.model.limits import Limits
from firn.model.spelling import did_you_mean
from firn.storage.locations import is_within, normalize
from firn.storage.redis_schemes import SCHEMES
from firn.storage.secret_files import read_secret
from firn.storage.zookeeper_place import ROOT_DEFAULT, checked_root, servers_and_root

CONFIG_FILE: Final = "firn.toml"
ENVIRONMENT_PREFIX: Final = "FIRN_"
_ALIASES: Final = {"FIRN_ZOOKEEPER": "FIRN_ZOOKEEPER_HOSTS", "FIRN_WAREHOUSE": "FIRN_WAREHOUSE_LOCATION"}
_NOT_SETTINGS: Final = frozenset({"FIRN_CONFIG", "FIRN_DATA"})
_FILE_SUFFIX: Final = "_FILE"
TRACE_PLACE: Final = "{trace}"
REDACTED: Final = "***"
_SECRET_SETTINGS: Final = (("zookeeper", "auth"), ("zookeeper", "tls-key-password"), ("http", "token"))
_RENEWED: Final = (("redis", "url"), ("zookeeper", "auth"), ("zookeeper", "tls-key-password"))
"""Settings whose file (``…-file``) is read again while firn runs."""
_SECRET_URLS: Final = (("redis", "url"), ("http", "prometheus-url"), ("http", "trace-url"))
_SECRET_WORDS: Final = frozenset(
    {
        *("auth", "authorization", "connection", "credential", "credentials", "key", "passphrase", "password", "sas"),
        *("secret", "token"),
    }
)
"""What an option that is a secret has in its name."""
_PLAIN_OPTION: Final = re.compile(r"[0-9.]*|true|false|none|optional|required|/.*", re.IGNORECASE)


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    pass


class RedisSettings(_Section, frozen=True, kw_only=True):
    """Where the intent streams are. `url` may carry user and password; `prefix` begins every key."""

    url: str = "redis://127.0.0.1:6379/0"
    """`redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://` or `redis+cluster://`."""
    url_file: str | None = None
    """File with the URL; its user and password are read again for every connection."""
    prefix: str = "firn"
    """Begins every key; firns that share a server have different ones."""

    @property
    def renewed_url(self) -> str:
        """The URL for whatever connects: one that came from a file names it, so that its secret can be renewed."""
        if self.url_file is None:
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}url_file={quote(self.url_file)}"


class ZooKeeperSettings(_Section, frozen=True, kw_only=True):
    """Where pointers and locks are. `auth` is ``user:password`` for digest ACLs on every node.

    With `tls` the servers' certificates are checked against `tls_ca` (a PEM file; None: the system's);
    `tls_certificate` and `tls_key` are what the daemon shows where servers ask for one.
    """

    hosts: str = "127.0.0.1:2181"
    """`host:port`, several with commas. A path behind them (`host:port/firn`) is the root."""
    root: str = ROOT_DEFAULT
    """The node that everything is below; with a path behind `hosts`, the same path, or not set."""
    session_timeout_s: float = 10.0
    """How long a daemon that dies keeps its locks and shards."""
    auth: str | None = None
    """`user:password` of the digest ACL."""
    auth_file: str | None = None
    """File with it, read again for every connection."""
    tls: bool = False
    """Speak TLS."""
    tls_ca: str | None = None
    """PEM file of who signs the servers' certificates."""
    tls_certificate: str | None = None
    """PEM file of the daemon's certificate."""
    tls_key: str | None = None
    """PEM file of its key."""
    tls_key_password: str | None = None
    """Password of that file."""
    tls_key_password_file: str | None = None
    """File with it, read again for every connection."""


class WarehouseSettings(_Section, frozen=True, kw_only=True):
    """Where tables are. New ones go below `location`; `allowed` are further places that tables may be created in.

    `options` configure object stores by scheme (``[warehouse.options.s3]``: region, endpoint, access-key-id …). The
    schemes of `location` and `allowed` can be read, and those that have such a section, though it be empty.
    """

    location: str = "./data/warehouse"
    """Folder or object-store prefix of new tables."""
    allowed: tuple[str, ...] = ()
    """Further places that tables may be in."""
    options: dict[str, dict[str, str]] = {}
    """Of object stores, by scheme."""


class DaemonSettings(_Section, frozen=True, kw_only=True):
    """How the daemon works. `id` must be unique among daemons; by default it is host and process id.

    `shards` is the number of intent streams; all daemons of one Redis prefix must agree on it.
    """

    id: str = ""
    """Unique among daemons; empty: made of host and process id."""
    shards: int = 16
    """Number of intent streams; the same for all daemons."""
    lease_idle_s: float = 10.0
    """How long an idle lane keeps its table's lock."""
    drain_s: float = 20.0
    """How long SIGTERM waits for batches under way."""


class HttpSettings(_Section, frozen=True, kw_only=True):
    """Where ``/metrics``, ``/healthz`` and ``/readyz`` are served; port 0 takes a free one, -1 serves nothing.

    `token` is asked of everybody (``Authorization: Bearer …``) but for the two health checks; it must be set where the
    host is not this machine's loopback.
    """

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8080
    """Port; 0 takes a free one, -1 serves nothing."""
    token: str | None = None
    """What is asked of everybody; needed on other addresses than loopback."""
    prometheus_url: str | None = None
    """URL of the Prometheus that scrapes the daemons: `/dashboards` asks it. It may carry user and password."""
    trace_url: str | None = None
    """Where traces are shown, with `{trace}` for a trace's id: pages link there."""


class LogSettings(_Section, frozen=True, kw_only=True):
    """What is logged, to standard error. `format` ``auto`` is JSON unless standard error is a terminal."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""
    format: Literal["json", "console", "auto"] = "json"
    """`json`, `console` or `auto`."""


class Settings(_Section, frozen=True, kw_only=True):
    """Everything that can be set."""

    redis: RedisSettings = RedisSettings()
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    warehouse: WarehouseSettings = WarehouseSettings()
    daemon: DaemonSettings = DaemonSettings()
    http: HttpSettings = HttpSettings()
    log: LogSettings = LogSettings()
    limits: Limits = Limits()

    @property
    def daemon_id(self) -> str:
        """The daemon's id, made from host and process when none is set."""
        return self.daemon.id or f"{socket.gethostname()}-{os.getpid()}"

    @property
    def allowed_locations(self) -> tuple[str, ...]:
        """Every place that a table may be created in."""
        return (self.warehouse.location, *self.warehouse.allowed)


def load_settings(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from a file (given, ``$FIRN_CONFIG`` or ``./firn.toml`` if it is there) and the environment.

    Raises Misconfigured naming the setting, where it was set, and what is wrong.
    """
    environment = os.environ if environment is None else environment
    named = path or (Path(environment["FIRN_CONFIG"]) if environment.get("FIRN_CONFIG") else None)
    file = named or Path(CONFIG_FILE)
    members: dict[str, Any] = {}
    if named is not None or file.exists():
        try:
            members = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise Misconfigured(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    _check_members(members, source=str(file))
    _read_files(members, source=str(file))
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _NOT_SETTINGS:
            continue
        name = variable.removesuffix(_FILE_SUFFIX)
        if name != variable and name in environment:
            raise Misconfigured(f"{variable}: {name} is set, too; one of them is enough")
        value = text if name == variable else _secret_in(text, variable=variable)
        _set_from_environment(members, _ALIASES.get(name, name), value, variable=variable)
        _keep_path(members, name, None if name == variable else text)
    return _checked(msgspec.convert(_with_one_root(members), Settings))


def _with_one_root(members: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with a path behind ``zookeeper.hosts`` as the root. Raises Misconfigured for two roots."""
    zookeeper = members.get("zookeeper", {})
    hosts, root = zookeeper.get("hosts"), zookeeper.get("root")
    if root is not None:
        root = checked_root(root, where="zookeeper.root")
        zookeeper = {**zookeeper, "root": root}
    if hosts is not None:
        servers, path = servers_and_root(hosts, where="zookeeper.hosts")
        if path is not None and root is not None and path != root:
            raise Misconfigured(
                f"zookeeper.hosts has the path {path}, which is the root, and zookeeper.root is {root}: remove one of "
                "them (FIRN_ZOOKEEPER, FIRN_ZOOKEEPER_ROOT)"
            )
        zookeeper = {**zookeeper, "hosts": servers, **({} if path is None else {"root": path})}
    return {**members, "zookeeper": zookeeper}


def _secret_in(path: str, *, variable: str) -> str:
    try:
        return read_secret(path)
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{variable}: {path}: {getattr(error, 'strerror', None) or error}") from error


def _read_files(members: Mapping[str, Any], *, source: str) -> None:
    """Read the secrets whose files the settings file names."""
    for section, name in _RENEWED:
        settings = members.get(section, {})
        path = settings.get(f"{name}-file")
        if path is None:
            continue
        if name in settings:
            raise Misconfigured(f"{source}: [{section}] has {name} and {name}-file; one of them is enough")
        settings[name] = _secret_in(path, variable=f"{source}: [{section}] {name}-file")


def _keep_path(members: dict[str, Any], name: str, path: str | None) -> None:
    """Keep the path of a secret that a variable named, or forget the file's that a variable goes over."""
    for section, setting in _RENEWED:
        if name == f"{ENVIRONMENT_PREFIX}{section}_{setting}".upper().replace("-", "_"):
            members[section] = {**members[section], f"{setting}-file": path}


def _sections() -> dict[str, type[msgspec.Struct]]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(Settings)}


def _check_members(members: Mapping[str, Any], *, source: str) -> None:
    """Check the file's sections one by one, so that the message names the setting as it is written there."""
    for section, settings in members.items():
        kind = _sections().get(section)
        if kind is None:
            there_are = did_you_mean(section, _sections()) or f"there are {', '.join(_sections())}"
            raise Misconfigured(f"{source}: there is no section [{section}]; {there_are}")
        if not isinstance(settings, Mapping):
            raise Misconfigured(f"{source}: {section} is a section: write [{section}], and its settings below")
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for name, value in settings.items():
            if name not in fields:
                raise Misconfigured(f"{source}: [{section}] {name}: {_no_setting(name, fields)}")
            try:
                msgspec.convert(value, fields[name].type)
            except msgspec.ValidationError as error:
                raise Misconfigured(f"{source}: [{section}] {name}: {_wanted(fields[name].type, error)}") from error


def _no_setting(name: str, known: Collection[str]) -> str:
    return f"there is no such setting; {did_you_mean(name, known) or 'firn config show lists them'}"


_WANTED: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    str | None: "a text",
    tuple[str, ...]: "a list of texts",
}


def _wanted(kind: Any, error: msgspec.ValidationError) -> str:
    """What a setting must be. The value, which may be a secret, is not said."""
    if get_origin(kind) is Literal:
        return f"must be one of {', '.join(get_args(kind))}"
    return f"must be {_WANTED[kind]}" if kind in _WANTED else str(error)


def _set_from_environment(members: dict[str, Any], name: str, text: str, *, variable: str) -> None:
    section, _, setting = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("_")
    kind = _sections().get(section)
    fields = {} if kind is None else {f.encode_name.replace("-", "_"): f for f in msgspec.structs.fields(kind)}
    field = fields.get(setting)
    if field is None:
        raise Misconfigured(f"{variable}: {_no_setting(setting, fields)}")
    try:
        if field.type == tuple[str, ...]:
            value: Any = tuple(part.strip() for part in text.split(",") if part.strip())
        else:
            value = msgspec.convert(text, field.type, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"{variable}: {_wanted(field.type, error)}") from error
    members[section] = {**members.get(section, {}), field.encode_name: value}


_DAEMON_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
"""An id is the name of a ZooKeeper node and of a Redis consumer, a label of metrics, and stands in logs and events."""


def _checked(settings: Settings) -> Settings:
    daemon, limits = settings.daemon, settings.limits
    if daemon.id and not _DAEMON_ID.fullmatch(daemon.id):
        raise Misconfigured(
            f"daemon.id: {daemon.id[:200]!a} must be at most 128 letters, digits and . _ : @ -, "
            "beginning with a letter or digit"
        )
    for name, value, low, high in (
        ("daemon.shards", daemon.shards, 1, 1024),
        ("daemon.lease-idle-s", daemon.lease_idle_s, 0, 3600),
        ("zookeeper.session-timeout-s", settings.zookeeper.session_timeout_s, 1, 600),
        ("http.port", settings.http.port, -1, 65535),
        ("limits.batch-intents-max", limits.batch_intents_max, 1, 1_000_000),
        ("limits.swap-attempts-max", limits.swap_attempts_max, 1, 1_000_000),
        ("limits.deliveries-max", limits.deliveries_max, 2, 1_000_000),
        ("limits.outcomes-kept-max", limits.outcomes_kept_max, 0, 10_000_000_000),
        ("limits.dedupe-intents-max", limits.dedupe_intents_max, 1, 100_000_000),
    ):
        if not low <= value <= high:
            raise Misconfigured(f"{name}: {value} is not between {low} and {high}")
    if settings.http.port >= 0 and not settings.http.token and not is_loopback(settings.http.host):
        raise Misconfigured(
            f"http.host: {settings.http.host!r} can be reached from other machines: set http.token (or "
            "FIRN_HTTP_TOKEN_FILE), or listen on 127.0.0.1"
        )
    if settings.http.prometheus_url and _scheme(settings.http.prometheus_url) not in {"http", "https"}:
        raise Misconfigured("http.prometheus-url: must begin with http:// or https://")
    traces = settings.http.trace_url
    if traces and (_scheme(traces) not in {"http", "https"} or TRACE_PLACE not in traces):
        raise Misconfigured(f"http.trace-url: must begin with http:// or https://, and have {TRACE_PLACE} for the id")
    if _scheme(settings.redis.url) not in SCHEMES:
        raise Misconfigured(f"redis.url: must begin with {', '.join(f'{one}://' for one in SCHEMES)}")
    if not settings.redis.prefix or any(c.isspace() or not c.isprintable() for c in settings.redis.prefix):
        raise Misconfigured(f"redis.prefix: {settings.redis.prefix!r} must be printable and without spaces")
    location = _absolute(settings.warehouse.location, name="warehouse.location")
    allowed = tuple(_absolute(place, name="warehouse.allowed") for place in settings.warehouse.allowed)
    return msgspec.structs.replace(
        settings, warehouse=msgspec.structs.replace(settings.warehouse, location=location, allowed=allowed)
    )


def _scheme(url: str) -> str:
    """The scheme of a URL that may be anything: urllib's errors quote what stands before the host."""
    return url.partition("://")[0]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on `host`. A name other than ``localhost`` says nothing."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _absolute(location: str, *, name: str) -> str:
    """A location as tables will store it; a relative path is taken from where the daemon is started."""
    if ":" not in location.split("/", 1)[0]:
        location = str(Path(location).absolute().resolve())
    try:
        normal = normalize(location, where=name)
        if normal in {"/", "file:///"} or not is_within(f"{normal}/x", normal):
            raise Misconfigured(f"{name}: {location!r} is not a folder for tables")
    except InvalidInput as error:
        raise Misconfigured(str(error)) from error
    return normal


def redacted(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings as they may be shown: passwords, tokens and keys replaced."""
    shown: dict[str, dict[str, Any]] = msgspec.to_builtins(settings)
    for section, name in _SECRET_SETTINGS:
        if shown[section][name] is not None:
            shown[section][name] = REDACTED
    for section, name in _SECRET_URLS:
        if shown[section][name] is not None:
            shown[section][name] = redacted_url(shown[section][name])
    for options in shown["warehouse"]["options"].values():
        for name, value in options.items():
            options[name] = REDACTED if _is_secret(name) else redacted_url(value)
    return shown


def _is_secret(name: str) -> bool:
    return not _SECRET_WORDS.isdisjoint(re.split(r"[-_.]", name.lower()))


def redacted_url(url: str) -> str:
    """A URL without its password, and without those among its options; also one that is not spelled as it should be."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    address, question, options = rest.partition("?")
    if "@" in rest:  # in a password that is not encoded there may be any of "/?#@"
        before, _, after = rest.rpartition("@")
        address, question, options = after.partition("?")
        user, colon, _ = before.partition(":")
        address = f"{user}:{REDACTED}@{address}" if colon else f"{user}@{address}"
    elif _has_no_port(address):
        address = REDACTED
    shown = "&".join(_redacted_option(option) for option in options.split("&"))
    return f"{scheme}{separator}{address}{question}{shown}"


def _has_no_port(address: str) -> bool:
    """Whether there is something else in the place of the port: what is left of ``user:pass`` when the host is gone."""
    hosts = address.partition("/")[0].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    return any(port and not port.isdigit() for port in ports)


def _redacted_option(option: str) -> str:
    """An option of a URL: numbers, paths and the like are shown; all else may be a secret with a misspelled name."""
    name, equals, value = option.partition("=")
    is_secret = _is_secret(name) and not name.endswith("_file")
    shown = not equals or (_PLAIN_OPTION.fullmatch(value) is not None and not is_secret)
    return option if shown else f"{name}={REDACTED}"
