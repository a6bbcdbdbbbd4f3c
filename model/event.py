"""Events for live consumers: CloudEvents 1.0 in structured JSON, a projection of the journal.

Types: ``firn.table.committed`` and ``firn.view.committed`` (one per swap that changed metadata: the metadata log),
``firn.intent.rejected`` (one per rejection: the conflict log), ``firn.intent.repeated`` (one for each intent that
repeated a streaming writer's epoch), ``firn.intent.dead-lettered``,
``firn.reservation.disturbed``, and what operators did: ``firn.table.paused``, ``firn.table.resumed``, ``firn.dead-
letter.retried``, ``firn.dead-letter.dropped``. Of consumers of a table's changes: ``firn.consumer.lapsed`` (expiry does
not wait for it any longer) and ``firn.consumer.lost`` (what it has not read has expired). An event's id is derived from
the batch (and the table, where a batch moved several), the intent (and the digest, of content that came later under a
used id) or the consumer, so that one that is delivered twice can be dropped.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from firn.model.consumer import ConsumerStatus, TableConsumers
from firn.model.effects import snapshots_on
from firn.model.journal import Segment, committed, rejected
from firn.model.outcome import Committed, Rejected
from firn.model.pause import Pause
from firn.model.reservation import Disturbance, Reservation
from firn.model.traceparent import trace_id_in

SOURCE: Final = "firn"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One CloudEvent; `subject` is the table or view.

    `traceparent` (an extension of CloudEvents) is there where the event is of one intent that carried it.
    """

    specversion: str = "1.0"
    id: str
    source: str
    type: str
    subject: str
    time: str
    datacontenttype: str = "application/json"
    traceparent: str | msgspec.UnsetType = msgspec.UNSET
    data: dict[str, Any]

    @property
    def time_ms(self) -> int | None:
        """Its time in Unix milliseconds; None where somebody else wrote it otherwise."""
        try:
            return int(datetime.fromisoformat(self.time).timestamp() * 1000)
        except ValueError:
            return None


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")


