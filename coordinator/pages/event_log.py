"""The newest events as lines of a page, and which of them somebody asks for.

Whoever can reach Redis can write into the stream, so nothing is taken for what it should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from firn.coordinator.replay.rules import RULES
from firn.model.amounts import plural
from firn.model.event import Event
from firn.model.identifiers import is_intent_id
from firn.model.intent import OPERATIONS
from firn.storage.intent_streams import Message

EVENTS_SHOWN: Final = 200
INTENTS_SHOWN: Final = 3

KINDS: Final = (
    "table.committed", "view.committed", "intent.rejected", "intent.repeated", "intent.dead-lettered",
    "reservation.disturbed", "consumer.lapsed", "consumer.lost", "table.paused", "table.resumed",
    "dead-letter.retried", "dead-letter.dropped",
)  # fmt: skip
"""Types of events without their ``firn.``."""

OUTCOMES: Final[Mapping[str, frozenset[str]]] = {
    "committed": frozenset({"table.committed", "view.committed"}),
    "rejected": frozenset({"intent.rejected", "intent.dead-lettered"}),
    "repeated": frozenset({"intent.repeated"}),
}
"""Kinds of events by the outcome of intents that they announce."""

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "event": KINDS,
    "outcome": tuple(OUTCOMES),
    "operation": tuple(sorted(OPERATIONS.values())),
    "rule": tuple(sorted(RULES)),
}
"""What there is to choose from, by the filter; any table and any writer may be asked for."""

_EVENT: Final = msgspec.json.Decoder(Event)


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are wanted; what is empty leaves all in.

    Only events of one intent have an operation and a writer: a commit is of many, which its table's page names.
    """

    table: str = ""
    event: str = ""
    outcome: str = ""
    operation: str = ""
    writer: str = ""
    rule: str = ""

    @property
    def is_set(self) -> bool:
        """Whether anything is left out."""
        return self != EventFilter()

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return what is asked for that no event can have, in words."""
        asked = ((name, getattr(self, name)) for name in CHOICES)
        return tuple(f"{name} {value!r}" for name, value in asked if value and value not in CHOICES[name])

    def takes(self, line: EventLine) -> bool:
        """Whether an event is wanted."""
        return (
            self.table in {"", line.table}
            and self.event in {"", line.kind}
            and (not self.outcome or line.kind in OUTCOMES.get(self.outcome, ()))
            and self.operation in {"", line.operation}
            and self.writer in {"", line.writer, line.against_writer}
            and self.rule in {"", line.rule}
        )

    def address(self, **changes: str) -> str:
        """Return where events are listed by this filter, with changes."""
        asked = {**msgspec.structs.asdict(self), **changes}
        query = urlencode({name: value for name, value in asked.items() if value})
        return f"/events?{query}" if query else "/events"


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is shown. `intents` are the first of `intents_count`; `against_*` is what won, of a rejection."""

    time: str
    kind: str
    table: str
    daemon: str
    text: str = ""
    rule: str = ""
    operation: str = ""
    writer: str = ""
    intents: tuple[str, ...] = ()
    intents_count: int = 0
    snapshots: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    """Tables that a transaction moved, too."""
    against_intent: str = ""
    against_snapshot: int | None = None
    against_writer: str = ""
    against_operation: str = ""


def event_in(data: bytes) -> Event | None:
    """Return the event in a message; None for what somebody else put into the stream."""
    try:
        return _EVENT.decode(data)
    except msgspec.DecodeError:
        return None


def lines_of(messages: Iterable[Message], wanted: EventFilter, *, limit: int) -> tuple[EventLine, ...]:
    """Return the events that are wanted, newest first, of messages that are oldest first."""
    found: list[EventLine] = []
    for message in reversed(list(messages)):
        event = event_in(message.data)
        if event is None:
            continue
        line = line_of(event)
        if wanted.takes(line):
            found.append(line)
            if len(found) == limit:
                break
    return tuple(found)


def line_of(event: Event) -> EventLine:
    """Return an event as it is shown."""
    data, kind = event.data, event.type.removeprefix("firn.")
    intents = _intents(data)
    snapshots = data.get("snapshot-ids") or [data.get("snapshot-id")]
    count = data.get("committed")
    return EventLine(
        time=event.time,
        kind=kind,
        table=event.subject,
        daemon=event.source.removeprefix("firn/"),
        text=_text_of(kind, data),
        rule=_text(data, "rule"),
        operation=_text(data, "operation"),
        writer=_text(data, "writer"),
        intents=intents[:INTENTS_SHOWN],
        intents_count=count if isinstance(count, int) else len(intents),
        snapshots=tuple(one for one in _list(snapshots) if isinstance(one, int))[:INTENTS_SHOWN],
        others=tuple(one for one in _list(data.get("tables")) if isinstance(one, str) and one != event.subject),
        against_intent=_intent(data, "conflicting-intent-id"),
        against_snapshot=one if isinstance(one := data.get("conflicting-snapshot-id"), int) else None,
        against_writer=_text(data, "conflicting-writer"),
        against_operation=_text(data, "conflicting-operation"),
    )


def _text_of(kind: str, data: Mapping[str, Any]) -> str:
    if kind in OUTCOMES["committed"]:
        committed = f"{data.get('committed', '?')} committed"
        return f"{committed}, {data['rejected']} rejected" if data.get("rejected") else committed
    if kind.startswith("consumer."):
        behind = data.get("behind")
        seen = f"{plural(behind, 'snapshot')} behind" if isinstance(behind, int) else "how far behind is not known"
        return f"consumer {data.get('consumer', '?')} of branch {data.get('branch', '?')}, {seen}"
    if kind == "reservation.disturbed":
        return f"reserved: {data.get('reserved', '?')}"
    return _text(data, "message") or _text(data, "reason")


def _intents(data: Mapping[str, Any]) -> tuple[str, ...]:
    listed = tuple(one for one in _list(data.get("intents")) if isinstance(one, str) and is_intent_id(one))
    own = _intent(data, "intent-id")
    return listed or ((own,) if own else ())


def _intent(data: Mapping[str, Any], name: str) -> str:
    text = _text(data, name)
    return text if is_intent_id(text) else ""


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
