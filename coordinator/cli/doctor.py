"""`firn doctor`: every setting and server that a deployment depends on, checked, each with what to do about it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.progress import ProgressLine, showing_progress
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.text import one_line, shown
from firn.coordinator.cli.zookeeper_servers import servers_of
from firn.coordinator.config import is_loopback
from firn.coordinator.fsck.pointer_age import pointer_age
from firn.coordinator.operations.fleet import Cause, fleet_of
from firn.coordinator.store_identity import stores_trouble
from firn.coordinator.version import VERSION
from firn.model.amounts import plural, size_text
from firn.model.errors import FirnError, Misconfigured, NotFound, Unavailable
from firn.model.identifiers import uuid7
from firn.model.progress import Progress, counted
from firn.storage.compiled import IS_COMPILED
from firn.storage.folder_marks import FolderMarks
from firn.storage.locations import FILE_SCHEME, normalize, scheme_of
from firn.storage.marked_folders import MarkedFolders
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import TABLES, Pointers
from firn.storage.redis_faults import reply_in
from firn.storage.redis_vitals import RedisVitals

SKEW_S_MAX: Final = 5.0
FREE_SHARE_MIN: Final = 0.1
USED_SHARE_MAX: Final = 0.9
"""Of Redis's memory, as the alert has it."""

FOLDER: Final = "warehouse, folder"

STORES: Final = "stores, identity"
POINTERS: Final = "pointers"
SHOWN_MAX: Final = 10
COMPARED_MAX: Final = 200
"""Tables whose pointers are compared with their journals: each takes a listing."""

COLUMNS: Final = (Column(""), Column("CHECK"), Column("FOUND", long=True), Column("DO", long=True))