def table_event(segment: Segment, *, events_bytes_max: int) -> Event | None:
    """The metadata-log event of one swap, or None if it changed no metadata.

    The list of intents is cut (and says so) when it would not fit into `events_bytes_max`; the journal keeps them all.
    """
    batch = segment.batch
    if batch.base_metadata == batch.new_metadata:
        return None
    done = committed(segment)
    fit = max(1, events_bytes_max // 64)
    snapshots = sorted(snapshots_on(batch.table, segment.decided))
    return Event(
        id=f"{batch.batch}/{batch.table}" if batch.others else batch.batch,
        source=f"{SOURCE}/{batch.daemon}",
        type=f"firn.{batch.kind}.committed",
        subject=batch.table,
        time=_time(batch.timestamp_ms),
        data={
            "table-uuid": batch.table_uuid,
            "base-metadata": batch.base_metadata,
            "metadata-location": batch.new_metadata,
            "snapshot-ids": [snapshot for _, snapshot in snapshots],
            "committed": len(done),
            "rejected": len(rejected(segment)),
            "intents": [o.intent_id for o in done[:fit]],
            "intents-cut": len(done) > fit,
            "retried": len(segment.retried),
            "journal-segment": segment.location,
        }
        | _traces(segment, fit=fit)
        | ({} if batch.transaction is None else {"transaction": batch.transaction, "tables": _tables(segment)}),
    )


def _traces(segment: Segment, *, fit: int) -> dict[str, Any]:
    """The traces of what was committed, cut as the intents are; nothing when no intent carried one."""
    kept = (d.trace_id for d in segment.decided if d.trace_id is not None and isinstance(d.outcome, Committed))
    traces = list(dict.fromkeys(map(trace_id_in, kept)))
    return {"trace-ids": traces[:fit]} if traces else {}


def _tables(segment: Segment) -> list[str]:
    """The tables that the swap moved together."""
    return sorted((segment.batch.table, *(other.table for other in segment.batch.others)))


def rejection_event(
    outcome: Rejected,
    *,
    daemon: str,
    timestamp_ms: int,
    operation: str | None = None,
    writer: str | None = None,
    dead_letter: bool = False,
) -> Event:
    """The conflict-log event of one rejection: the outcome, with what was asked for and by whom if that is known."""
    asked = {"operation": operation, "writer": writer}
    return Event(
        id=outcome.intent_id,
        source=f"{SOURCE}/{daemon}",
        type="firn.intent.dead-lettered" if dead_letter else "firn.intent.rejected",
        subject=outcome.table,
        time=_time(timestamp_ms),
        traceparent=outcome.traceparent or msgspec.UNSET,
        data=msgspec.to_builtins(outcome) | {name: value for name, value in asked.items() if value is not None},
    )


def repeat_event(
    outcome: Committed,
    *,
    operation: str,
    writer: str | None,
    writer_sequence: int | None,
    daemon: str,
    timestamp_ms: int,
) -> Event:
    """Return the event of an intent that repeated a streaming writer's epoch: its outcome, and which epoch it was."""
    return Event(
        id=outcome.intent_id,
        source=f"{SOURCE}/{daemon}",
        type="firn.intent.repeated",
        subject=outcome.table,
        time=_time(timestamp_ms),
        traceparent=outcome.traceparent or msgspec.UNSET,
        data=msgspec.to_builtins(outcome)
        | {"operation": operation, "writer": writer, "writer-sequence": writer_sequence},
    )


def pause_event(table: str, pause: Pause, *, paused: bool) -> Event:
    """The event that an operator paused a table, or resumed it (then `pause` says who did, and when)."""
    what = "paused" if paused else "resumed"
    return Event(
        id=f"{what}/{table}/{pause.since_ms}",
        source=f"{SOURCE}/{pause.by}",
        type=f"firn.table.{what}",
        subject=table,
        time=_time(pause.since_ms),
        data=msgspec.to_builtins(pause),
    )


def letter_event(what: str, *, letter_id: str, table: str, data: dict[str, Any], by: str, timestamp_ms: int) -> Event:
    """The event that an operator has ``retried`` or ``dropped`` a dead letter."""
    return Event(
        id=f"{what}/{letter_id}/{timestamp_ms}",
        source=f"{SOURCE}/{by}",
        type=f"firn.dead-letter.{what}",
        subject=table,
        time=_time(timestamp_ms),
        data=data,
    )


def disturbance_event(reservation: Reservation, disturbance: Disturbance, *, daemon: str) -> Event:
    """The event that a commit touched what somebody had reserved, for the holder who does not renew all the time."""
    reserved = msgspec.to_builtins(reservation)
    reserved.pop("scope", None)  # the holder knows, and it may be long
    return Event(
        id=f"{disturbance.batch}/{reservation.reservation_id}",
        source=f"{SOURCE}/{daemon}",
        type="firn.reservation.disturbed",
        subject=reservation.table,
        time=_time(disturbance.timestamp_ms),
        data={**reserved, "reserved": str(reservation.scope), "disturbance": msgspec.to_builtins(disturbance)},
    )


def consumer_event(found: TableConsumers, status: ConsumerStatus, *, daemon: str, timestamp_ms: int) -> Event:
    """The event that a consumer of a table's changes is ``lapsed`` or ``lost``."""
    consumer = status.consumer
    return Event(
        id=f"{status.state}/{found.table_uuid}/{consumer.name}/{consumer.updated_ms}",
        source=f"{SOURCE}/{daemon}",
        type=f"firn.consumer.{status.state}",
        subject=found.table,
        time=_time(timestamp_ms),
        data={
            "table-uuid": found.table_uuid,
            "consumer": consumer.name,
            "branch": consumer.branch,
            "snapshot-id": consumer.snapshot_id,
            "updated-ms": consumer.updated_ms,
            "hold-days": consumer.hold_days,
            "behind": status.behind,
            "lag-ms": status.lag_ms,
        },
    )
