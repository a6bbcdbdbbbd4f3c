"""Writers without firn's client: threads that send plans, hostile intents and damaged copies, and wait for outcomes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from tests.acceptance.hostile_intents import HOSTILE, damaged
from tests.acceptance.outside_board import Board
from tests.acceptance.outside_plans import OPERATIONS, Intent, Plans, new_table, view
from tests.acceptance.outside_wire import Wire, Wish

LIVES: Final = 0.02
"""The part of a writer's turns that begin a table or view of its own."""


class OutsideWriter(threading.Thread):
    """Sends `count` intents to `tables`, and keeps at each until it has an answer or `ends` is set."""

    def __init__(
        self, url: str, board: Board, *, tables: tuple[str, ...], seed: str, count: int, ends: threading.Event
    ) -> None:
        super().__init__(daemon=True, name=f"writer {seed}")
        self.error: BaseException | None = None
        self.sent: list[Wish] = []
        self._rng = random.Random(seed)
        self._wire = Wire(url, self._rng)
        self._plans = Plans(board, tables, self._rng)
        self._board, self._count, self._ends = board, count, ends

    def run(self) -> None:
        try:
            while len(self.sent) < self._count and not self._ends.is_set():
                self._turn()
        except BaseException as error:  # noqa: BLE001 - the programme raises it
            self.error = error
        finally:
            self._wire.close()

    def _turn(self) -> None:
        rng = self._rng
        if rng.random() < LIVES:
            rng.choice((self._table_life, self._view_life))()
            return
        operation = rng.choices(list(OPERATIONS), weights=list(OPERATIONS.values()))[0]
        plans = (self._planned(operation) for _ in range(rng.choice((1, 1, 2, 5))))
        planned = [intent for intent in plans if intent is not None]
        wishes = [self._wire.wish(intent, digest=rng.random() < 0.5) for intent in planned]
        if rng.random() < 0.15:
            wishes.append(self._hostile())
        self._commit(wishes, wrong_shard=rng.random() < 0.03)
        if wishes and rng.random() < 0.1:
            used = rng.choice(wishes)
            self._wire.send(str(used.intent["table"]), damaged(used.intent, rng), until=self._ends.is_set)
        time.sleep(rng.uniform(0, 0.05))

    def _planned(self, operation: str) -> Intent | None:
        try:
            plan: Intent | None = getattr(self._plans, operation)()
        except FileNotFoundError:  # of a version that has expired since it was read
            return None
        return plan

    def _commit(self, wishes: list[Wish], *, wrong_shard: bool = False) -> None:
        self.sent += wishes
        self._wire.commit(wishes, ends=self._ends, wrong_shard=wrong_shard)
        for wish in wishes:
            self._board.note(wish)

    def _one(self, intent: Intent) -> Wish:
        wish = self._wire.wish(intent)
        self._commit([wish])
        return wish

    def _hostile(self) -> Wish:
        table = self._plans.table()
        name = self._rng.choice(list(HOSTILE))
        intent = HOSTILE[name](table, self._plans.data(table, self._board.seen(table)), self._board.seen(table))
        return self._wire.wish(intent, hostile=name)

    def _table_life(self) -> None:
        """A table that is made, replaced, moved, renamed, dropped, and registered again under a third name."""
        name, second, third = (f"db.{self._plans.new_name('t')}" for _ in range(3))
        made = self._one({"operation": "create-table", "table": name, **new_table(version=self._rng.choice((2, 3)))})
        steps: tuple[Callable[[], Intent], ...] = (
            lambda: self._plans.append_to(name),
            lambda: self._plans.replaced(name),
            lambda: self._plans.append_to(name),
            lambda: self._plans.moved(name),
            lambda: self._plans.append_to(name),
            lambda: {"operation": "rename-table", "table": name, "new-name": second},
            lambda: self._plans.append_to(name, under=second),
            lambda: {"operation": "drop-table", "table": second},
        )
        location = ""
        for step in steps:
            if not made.committed or self._rng.random() < 0.1:
                return
            made = self._one(step())
            location = made.outcome.get("metadata-location", location) if made.answers else location
        if made.committed:
            self._one({"operation": "register-table", "table": third, "metadata-location": location})

    def _view_life(self) -> None:
        """A view that is made, replaced, set back, renamed, dropped, and registered again under a third name."""
        name, second, third = (f"db.{self._plans.new_name('v')}" for _ in range(3))
        wish = self._one({"operation": "create-view", "table": name, **view("select 1")})
        changes: tuple[Intent, ...] = (
            {"operation": "replace-view", **view("select 2")},
            {"operation": "update-view-properties", "updates": {"owner": second}},
            {"operation": "set-current-view-version", "version-id": 1},
            {"operation": "rename-view", "new-name": second},
            {"operation": "replace-view", **view("select 3")},
            {"operation": "drop-view"},
        )
        seen: Intent = {}
        location = ""
        for change in changes:
            if not wish.committed or self._rng.random() < 0.1:
                return
            location = wish.outcome.get("metadata-location", location)
            known = wish.outcome["details"]
            seen |= {f"base-{n}": known[n] for n in ("version-id", "timestamp-ms") if n in known}
            wish = self._one({**change, **seen, "table": name})
            name = str(change.get("new-name", name))
        if wish.committed:
            self._one({"operation": "register-view", "table": third, "metadata-location": location})
