"""Quarantine: entries over which daemons may have died go to their lanes a few at a time, and nothing else meanwhile.

A daemon that dies takes all with it that it had been handed, and each of these has one delivery more. So deliveries
alone do not tell an intent that takes daemons down from those that were under way beside it. What was delivered half as
often as makes poison, and never decided, is a *suspect*: suspects are handed over in groups that get smaller with every
delivery, and alone in the end. See docs/decisions/0008-fairness.md.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from firn.coordinator.lanes.lanes import Lanes

GROUPS: Final = (1, 8, 64, 512)
"""How many may be under way together, by the deliveries that are left before the last ones: a group over which a daemon
has died is handed over again in eight parts."""

ALONE_DELIVERIES: Final = 3
"""An entry's last deliveries before it is set aside: in these it is alone, and the last one only refuses it."""

QUIET_S: Final = 1.0
"""What was handed over so long ago and is still under way waits for a server: it is not what a daemon dies over now."""

ALONE_S: Final = 5.0
ALONE_S_MIN: Final = 0.1
"""How long a group keeps everything else waiting at most: what takes a daemon down does so soon, the rest waits for
servers. Half as long after each group that did not get ready, so that a store that hangs under many tables holds the
others up for some 10 s altogether."""

WISH_S: Final = 1.0
"""How long others wait for a suspect that is to come, and of which nothing has been heard since."""


class _Suspect(msgspec.Struct):
    table: str | None
    group_max: int
    until: float
    overdue: bool = False


class Quarantine:
    """Says of all entries of a daemon that were handed out before which may be handed over now."""

    def __init__(self, lanes: Lanes, *, deliveries_max: int) -> None:
        self._lanes = lanes
        self._deliveries_max = deliveries_max
        self._suspect_from = max(2, deliveries_max // 2)
        self._inside: dict[tuple[int, str], _Suspect] = {}
        """Suspects that are under way, by shard and entry id."""
        self._alone_s = ALONE_S
        self._wished_until = 0.0
        self._others_at = 0.0

    def is_suspect(self, deliveries: int) -> bool:
        """Whether an entry that was delivered so often goes through here."""
        return deliveries >= self._suspect_from

    def group_max(self, deliveries: int) -> int:
        """How many suspects may be under way together, one of which was delivered so often."""
        left = self._deliveries_max + 1 - deliveries - ALONE_DELIVERIES
        return GROUPS[max(0, min(left, len(GROUPS) - 1))]

    def others_wait(self) -> bool:
        """Whether nothing but suspects is to be handed over now."""
        return bool(self._wished_until or self._inside) and (self._is_wished() or bool(self._group()))

    def others_admitted(self) -> None:
        """Entries that are no suspects are on their way to lanes."""
        self._others_at = time.monotonic()

    def has_room(self, deliveries: int) -> bool:
        """Whether a suspect that was delivered so often may be handed over now. If not, others are to wait for it."""
        group = self._group()
        if group:
            room = len(group) < min(self.group_max(deliveries), *(one.group_max for one in group))
        else:
            room = self._is_quiet()
        self._wished_until = 0.0 if room else time.monotonic() + WISH_S
        return room

    def admit(self, shard: int, entry_id: str, *, table: str | None, deliveries: int) -> None:
        """A suspect, for which there was room and which counts as under way, is handed over."""
        until = time.monotonic() + self._alone_s
        self._inside[shard, entry_id] = _Suspect(table, self.group_max(deliveries), until)

    def keeps(self, table: str) -> bool:
        """Whether a suspect of the table is overdue: those behind it would only wait for it, and others for them."""
        if not self._inside:
            return False
        self._group()
        return any(one.overdue and one.table == table for one in self._inside.values())

    def _group(self) -> list[_Suspect]:
        """Suspects that are under way and not overdue."""
        if not self._inside:
            return []
        now, late = time.monotonic(), False
        for (shard, entry_id), one in list(self._inside.items()):
            if not self._lanes.under_way(shard, entry_id):
                del self._inside[shard, entry_id]
            elif now > one.until and not one.overdue:
                one.overdue = late = True
        if late:
            self._alone_s = max(ALONE_S_MIN, self._alone_s / 2)
        return [one for one in self._inside.values() if not one.overdue]

    def _is_quiet(self) -> bool:
        """Whether nothing is under way over which the daemon might die now."""
        others = self._lanes.all_under_way() - len(self._inside)
        return others <= 0 or time.monotonic() - self._others_at > QUIET_S

    def _is_wished(self) -> bool:
        return time.monotonic() < self._wished_until
