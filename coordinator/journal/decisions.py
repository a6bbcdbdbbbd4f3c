"""What has been decided on one table: a fold over its journal, and the place where duplicates are found.

Memory holds the intents that were decided since the last checkpoint, and of the `Limits.dedupe_intents_max` before
them in which checkpoint they stand. For an older one the journal's checkpoints are read backwards, but only when the id
itself is older than what memory has let go. A new intent's is not, also when other writers' clocks are ahead: the ids
that say a later time than when they were queued stay known until that time has come (see `ids_ahead`). So in normal
work no file is read. Nothing is ever forgotten: a duplicate gets its first outcome, however late it comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from firn.coordinator.journal.decided_ids import REFUSED_AHEAD_MS, ListedIds, timed_ids
from firn.coordinator.journal.ids_ahead import IdsAhead
from firn.coordinator.journal.landmarks import LANDMARKS_MAX, Landmarks, landmarks_of
from firn.coordinator.journal.looked_back import LookedBack
from firn.coordinator.journal.old_segments import UNREADABLE, OldSegments
from firn.coordinator.journal.writers import LastEpoch, StreamingWriters
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.identifiers import intent_id_ms, intent_ids_ms
from firn.model.journal import Checkpoint, Decided, Segment
from firn.model.landmark import Landmark
from firn.model.limits import Limits
from firn.storage.journal import JournalFiles, sequence_of

CHECKPOINT_SEGMENTS: Final = 256
"""A takeover reads at most this many segments before it meets a checkpoint."""

LANDMARK_CHECKPOINTS_MAX: Final = 32
"""Checkpoints read to tell who made a change that memory does not know of: a courtesy, bounded."""

CHECKPOINT_INTENTS: Final = 4_000
"""A checkpoint lists about this many intents at most (more when one segment alone has more): its commit takes half a
microsecond longer for each of them, and everybody waits for it."""

CHECKPOINTS_KEPT_MIN: Final = 2
"""Checkpoints whose ids stay in memory in any case: intents of one time do not come in the order of their ids."""

LOOK_BEHIND_MS: Final = 60_000
"""How much further back than wanted is read where times are not exact: for intents that were made a little before."""

LOOKED_BACK_BYTES_MAX: Final = 8 * 1024 * 1024
"""Room for a million ids that were looked back into: who makes ids that are older than what memory has let go, because
the clock is behind, has the same checkpoints looked at with each of them."""

RECENT_BYTES: Final = 600
"""What an intent takes that was decided since the last checkpoint, about, with a segment of its own."""


class Known(msgspec.Struct, frozen=True, gc=False):
    """Where the decision on an intent stands."""

    digest: str
    segment: str


class Decisions:
    """The folded journal of one table; `add` it segment by segment, oldest first."""

    def __init__(self, journal: JournalFiles, *, limits: Limits) -> None:
        self._journal = journal
        self._old = OldSegments(journal)
        self._limits = limits
        self._start_over()

    def _start_over(self) -> None:
        """Know nothing."""
        self.head: str | None = None
        self.sequence = 0
        self.last_checkpoint: str | None = None
        self.newest_entry_ms = 0
        self._recent: dict[str, Known] = {}
        """What was decided since the last checkpoint."""
        self._older: deque[ListedIds] = deque()
        """What the checkpoints before that list, oldest first."""
        self._ahead = self._none_ahead()
        """Of the ids that checkpoints list those that say a later time than when they were queued: all of those in
        `_older`, and of those before them all that say a later time than `_forgotten_ms`, too."""
        self._forgotten_ms = -1
        """No other id that memory has let go says a later time."""
        self._is_learning = False
        """Whether it is only known that they can say no later time, and not yet what they say."""
        self._listed_ms = -1
        """No id that any checkpoint lists does."""
        self._looked_back = LookedBack(bytes_max=LOOKED_BACK_BYTES_MAX)
        """What checkpoints list that memory has let go, and that were read since."""
        self._last_read: tuple[str, dict[str, Known]] | None = None
        self._segments_since = 0
        self._writers = StreamingWriters()
        self.landmarks = Landmarks(look_back=self._landmark_before)
        self._new_landmarks: dict[str, Landmark] = {}

    def catch_up(self, head: str | None) -> list[Segment]:
        """Fold everything up to `head` (the pointer's); the segments that were new, oldest first.

        Starts from the last checkpoint where that is less to read.
        """
        if head == self.head:
            return []
        if head is not None and self.head is not None and sequence_of(head) > self.sequence + CHECKPOINT_SEGMENTS:
            self._start_over()
        fresh: list[Segment] = []
        start: Segment | None = None
        for segment in self._journal.walk(head, until=self.head):
            if self.head is not None and segment.batch.sequence <= self.sequence:
                raise CorruptFile(
                    segment.location,
                    f"begins a journal of its own: {self.head}, which this daemon has folded, is not in it",
                )
            if self.head is None and segment.checkpoint is not None:
                start = segment
                break
            fresh.append(segment)
        fresh.reverse()
        if start is not None and start.checkpoint is not None:
            self._restore(start, start.checkpoint)
        for segment in fresh:
            self.add(segment)
        return fresh if start is None else [start, *fresh]

    def _restore(self, segment: Segment, checkpoint: Checkpoint) -> None:
        """Start from a checkpoint: its own ids, then older ones until memory has its share.

        One of those that cannot be read is in the way of those alone that may be listed there (`find`).
        """
        read = [(segment, checkpoint)]
        count = len(checkpoint.intents)
        previous = segment.batch.previous_checkpoint
        while previous is not None and count < self._limits.dedupe_intents_max:
            try:
                older = self._old.checkpoint(previous)
            except UNREADABLE:
                break
            read.append(older)
            count += len(older[1].intents)
            previous = older[0].batch.previous_checkpoint
        if previous is not None:
            self._forgotten_ms = self._listed_ms = self._newest_before(read[-1][1])
            self._is_learning = True
        for part, record in reversed(read):
            self._remember_listed(part, record)
            self.newest_entry_ms = max(self.newest_entry_ms, record.newest_entry_ms)
            self.last_checkpoint = part.location
            for key, landmark in (*record.landmarks.items(), *landmarks_of(part)):
                self.landmarks.put(key, landmark)
        self._writers = StreamingWriters(checkpoint.writers)
        self.head = segment.location
        self.sequence = segment.batch.sequence

    def add(self, segment: Segment) -> None:
        """Fold one segment, the successor of the head."""
        self._last_read = None
        location, recent, newest_ms = segment.location, self._recent, self.newest_entry_ms
        for decided in segment.decided:
            recent[decided.intent_id] = Known(decided.digest, location)
            newest_ms = max(newest_ms, decided.entry_ms)
            if decided.writer_sequence is not None:
                self._writers.note(decided, location)
        self.newest_entry_ms = newest_ms
        for key, landmark in landmarks_of(segment):
            self.landmarks.put(key, landmark)
            self._new_landmarks[key] = landmark
        self._segments_since += 1
        self.head = segment.location
        self.sequence = segment.batch.sequence
        if segment.checkpoint is not None:
            if segment.batch.renamed_from is not None:
                self._writers = StreamingWriters(segment.checkpoint.writers)
            self.newest_entry_ms = max(self.newest_entry_ms, segment.checkpoint.newest_entry_ms)
            self._remember_listed(segment, segment.checkpoint)
            self.last_checkpoint = segment.location
            self._recent = {}
            self._new_landmarks = {}
            self._segments_since = 0

    def handed_over(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint of another name's journal with what memory has of this one, for a table that is renamed.

        So an intent id is never used twice, and a streaming writer's epoch is not taken again under the new name. Reads
        the checkpoints whose ids memory has.
        """
        listed = {intent_id for intent_id, _, _ in checkpoint.intents}
        older = [item for ids in self._older for item in self._listed_at(ids.location).items()]
        carried = [(i, known) for i, known in (*older, *self._recent.items()) if i not in listed]
        segments = tuple(dict.fromkeys((*(known.segment for _, known in carried), *checkpoint.segments)))
        index = {segment: position for position, segment in enumerate(segments)}
        own = ((i, digest, index[checkpoint.segments[at]]) for i, digest, at in checkpoint.intents)
        return msgspec.structs.replace(
            checkpoint,
            segments=segments,
            intents=(*((i, known.digest, index[known.segment]) for i, known in carried), *own),
            writers=checkpoint.writers | self._writers.together_with((), segment=""),
            newest_entry_ms=max(checkpoint.newest_entry_ms, self.newest_entry_ms),
        )

    def _none_ahead(self) -> IdsAhead:
        return IdsAhead(
            bytes_max=self._limits.ids_ahead_bytes_max,
            read=lambda location: timed_ids(self._old.checkpoint(location)[1]),
        )

    def _remember_listed(self, segment: Segment, checkpoint: Checkpoint) -> None:
        """Keep the ids of a checkpoint, the newest; old ones go when there are too many."""
        queued_ms = max(checkpoint.newest_entry_ms, self._older[-1].queued_ms if self._older else -1)
        timed = timed_ids(checkpoint)
        ids = ListedIds(segment, timed, queued_ms=queued_ms, older_ms=self._newest_before(checkpoint))
        self._older.append(ids)
        self._listed_ms = max(self._listed_ms, timed.latest_ms)
        if timed.latest_ms > queued_ms:
            self._ahead.add(ids.location, timed.later_than(queued_ms))
        while len(self._older) > 1 and sum(map(len, self._older)) > self._limits.dedupe_intents_max:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        ids = self._older.popleft()
        self._forgotten_ms = max(self._forgotten_ms, ids.newest_ms)
        self._ahead.let_go(min(self._forgotten_ms, ids.queued_ms))

    def _newest_before(self, checkpoint: Checkpoint) -> int:
        """The latest time that an id can say which was decided before those that the checkpoint lists.

        An older version did not note it: but all of them were queued no later than its own, and what says a much later
        time was refused for it (`REFUSED_AHEAD_MS`).
        """
        if checkpoint.older_id_ms is not None:
            return checkpoint.older_id_ms
        return checkpoint.newest_entry_ms + max(self._limits.clock_skew_minutes_max * 60_000, REFUSED_AHEAD_MS)

    def make_small(self) -> None:
        """Keep no more ids than intents of one time may have: a repeat of an older one is found by reading."""
        while len(self._older) > CHECKPOINTS_KEPT_MIN:
            self._forget_oldest()
        self._ahead.make_small()
        self._looked_back.clear()

    @property
    def memory(self) -> int:
        """Bytes that the ids take, about."""
        kept = self._ahead.memory + self._looked_back.memory
        return len(self._recent) * RECENT_BYTES + sum(ids.memory for ids in self._older) + kept

    def _listed_at(self, location: str) -> dict[str, Known]:
        """What a checkpoint lists. The last one is at hand until the next segment: repeats come together."""
        if self._last_read is None or self._last_read[0] != location:
            _, checkpoint = self._old.checkpoint(location)
            listed = {i: Known(digest, checkpoint.segments[index]) for i, digest, index in checkpoint.intents}
            self._last_read = location, listed
        return self._last_read[1]

    def are_new(self, intent_ids: Sequence[str]) -> bool:
        """Whether memory alone tells that none of these intents was ever decided."""
        if not self._recent.keys().isdisjoint(intent_ids):
            return False
        listed_ms = self._listed_ms
        timed = zip(intent_ids, intent_ids_ms(intent_ids), strict=True)
        return all(made_ms > listed_ms or self._is_in_none(intent_id, made_ms) for intent_id, made_ms in timed)

    def _is_in_none(self, intent_id: str, made_ms: int) -> bool:
        """Whether memory alone tells that no checkpoint lists an id."""
        return (
            made_ms > self._forgotten_ms
            and next(self._older_places_of(intent_id, made_ms), None) is None
            and self._ahead.is_new(intent_id, made_ms)
        )

    def _older_places_of(self, intent_id: str, made_ms: int) -> Iterator[str]:
        """The checkpoints that memory knows of and that may list an id, but for those that list it as one ahead."""
        for ids in reversed(self._older):
            if ids.queued_ms < made_ms:
                return  # so are all before it
            if ids.lists(intent_id, made_ms):
                yield ids.location

    def find(self, intent_id: str) -> Known | None:
        """Where the intent was decided, None if it was not. May read checkpoints: call it off the event loop.

        Raises what reading one raises (`UNREADABLE`): then it is not known.
        """
        known = self._recent.get(intent_id)
        if known is not None:
            return known
        made_ms = intent_id_ms(intent_id)
        if made_ms > self._listed_ms:
            return None
        for location in chain(self._older_places_of(intent_id, made_ms), self._ahead.places_of(intent_id, made_ms)):
            known = self._listed_at(location).get(intent_id)
            if known is not None:
                return known
        if not self._ahead.covers(made_ms):
            return self._look_back(intent_id, made_ms, self.last_checkpoint)
        if made_ms > self._forgotten_ms:
            return None
        before = self._older[0].before if self._older else self.last_checkpoint
        look_back = self._learn if self._is_learning else self._look_back
        return look_back(intent_id, made_ms, before)

    def _look_back(self, intent_id: str, made_ms: int, location: str | None) -> Known | None:
        """As `find`, in the checkpoint at `location` and those before it."""
        while location is not None:
            ids = self._looked_back.find(location)
            if ids is None:
                segment, checkpoint = self._old.checkpoint(location)
                timed = timed_ids(checkpoint)
                all_ms = timed.latest_ms  # whatever their writers' clocks
                ids = ListedIds(segment, timed, queued_ms=all_ms, older_ms=self._newest_before(checkpoint))
                self._looked_back.keep(ids)
            known = self._listed_at(location).get(intent_id) if ids.lists(intent_id, made_ms) else None
            if known is not None or ids.older_ms < made_ms:
                return known
            location = ids.before
        return None

    def _learn(self, intent_id: str, made_ms: int, location: str | None) -> Known | None:
        """As `_look_back`, where it is not known how far ahead the clocks of writers were.

        Memory knows afterwards what it has to know of what was read, so that it need not be read again for others.
        """
        rest_ms = newest_ms = queued_ms = -1
        ahead = self._none_ahead()
        while location is not None:
            segment, checkpoint = self._old.checkpoint(location)
            for found, digest, index in checkpoint.intents:
                if found == intent_id:
                    return Known(digest, checkpoint.segments[index])
            queued_ms = max(queued_ms, checkpoint.newest_entry_ms)
            timed = timed_ids(checkpoint)
            newest_ms = max(newest_ms, timed.until(queued_ms).latest_ms)
            ahead.add(location, [one for one in timed if queued_ms < one[0] <= self._forgotten_ms])
            rest_ms = self._newest_before(checkpoint)
            if rest_ms < made_ms - LOOK_BEHIND_MS or (rest_ms < made_ms and checkpoint.older_id_ms is not None):
                break  # everything from here back was made before this intent
            location = segment.batch.previous_checkpoint
        else:
            rest_ms = -1
        if max(rest_ms, newest_ms) < self._forgotten_ms:
            self._forgotten_ms = max(rest_ms, newest_ms)
            self._ahead.absorb(ahead)
        self._is_learning = rest_ms > newest_ms
        return None

    def _landmark_before(self, key: str) -> Landmark | None:
        """The newest landmark of a key that a checkpoint knows, as far back as they can be read."""
        location = self.last_checkpoint
        for _ in range(LANDMARK_CHECKPOINTS_MAX):
            try:
                segment = None if location is None else self._journal.read(location)
            except (CorruptFile, InvalidInput, NotFound):
                return None  # a courtesy: it must not cost those in the same batch their outcomes
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

    def segment(self, location: str) -> Segment:
        """Return a segment of the journal. Raises one of `UNREADABLE`."""
        return self._old.read(location)

    def decided_in(self, location: str, intent_id: str) -> Decided:
        """The decision on an intent that stands in this segment. Raises one of `UNREADABLE`."""
        for record in self._old.read(location).decided:
            if record.intent_id == intent_id:
                return record
        raise CorruptFile(location, f"should hold the decision on intent {intent_id}")

    def look_again(self) -> None:
        """What could not be read of the journal may be there again."""
        self._old.look_again()

    def last_of_writer(self, writer: str) -> LastEpoch | None:
        """Newest committed sequence number of a streaming writer, its intent id and segment."""
        return self._writers.last_of(writer)

    @property
    def writers(self) -> int:
        """How many streaming writers have committed an epoch."""
        return len(self._writers)

    @property
    def writers_max(self) -> int:
        """How many there may be before the first epoch of another is refused."""
        return self._limits.writers_max

    def checkpoint_due(self, coming: int) -> bool:
        """Whether a segment with `coming` decisions should carry a checkpoint."""
        return self._segments_since + 1 >= CHECKPOINT_SEGMENTS or len(self._recent) + coming >= CHECKPOINT_INTENTS

    @property
    def since_checkpoint(self) -> int:
        """Intents decided since the last checkpoint."""
        return len(self._recent)

    def checkpoint_with(self, decided: Sequence[Decided], *, location: str) -> Checkpoint:
        """The checkpoint that a segment at `location` with these decisions is to carry."""
        recent, own = self._recent, [location] if decided else []
        segments = tuple(dict.fromkeys([*[known.segment for known in recent.values()], *own]))
        index = {segment: position for position, segment in enumerate(segments)}
        intents = [(intent_id, known.digest, index[known.segment]) for intent_id, known in recent.items()]
        intents += [(d.intent_id, d.digest, index[location]) for d in decided]
        return Checkpoint(
            segments=segments,
            intents=tuple(intents),
            writers=self._writers.together_with(decided, location),
            newest_entry_ms=max([self.newest_entry_ms, *[d.entry_ms for d in decided]]),
            older_id_ms=self._listed_ms,
            landmarks=dict(list(self._new_landmarks.items())[-LANDMARKS_MAX:]),
        )
