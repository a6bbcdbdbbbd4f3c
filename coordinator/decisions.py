"""What has been decided on one table: a fold over its journal, and the place where duplicates are found.

Memory holds the newest `Limits.dedupe_intents_max` intent ids. For an older one the journal's checkpoints are read
backwards, but only when the id itself is older than what memory has let go (a new intent's never is), so in normal
work no file is read. Nothing is ever forgotten: a duplicate gets its first outcome, however late it comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from firn.coordinator.landmarks import LANDMARKS_MAX, Landmarks, landmarks_of
from firn.model.errors import CorruptFile
from firn.model.identifiers import intent_id_ms
from firn.model.journal import Checkpoint, Decided, Segment
from firn.model.landmark import Landmark
from firn.model.limits import Limits
from firn.storage.journal import JournalFiles

CHECKPOINT_SEGMENTS: Final = 256
"""A takeover reads at most this many segments before it meets a checkpoint."""

LANDMARK_CHECKPOINTS_MAX: Final = 32
"""Checkpoints read to tell who made a change that memory does not know of: a courtesy, bounded."""

CHECKPOINT_INTENTS: Final = 10_000
"""A checkpoint lists about this many intents at most (more when one segment alone has more)."""


class Known(msgspec.Struct, frozen=True):
    """Where the decision on an intent stands."""

    digest: str
    segment: str


class Decisions:
    """The folded journal of one table; `add` it segment by segment, oldest first."""

    def __init__(self, journal: JournalFiles, *, limits: Limits) -> None:
        self._journal = journal
        self._limits = limits
        self.head: str | None = None
        self.sequence = 0
        self.last_checkpoint: str | None = None
        self.newest_entry_ms = 0
        # Ordered ones: the first of a plain dict is looked for among all that were deleted before it.
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._forgotten_ms = -1
        self._since: list[tuple[str, str, str]] = []
        self._segments_since = 0
        self._writers: OrderedDict[str, tuple[int, str, str]] = OrderedDict()
        self.landmarks = Landmarks(look_back=self._landmark_before)
        self._new_landmarks: dict[str, Landmark] = {}

    def catch_up(self, head: str | None) -> list[Segment]:
        """Fold everything up to `head` (the pointer's); the segments that were new, oldest first."""
        if head == self.head:
            return []
        fresh: list[Segment] = []
        start: Segment | None = None
        for segment in self._journal.walk(head, until=self.head):
            if self.head is None and segment.checkpoint is not None:
                start = segment
                break
            fresh.append(segment)
        fresh.reverse()
        if self.head is not None and fresh and fresh[0].batch.previous_segment != self.head:
            raise CorruptFile(
                fresh[0].location,
                f"begins a journal of its own: {self.head}, which this daemon has folded, is not in it",
            )
        if start is not None and start.checkpoint is not None:
            self._restore(start, start.checkpoint)
        for segment in fresh:
            self.add(segment)
        return fresh if start is None else [start, *fresh]

    def _restore(self, segment: Segment, checkpoint: Checkpoint) -> None:
        """Start from a checkpoint: its own ids, then older ones until memory has its share."""
        chain = [(segment, checkpoint)]
        count = len(checkpoint.intents)
        previous = segment.batch.previous_checkpoint
        while previous is not None and count < self._limits.dedupe_intents_max:
            older = self._journal.read(previous)
            if older.checkpoint is None:
                raise CorruptFile(previous, "is named as a checkpoint of the journal, but holds none")
            chain.append((older, older.checkpoint))
            count += len(older.checkpoint.intents)
            previous = older.batch.previous_checkpoint
        if previous is not None:
            # What lies further back was decided no later than the oldest one read here was queued, give or take the
            # clock skew that the door lets pass.
            self._forgotten_ms = chain[-1][1].newest_entry_ms + self._limits.clock_skew_minutes_max * 60_000
        for part, record in reversed(chain):
            for intent_id, digest, index in record.intents:
                self._remember(intent_id, digest, record.segments[index])
            self.newest_entry_ms = max(self.newest_entry_ms, record.newest_entry_ms)
            self.last_checkpoint = part.location
            for key, landmark in (*record.landmarks.items(), *landmarks_of(part)):
                self.landmarks.put(key, landmark)
        self._writers = OrderedDict(checkpoint.writers)
        self.head = segment.location
        self.sequence = segment.batch.sequence

    def add(self, segment: Segment) -> None:
        """Fold one segment, the successor of the head."""
        for decided in segment.decided:
            self._remember(decided.intent_id, decided.digest, segment.location)
            self._since.append((decided.intent_id, decided.digest, segment.location))
            self.newest_entry_ms = max(self.newest_entry_ms, decided.entry_ms)
            if decided.writer is not None and decided.writer_sequence is not None:
                self._remember_writer(decided, segment.location)
        for key, landmark in landmarks_of(segment):
            self.landmarks.put(key, landmark)
            self._new_landmarks[key] = landmark
        self._segments_since += 1
        self.head = segment.location
        self.sequence = segment.batch.sequence
        if segment.checkpoint is not None:
            if segment.batch.renamed_from is not None:
                self._take_over(segment.checkpoint)
            self.last_checkpoint = segment.location
            self._since = []
            self._new_landmarks = {}
            self._segments_since = 0

    def _take_over(self, checkpoint: Checkpoint) -> None:
        """What a checkpoint has beyond this journal: it came with a table that was renamed."""
        for intent_id, digest, index in checkpoint.intents:
            if intent_id not in self._known:
                self._remember(intent_id, digest, checkpoint.segments[index])
        self._writers.update(checkpoint.writers)

    def handed_over(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint of another name's journal with what memory has of this one, for a table that is renamed.

        So an intent id is never used twice, and a streaming writer's epoch is not taken again under the new name.
        """
        listed = {intent_id for intent_id, _, _ in checkpoint.intents}
        carried = [(i, known) for i, known in self._known.items() if i not in listed]
        segments = tuple(dict.fromkeys((*(known.segment for _, known in carried), *checkpoint.segments)))
        index = {segment: position for position, segment in enumerate(segments)}
        own = ((i, digest, index[checkpoint.segments[at]]) for i, digest, at in checkpoint.intents)
        return msgspec.structs.replace(
            checkpoint,
            segments=segments,
            intents=(*((i, known.digest, index[known.segment]) for i, known in carried), *own),
            writers={**checkpoint.writers, **self._writers},
            newest_entry_ms=max(checkpoint.newest_entry_ms, self.newest_entry_ms),
        )

    def _remember(self, intent_id: str, digest: str, segment: str) -> None:
        self._known[intent_id] = Known(digest, segment)
        if len(self._known) > self._limits.dedupe_intents_max:
            oldest, _ = self._known.popitem(last=False)
            self._forgotten_ms = max(self._forgotten_ms, intent_id_ms(oldest))

    def _remember_writer(self, decided: Decided, segment: str) -> None:
        assert decided.writer is not None
        assert decided.writer_sequence is not None
        if decided.outcome.__struct_config__.tag != "committed":
            return  # a refused epoch may be tried again under the same number
        known = self._writers.pop(decided.writer, None)
        if known is None or known[0] <= decided.writer_sequence:
            known = (decided.writer_sequence, decided.intent_id, segment)
        self._writers[decided.writer] = known  # re-inserted at the end: the first is the longest silent
        if len(self._writers) > self._limits.writers_max:
            self._writers.popitem(last=False)

    def is_new(self, intent_id: str) -> bool:
        """Whether memory alone tells that the intent was never decided."""
        return intent_id not in self._known and intent_id_ms(intent_id) > self._forgotten_ms

    def find(self, intent_id: str) -> Known | None:
        """Where the intent was decided, None if it was not. May read checkpoints: call it off the event loop."""
        known = self._known.get(intent_id)
        if known is not None:
            return known
        made_ms = intent_id_ms(intent_id)
        if made_ms > self._forgotten_ms:
            return None
        return self._look_back(intent_id, made_ms)

    def _look_back(self, intent_id: str, made_ms: int) -> Known | None:
        location = self.last_checkpoint
        skew_ms = self._limits.clock_skew_minutes_max * 60_000
        while location is not None:
            segment = self._journal.read(location)
            if segment.checkpoint is None:
                raise CorruptFile(location, "is named as a checkpoint of the journal, but holds none")
            if segment.checkpoint.newest_entry_ms < made_ms - skew_ms:
                return None  # everything from here back was queued before this intent was made
            for found, digest, index in segment.checkpoint.intents:
                if found == intent_id:
                    return Known(digest, segment.checkpoint.segments[index])
            location = segment.batch.previous_checkpoint
        return None

    def _landmark_before(self, key: str) -> Landmark | None:
        """The newest landmark of a key that a checkpoint knows."""
        location = self.last_checkpoint
        for _ in range(LANDMARK_CHECKPOINTS_MAX):
            segment = None if location is None else self._journal.read(location)
            if segment is None or segment.checkpoint is None:
                return None
            found = (segment.checkpoint.landmarks | dict(landmarks_of(segment))).get(key)
            if found is not None:
                return found
            location = segment.batch.previous_checkpoint
        return None

    def decided(self, known: Known, intent_id: str) -> Decided:
        """The record itself, read from its segment."""
        return self.decided_in(known.segment, intent_id)

    def decided_in(self, location: str, intent_id: str) -> Decided:
        """The decision on an intent that stands in this segment."""
        for record in self._journal.read(location).decided:
            if record.intent_id == intent_id:
                return record
        raise CorruptFile(location, f"should hold the decision on intent {intent_id}")

    def last_of_writer(self, writer: str) -> tuple[int, str, str] | None:
        """Newest committed sequence number of a streaming writer, its intent id and segment."""
        return self._writers.get(writer)

    def checkpoint_due(self, coming: int) -> bool:
        """Whether a segment with `coming` decisions should carry a checkpoint."""
        return self._segments_since + 1 >= CHECKPOINT_SEGMENTS or len(self._since) + coming >= CHECKPOINT_INTENTS

    @property
    def since_checkpoint(self) -> int:
        """Intents decided since the last checkpoint."""
        return len(self._since)

    def checkpoint_with(self, decided: Sequence[Decided], *, location: str) -> Checkpoint:
        """The checkpoint that a segment at `location` with these decisions is to carry."""
        entries = [*self._since, *((d.intent_id, d.digest, location) for d in decided)]
        segments = list(dict.fromkeys(segment for _, _, segment in entries))
        index = {segment: position for position, segment in enumerate(segments)}
        writers = dict(self._writers)
        for d in decided:
            if (
                d.writer is not None
                and d.writer_sequence is not None
                and d.outcome.__struct_config__.tag == "committed"
            ):
                known = writers.get(d.writer)
                if known is None or known[0] <= d.writer_sequence:
                    writers[d.writer] = (d.writer_sequence, d.intent_id, location)
        return Checkpoint(
            segments=tuple(segments),
            intents=tuple((intent_id, digest, index[segment]) for intent_id, digest, segment in entries),
            writers=writers,
            newest_entry_ms=max([self.newest_entry_ms, *(d.entry_ms for d in decided)]),
            landmarks=dict(list(self._new_landmarks.items())[-LANDMARKS_MAX:]),
        )
