"""The journal of a table, made of refusals, in a store that says what was read."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.journal.decisions import Decisions
from firn.model.identifiers import uuid7
from firn.model.journal import Batch, Decided, Segment
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from firn.storage.journal import JournalFiles, pack_segment, segment_location
from firn.storage.memory_files import MemoryFiles

TABLE = "/warehouse/db/events"
HOUR_MS = 3_600_000


class Reads(MemoryFiles):
    """A store that says what was read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def read(self, location: str, *, bytes_max: int) -> bytes:
        self.seen.append(location)
        return super().read(location, bytes_max=bytes_max)


class Journal:
    """The journal of one table, and a fold over it that follows."""

    def __init__(self, *, limits: Limits, table: str = TABLE) -> None:
        self.files = Reads()
        self.limits = limits
        self.table = table
        self.folded = self.opened()

    def opened(self) -> Decisions:
        """Another daemon's fold, which has read nothing yet."""
        return Decisions(JournalFiles(self.files, bytes_max=2**20), limits=self.limits)

    def segment(self, ids: Sequence[str], *, entry_ms: int = 0, epoch: tuple[str, int] | None = None) -> Segment:
        """The next segment, made when the intents were queued and not written yet.

        All are refused, or the `epoch` of a writer, with its sequence number, is committed.
        """
        writer, writer_sequence = epoch or (None, None)
        at = self.folded.sequence + 1
        location = segment_location(self.table, sequence=at, token="token")
        batch = Batch(
            batch="b", table="db.events", table_uuid="u", sequence=at, daemon="d", lock_token=1, timestamp_ms=entry_ms,
            previous_segment=self.folded.head, previous_checkpoint=self.folded.last_checkpoint,
        )  # fmt: skip
        decided = tuple(
            Decided(
                intent_id=one, digest=f"digest of {one}", operation="append", entry="e/0/0-0", entry_ms=entry_ms,
                outcome=(
                    Rejected(intent_id=one, table="db.events", rule="r", message="m", hint="fix") if epoch is None
                    else Committed(intent_id=one, table="db.events", batch="b", latency_ms=0.0)
                ),
                writer=writer, writer_sequence=writer_sequence,
            )
            for one in ids
        )  # fmt: skip
        due = self.folded.checkpoint_due(len(decided))
        checkpoint = self.folded.checkpoint_with(decided, location=location) if due else None
        return Segment(location=location, batch=batch, decided=decided, checkpoint=checkpoint)

    def decide(self, ids: Sequence[str], *, entry_ms: int = 0, epoch: tuple[str, int] | None = None) -> None:
        """Write the next segment and fold it."""
        segment = self.segment(ids, entry_ms=entry_ms, epoch=epoch)
        self.files.create(segment.location, pack_segment(segment))
        self.folded.add(segment)


def id_at(ms: int, number: int = 0) -> str:
    """An intent's id that was made then."""
    return uuid7(now_ms=ms, entropy=number.to_bytes(10, "big"))
