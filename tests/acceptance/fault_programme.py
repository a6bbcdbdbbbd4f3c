"""One run of the fault programme: outside writers, two daemons, random faults, and the check of everything afterwards.

A seed fixes the choices of writers and faults. Their timing depends on the machine.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import redis

from firn.coordinator.cli.exits import EXIT_UNAVAILABLE
from tests.acceptance.faulty_network import FaultyNetwork
from tests.acceptance.outside_board import Board, version_number
from tests.acceptance.outside_checker import TableCheck, check_answers, check_events, check_names, steps_of
from tests.acceptance.outside_history import History, read_metadata, require
from tests.acceptance.outside_plans import new_table
from tests.acceptance.outside_wire import Wire, said
from tests.acceptance.outside_writers import OutsideWriter
from tests.acceptance.stack import SESSION_TIMEOUT_S, DaemonProcess, Stack

TABLES: Final[dict[str, dict[str, Any]]] = {
    "db.two": {"version": 2},
    "db.three": {"version": 3},
    "db.files": {"version": 2, "catalog": "file-system"},
}
BOUND_S: Final = 60.0
"""The longest until an outcome, from when it was sent and no fault is made any more."""

ORPHAN_AGE_S: Final = 30.0
"""Older than anything that a daemon is about to commit here."""

SERVERS: Final = 2
"""Redis and ZooKeeper."""

KEPT: Final = (".json", ".text")
"""Metadata files and the hint that names the newest."""


class FaultProgramme:
    """Writers, faults, and what they have left. Between two faults are at most `calm_s`."""

    def __init__(self, stack: Stack, *, seed: int, intents: int, writers: int, calm_s: float, most_faults: int) -> None:
        self.faults: Counter[str] = Counter()
        self.board = Board()
        self._stack, self._seed, self._intents = stack, seed, intents
        self._writers, self._calm_s, self._most_faults = writers, calm_s, most_faults
        self._rng = random.Random(f"{seed}/faults")
        self._networks: dict[str, FaultyNetwork] = {}
        self._events: dict[str, dict[str, Any]] = {}
        self._pointers: dict[str, dict[str, Any]] = {}
        self._ends = threading.Event()

    def run(self) -> None:
        """Let writers and faults meet, then check everything; an AssertionError says what does not hold."""
        with contextlib.ExitStack() as networks:
            daemons = [self._daemon(name, networks) for name in ("a", "b")]
            for daemon in daemons:
                daemon.wait_ready(BOUND_S)
            self._meet(daemons)
            self._end(daemons)
        self.check()

    def _daemon(self, name: str, networks: contextlib.ExitStack) -> DaemonProcess:
        """Start a daemon that reaches its servers through a network of its own."""
        servers = (self._stack.redis_server.address, self._stack.zookeeper_server.address)
        network = self._networks[name] = networks.enter_context(FaultyNetwork(*servers))
        redis_address, zookeeper_address = network.addresses
        settings = {
            "REDIS_URL": f"redis://{redis_address}/0", "ZOOKEEPER": zookeeper_address,
            "LIMITS_REPLACED_METADATA_MS": "86400000",  # the check reads what was replaced
        }  # fmt: skip
        return self._stack.daemon(name, ready=False, **settings)

    def _meet(self, daemons: list[DaemonProcess]) -> None:
        """Let the writers send what they have while faults are made, until each intent has its outcome."""
        self._create_tables()
        writers = [
            OutsideWriter(
                self._stack.redis_url, self.board, tables=tuple(TABLES), seed=f"{self._seed}/{number}",
                count=self._intents // self._writers, ends=self._ends,
            )
            for number in range(self._writers)
        ]  # fmt: skip
        try:
            for writer in writers:
                writer.start()
            self._make_faults(daemons, writers)
            self._finish(daemons, writers)
        finally:
            self._ends.set()
            for writer in writers:
                writer.join(30)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _make_faults(self, daemons: list[DaemonProcess], writers: list[OutsideWriter]) -> None:
        """One after the other, until the writers have sent most of what they have."""
        enough = 0.8 * self._intents
        while sum(len(writer.sent) for writer in writers) < enough and not any(writer.error for writer in writers):
            time.sleep(self._rng.uniform(0.2, self._calm_s))
            if self.faults.total() >= self._most_faults:
                return
            fault = self._rng.choice(self._faults())
            self.faults[fault.__name__.strip("_")] += 1
            fault(self._rng.choice(daemons))
            for daemon in daemons:
                self._supervise(daemon)

    def _supervise(self, daemon: DaemonProcess) -> None:
        """Start a daemon again that found its servers away when it began, as systemd does; no other ends by itself."""
        if daemon.running:
            return
        was_refused_at_once = len(daemon.last_log.splitlines()) == 1
        require(
            daemon.exit_code == EXIT_UNAVAILABLE and was_refused_at_once,
            f"daemon {daemon.name} ended by itself:\n{daemon.log()[-3000:]}",
        )
        self.faults["servers away at the start"] += 1
        daemon.start(ready=False)

    def _faults(self) -> list[Callable[[DaemonProcess], None]]:
        return [
            self._kill, self._kill, self._stop_past_the_session, self._restart, self._crash_redis, self._empty_redis,
            self._crash_zookeeper, self._remove_orphans, self._lose_replies, self._lose_replies, self._cut_off,
        ]  # fmt: skip

    def _kill(self, daemon: DaemonProcess) -> None:
        daemon.kill()
        time.sleep(self._rng.uniform(0, 1.5))
        daemon.start(ready=False)

    def _stop_past_the_session(self, daemon: DaemonProcess) -> None:
        daemon.pause()
        time.sleep(self._rng.uniform(0.5, 2) * SESSION_TIMEOUT_S)
        daemon.resume()

    def _restart(self, daemon: DaemonProcess) -> None:
        begun = daemon.get("/healthz") is not None  # before that, Python is still starting and SIGTERM ends it
        code = daemon.terminate(BOUND_S)
        require(
            code == 0 or not begun,
            f"daemon {daemon.name} ended with {code} when it was asked to:\n{daemon.log()[-3000:]}",
        )
        daemon.start(ready=False)

    def _crash_redis(self, _daemon: DaemonProcess) -> None:
        self._stack.redis_server.kill()
        time.sleep(self._rng.uniform(0, 1))
        self._stack.redis_server.start()

    def _empty_redis(self, _daemon: DaemonProcess) -> None:
        """FLUSHALL, and in the same moment read all events, as a consumer that follows them would have."""
        patient = redis.Redis.from_url(self._stack.redis_url, socket_timeout=BOUND_S)
        with contextlib.closing(patient), patient.pipeline(transaction=True) as both:
            both.xrange("firn:events")
            both.flushall()
            entries, _ = both.execute()
            self._take_events(entries)

    def _crash_zookeeper(self, _daemon: DaemonProcess) -> None:
        self._stack.zookeeper_server.kill()
        time.sleep(self._rng.uniform(0, 2 * SESSION_TIMEOUT_S))
        self._stack.zookeeper_server.start()

    def _lose_replies(self, daemon: DaemonProcess) -> None:
        """Let requests to Redis or ZooKeeper arrive, such as a swap, and their replies not."""
        network, server = self._networks[daemon.name], self._rng.randrange(SERVERS)
        network.lose(server, "replies")
        time.sleep(self._rng.uniform(0.1, 2 * SESSION_TIMEOUT_S))
        network.restore(server)

    def _cut_off(self, daemon: DaemonProcess) -> None:
        """Part a daemon from all its servers."""
        network = self._networks[daemon.name]
        network.cut()
        time.sleep(self._rng.uniform(0, 2 * SESSION_TIMEOUT_S))
        network.restore()

    def _remove_orphans(self, _daemon: DaemonProcess) -> None:
        """Remove what Iceberg's ``remove_orphan_files`` would: old files that the newest metadata does not reach.

        Files of intents without an outcome stay, and so does old metadata, which the check reads.
        """
        settled = {path for wish in list(self.board.wishes) for path in wish.files}
        before = time.time() - ORPHAN_AGE_S
        for table in TABLES:
            newest = self.board.seen(table)
            folder = newest.location.parent.parent
            kept = _reachable(History(str(newest.location)))
            for path in folder.glob("**/*"):
                name = str(path)
                hidden = any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
                waits = name not in settled and (name in self.board.files or path.name.startswith(("stats_", "m_")))
                if hidden or waits or name in kept or path.suffix in KEPT or not path.is_file():
                    continue
                if path.stat().st_mtime < before:
                    path.unlink()
                    self.faults["files removed"] += 1

    # -- the end ------------------------------------------------------------------------------------------------------

    def _create_tables(self) -> None:
        wire = Wire(self._stack.redis_url, random.Random(f"{self._seed}/tables"))
        try:
            wishes = [wire.wish({"operation": "create-table", "table": t, **new_table(**o)}) for t, o in TABLES.items()]
            wire.commit(wishes, ends=self._ends)
            for wish in wishes:
                require(wish.committed, f"cannot create tables: {wish.outcome}")
                self.board.note(wish)
        finally:
            wire.close()

    def _finish(self, daemons: list[DaemonProcess], writers: list[OutsideWriter]) -> None:
        """Every wish has its outcome in time; asked again, a sample of them has the same."""
        calm_since = time.monotonic()
        for daemon in daemons:
            with contextlib.suppress(AssertionError):  # it may still find out that its servers were away
                daemon.wait_ready(BOUND_S)
            self._supervise(daemon)
            daemon.wait_ready(BOUND_S)
        while any(writer.is_alive() for writer in writers):
            waiting = [w for writer in writers for w in writer.sent if not w.answers]
            late = [w for w in waiting if time.monotonic() - max(w.sent_at, calm_since) > BOUND_S]
            require(not late, f"no outcome within {BOUND_S} s: {[w.intent for w in late]}")
            time.sleep(0.05)
        for writer in writers:
            if writer.error is not None:
                raise writer.error
        self._ask_again()

    def _ask_again(self) -> None:
        wishes = self.board.wishes
        wire = Wire(self._stack.redis_url, random.Random(f"{self._seed}/again"))
        late = threading.Timer(BOUND_S, self._ends.set)
        late.start()
        try:
            for wish in self._rng.sample(wishes, min(len(wishes), 10 + len(wishes) // 20)):
                wire.ask_again(wish, ends=self._ends)
                require(not self._ends.is_set(), f"asked again and not answered: {wish.intent}")
        finally:
            late.cancel()
            wire.close()

    def _end(self, daemons: list[DaemonProcess]) -> None:
        """Drain the daemons, and take what they leave in ZooKeeper and Redis."""
        for daemon in daemons:
            require(daemon.terminate(BOUND_S) == 0, f"daemon {daemon.name} did not end well:\n{daemon.log()[-3000:]}")
            before, found, after = daemon.log().partition("Traceback")
            require(not found, f"daemon {daemon.name} had a traceback:\n{before[-1500:]}{found}{after[:3000]}")
        self._take_events(self._stack.redis.xrange("firn:events"))
        self._pointers = dict(self._read_pointers())

    def check(self) -> None:
        """Compare storage with the outcomes; raise a HistoryFault where they differ."""
        check_answers(self.board.wishes)
        check_names(self.board.wishes, self._pointers)
        steps = steps_of(self.board.wishes)
        for history in _histories(self._pointers):
            TableCheck(history, steps, self.board.files).run()
            check_events(history, steps, self._events.values())

    def _read_pointers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        with self._stack.zookeeper() as client:
            client.sync("/")
            for node in client.get_children("/tables"):
                yield unquote(node), json.loads(client.get(f"/tables/{node}")[0])

    def _take_events(self, entries: Any) -> None:
        for _, fields in entries:
            event = json.loads(fields[b"event"])
            key = f"{event['type']} {event['id']} {event['subject']}"
            known = self._events.setdefault(key, event)
            rejected = event["type"] == "firn.intent.rejected"  # decided anew after FLUSHALL, where no journal has it
            same = said(known["data"]) == said(event["data"]) if rejected else known["data"] == event["data"]
            require(same, f"one event id with two contents: {known} and {event}")


def _histories(pointers: dict[str, dict[str, Any]]) -> Iterator[History]:
    """Yield the history of each table once, although it may have, or have had, several names."""
    newest: dict[str, str] = {}
    for pointer in pointers.values():
        location = pointer.get("metadata-location")
        if pointer["kind"] != "table" or location is None:
            continue
        if pointer["catalog"] == "file-system":
            location = max(map(str, Path(location).parent.glob("v*.metadata.json")), key=version_number)
        table = str(read_metadata(location)["table-uuid"])
        newest[table] = max(newest.get(table, location), location, key=version_number)
    return map(History, newest.values())


def _reachable(history: History) -> set[str]:
    """All files that the snapshots of the newest version need."""
    newest = history.newest
    found = {*newest.statistics().values(), *newest.statistics("partition-statistics").values()}
    for snapshot in history.newest.snapshots.values():
        found |= history.files_of(snapshot)
    return found