State = Literal["good", "warning", "bad"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found, and what to do about it."""

    check: str
    state: State
    found: str
    do: str = ""


@click.command()
@reaching
def doctor(reach: Reach) -> int:
    """Check settings, Redis, ZooKeeper, warehouse, clocks and daemons. Exits with 1 when something is bad."""
    with showing_progress(reach.output) as progress:
        findings = [*_settings(reach), _compiled(), *reach.run(_servers(reach, progress))]
        if not any(one.check == FOLDER and one.state == "bad" for one in findings):
            progress.action("warehouse")
            findings += [*_warehouse(reach), *_pointers(reach, progress)]
    if reach.output.as_json:
        reach.output.document(findings)
    reach.output.grid(COLUMNS, ((f.state, f.check, f.found, f.do) for f in findings), empty="")
    return EXIT_NO if any(finding.state == "bad" for finding in findings) else EXIT_OK


def _pointers(reach: Reach, progress: Progress) -> list[Finding]:
    """Compare pointers with journals, of the first tables by name; `firn fsck --all` compares all of them."""
    try:
        pointers = list(islice((one for one in reach.pointers() if not one.dropped), COMPARED_MAX))
        compared = counted(pointers, "pointer", total=len(pointers), progress=progress)
        older = [one for one in compared if any(pointer_age(one, files=reach.files, journal=reach.journal))]
    except FirnError:
        return []  # what does not answer is among the findings already
    if not older:
        return [Finding(
            check=POINTERS, state="good", found=f"as new as their journals, of {plural(len(pointers), 'table')}"
        )]  # fmt: skip
    return [Finding(
        check=POINTERS, state="bad", do="firn recover (docs/recovery.md)",
        found=f"older than the journal, so ZooKeeper is: {', '.join(shown(one.table) for one in older[:SHOWN_MAX])}",
    )]  # fmt: skip


def _settings(reach: Reach) -> list[Finding]:
    settings = reach.settings
    found = [Finding(check="settings", state="good", found="they can be read")]
    if not settings.redis.url.startswith("rediss") and not _is_local(settings.redis.url):
        found.append(Finding(
            check="Redis, encryption", state="warning", found="traffic goes in the clear",
            do="serve TLS and use rediss:// in redis.url (docs/security.md)",
        ))  # fmt: skip
    if settings.zookeeper.auth is None:
        found.append(Finding(
            check="ZooKeeper, access", state="warning", found="whoever reaches it can move pointers",
            do="set zookeeper.auth (FIRN_ZOOKEEPER_AUTH_FILE)",
        ))  # fmt: skip
    if settings.http.port >= 0 and not is_loopback(settings.http.host) and settings.http.token:
        found.append(Finding(check="HTTP", state="good", found="asks for a token"))
    return found


def _compiled() -> Finding:
    """Of the firn that this command is of; what each daemon has is in its log, and in `firn_build_info`."""
    check = "compiled code"
    if IS_COMPILED:
        return Finding(check=check, state="good", found="is there, in this installation")
    return Finding(
        check=check, state="warning",
        found="not in this installation: appends are read without it, and a backlog drains a fifth slower",
        do="install firn where there is a C compiler (docs/operators.md); everything works without it, too",
    )  # fmt: skip


def _is_local(url: str) -> bool:
    return url.startswith("unix:") or any(f"{before}{host}" in url for before in "/@" for host in ("127.", "localhost"))


async def _servers(reach: Reach, progress: ProgressLine) -> list[Finding]:
    reach.advises = False  # each finding says what to do
    findings: list[Finding] = []
    for name, check in (
        ("Redis", _redis),
        ("ZooKeeper servers", _ensemble),
        ("ZooKeeper", _zookeeper),
        ("ZooKeeper, access", _access),
        (STORES, _stores),
        ("daemons", _daemons),
        (FOLDER, _folder),
    ):
        progress.action(name)
        try:
            findings += await check(reach)
        except (FirnError, OSError) as error:
            found = one_line(str(error))
            do = _advice(error) if name == "Redis" else ""
            findings.append(Finding(check=name, state="bad", found=found, do=do or "see docs/runbooks/servers.md"))
    return findings


def _advice(error: BaseException) -> str:
    """What an error reply of Redis asks for, if that is why."""
    reply = reply_in(error)
    return "" if reply.cause == "unreachable" else reply.do


async def _redis(reach: Reach) -> list[Finding]:
    async with reach.streams() as streams:
        with contextlib.suppress(Misconfigured):  # a user who may only read is welcome here
            await streams.probe()
        findings = [Finding(check="Redis", state="good", found="answers, and takes writes")]
        warnings = await streams.persistence_warnings()
        findings += [
            Finding(check="Redis, durability", state="bad", found=warning, do="use deploy/redis/redis.conf")
            for warning in warnings
        ]
        if not warnings:
            found = "its settings keep what it accepts, as far as it shows them"
            findings.append(Finding(check="Redis, durability", state="good", found=found))
        vitals = await streams.vitals()
        findings += _memory(vitals)
        if vitals is not None and not (vitals.append_ok and vitals.snapshot_ok):
            findings.append(Finding(
                check="Redis, disk", state="bad", found="its last write to disk failed",
                do="see its log, and whether its disk is full: what it accepts now may be gone after a restart",
            ))  # fmt: skip
        foreign = await streams.foreign_keys(range(await shards_of(streams)))
        findings += [
            Finding(
                check="Redis, streams", state="bad", found=f"{streams.names.intents(shard)} is a {kind}, not a stream",
                do="rename or delete the key: its shard goes on by itself (docs/recovery.md)",
            )
            for shard, kind in foreign.items()
        ]  # fmt: skip
        before = time.time()
        clock_ms = await streams.clock_ms()
        skew_s = abs(clock_ms / 1000 - (before + time.time()) / 2)
        findings.append(_skew("clock against Redis", skew_s))
        return findings


def _memory(vitals: RedisVitals | None) -> list[Finding]:
    """A Redis that is full answers every question, and takes no intent."""
    if vitals is None or not vitals.memory_max:
        return []
    short = vitals.memory_used > USED_SHARE_MAX * vitals.memory_max
    return [Finding(
        check="Redis, memory", state="bad" if short else "good",
        found=f"{size_text(vitals.memory_used)} of {size_text(vitals.memory_max)} used",
        do="raise maxmemory, or find out which stream grew: a full Redis takes no intents" if short else "",
    )]  # fmt: skip


def _skew(check: str, skew_s: float) -> Finding:
    if skew_s <= SKEW_S_MAX:
        return Finding(check=check, state="good", found=f"{skew_s:.1f} s apart")
    return Finding(
        check=check, state="bad", found=f"{skew_s:.1f} s apart: intents may be refused as too old, or from the future",
        do="run NTP on both machines",
    )  # fmt: skip


async def _ensemble(reach: Reach) -> list[Finding]:
    """Each server by itself: one that is gone is not missed until the next one goes."""
    servers = await servers_of(reach.settings.zookeeper.hosts, tls=reach.settings.zookeeper.tls)
    serving = [server for server in servers if server.mode is not None]
    findings = [
        Finding(
            check="ZooKeeper servers", state="warning", found=f"{server.address}: {server.trouble}",
            do="start it, its log says why it ended: without more than half nothing is committed",
        )
        for server in servers if server.mode is None
    ]  # fmt: skip
    if serving:
        modes = ", ".join(f"{server.address} {server.mode}" for server in serving)
        found = f"{len(serving)} of {len(servers)}: {modes}"
        findings.append(Finding(check="ZooKeeper servers", state="good", found=found))
    return findings


async def _zookeeper(reach: Reach) -> list[Finding]:
    started = time.monotonic()
    async with reach.session() as session:
        await Pointers(session).list()
        took_ms = (time.monotonic() - started) * 1000
        return [Finding(check="ZooKeeper", state="good", found=f"answers; connecting and a read took {took_ms:.0f} ms")]


async def _access(reach: Reach) -> list[Finding]:
    """Whether somebody without the password is kept out; nodes that were made before it was set are open to all."""
    check = "ZooKeeper, access"
    if reach.settings.zookeeper.auth is None:
        return []  # said with the settings
    try:
        async with reach.session(anonymous=True) as stranger:
            await stranger.children(TABLES)
    except Misconfigured:  # as it should be
        return [Finding(check=check, state="good", found="for who has the password only")]
    except NotFound:
        return [Finding(check=check, state="good", found="there are no tables yet, so nothing that is open to all")]
    return [Finding(
        check=check, state="bad", found=f"{TABLES} was made without zookeeper.auth: others can move pointers",
        do="give its nodes to the digest user (setAcl -R in zkCli.sh, docs/security.md)",
    )]  # fmt: skip


async def _daemons(reach: Reach) -> list[Finding]:
    async with reach.session() as session, reach.streams() as streams:
        fleet = await fleet_of(
            membership=Membership(session), pointers=Pointers(session), pauses=Pauses(session), streams=streams,
            shards=await shards_of(streams),
        )  # fmt: skip
    findings = [_wrong("daemons", cause) for cause in fleet.causes if cause.table is None]
    if not findings:
        findings.append(Finding(check="daemons", state="good", found=f"{len(fleet.members)}, every shard is read"))
    stuck = sorted((cause for cause in fleet.causes if cause.table is not None), key=lambda cause: cause.text)
    findings += [_wrong("tables", cause) for cause in stuck]
    others = {member.version for member in fleet.members} - {VERSION}
    if fleet.members and not others:
        findings.append(Finding(check="versions", state="good", found=f"{VERSION} everywhere"))
    if others:
        findings.append(Finding(
            check="versions", state="warning",
            found=f"this command is {VERSION}, daemons are {', '.join(sorted(others))}",
            do="use the same version: what a command shows may differ",
        ))  # fmt: skip
    if len(fleet.members) == 1:
        findings.append(Finding(
            check="redundancy", state="warning", found="one daemon: commits wait while it restarts", do="run two",
        ))  # fmt: skip
    return findings


def _wrong(check: str, cause: Cause) -> Finding:
    return Finding(check=check, state="bad", found=one_line(cause.text), do=f"see {cause.runbook}")


async def _stores(reach: Reach) -> list[Finding]:
    """Whether ZooKeeper, Redis and the warehouse are one deployment's."""
    async with reach.session() as session, reach.streams() as streams:
        wrong = await stores_trouble(reach.settings, session=session, streams=streams, files=reach.files)
    if wrong is not None:
        return [
            Finding(
                check=STORES, state="bad", found=one_line(wrong), do="see docs/runbooks/servers.md#firnforeignstore"
            )
        ]
    return [Finding(check=STORES, state="good", found="ZooKeeper, Redis and the warehouse belong together")]


async def _folder(reach: Reach) -> list[Finding]:
    """Whether a local warehouse is the one that the daemons know, and not what is left where its disk is missing."""
    location = reach.settings.warehouse.location
    if scheme_of(location) != FILE_SCHEME:
        return []
    async with reach.session() as session:
        mark = await FolderMarks(session).of(normalize(location))
    if mark is None:
        return []  # no daemon has started with it
    try:
        MarkedFolders({location: mark}).check([location])
    except Unavailable as error:
        return [Finding(check=FOLDER, state="bad", found=one_line(str(error)), do="mount its disk here")]
    return [Finding(check=FOLDER, state="good", found="is the one that the daemons know")]


def _warehouse(reach: Reach) -> list[Finding]:
    """A file is written, read and removed where new tables go; on a file system there must be room, too."""
    location = reach.settings.warehouse.location
    probe = f"{location}/.firn-doctor-{uuid7(now_ms=time.time_ns() // 1_000_000, entropy=os.urandom(10))}"
    try:
        reach.files.create(probe, b"firn doctor")
        readable = reach.files.read(probe, bytes_max=100) == b"firn doctor"
        reach.files.delete(probe)
    except (FirnError, OSError) as error:
        finding = Finding(
            check="warehouse", state="bad", found=one_line(str(error)),
            do="check warehouse.location, its credentials and rights, and that there is room",
        )  # fmt: skip
    else:
        found = f"{location} can be written and read" if readable else f"{location} gives back something else"
        finding = Finding(check="warehouse", state="good" if readable else "bad", found=found)
    return [finding, *_disk(location)]


def _disk(location: str) -> list[Finding]:
    if not location.startswith("/") or not Path(location).is_dir():
        return []
    usage = shutil.disk_usage(location)
    short = usage.free < FREE_SHARE_MIN * usage.total
    return [Finding(
        check="disk", state="bad" if short else "good",
        found=f"{size_text(usage.free)} of {size_text(usage.total)} free",
        do="make room: a full disk stops all commits" if short else "",
    )]  # fmt: skip
