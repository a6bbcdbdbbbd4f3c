"""Decided ids that say a later time than when they were queued, because their writer's clock is ahead.

They have to be known until that time has come, or whatever else is made by then would have to be looked up in the
journal, everybody's. They are kept by the minute that they say: so a look at one minute tells whether an id is among
them, and a minute goes as a whole when its time has come.

Memory is bounded in bytes. Past it the minutes that nobody has asked for or added to for longest are put away: of them
only the checkpoints stay known that list their ids, and are read again when somebody asks. Nothing is decided on what
memory does not know.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from sys import getsizeof
from typing import Final

from firn.coordinator.journal.decided_ids import TimedId

MINUTE_MS: Final = 60_000

RUN_IDS_MAX: Final = 32_768
"""Ids up to which sorted arrays are joined: that takes some milliseconds, and everybody waits for it."""

ID_BYTES: Final = 8

MINUTE_BYTES: Final = 500
"""What a minute takes beside its ids and the names of checkpoints, about."""

SMALL_SHARE: Final = 8
"""What is kept of the bound where memory is wanted for other tables: enough for the minutes that are in use."""

_NUMBERS: Final = 1 << 16
_HASH: Final = (1 << 64) - _NUMBERS


class Minute:
    """The ids of one minute.

    Each is kept in 64 bits: 48 of Python's hash of it, then 16 of its checkpoint's number among `places`, which are the
    checkpoints that list one, in the order in which they were written. They stand in `runs`, each sorted, and joined so
    that there are few: None where they were put away.
    """

    __slots__ = ("count", "memory", "names_bytes", "places", "runs")

    def __init__(self) -> None:
        self.memory = 0
        """Bytes that this took when it was weighed."""
        self.count = 0
        """How many ids there are, in memory or not."""
        self.places: list[str] = []
        self.runs: list[array[int]] | None = []
        self.names_bytes = 0
        """Bytes of those names of checkpoints that no later minute has, too."""

    def add(self, location: str, ids: Collection[str]) -> None:
        """Take over the ids that a checkpoint lists; where the minute was put away, only that it does."""
        number = len(self.places) % _NUMBERS
        self.count += len(ids)
        self.places.append(location)
        if self.runs is not None:
            self._add_run(sorted(hash(intent_id) & _HASH | number for intent_id in ids))

    def absorb(self, other: Minute) -> None:
        """Take over what another knows of the same minute."""
        offset = len(self.places)
        self.count += other.count
        self.places += other.places
        self.names_bytes += other.names_bytes
        if self.runs is None or other.runs is None:
            self.runs = None
            return
        for run in other.runs:
            self._add_run(sorted(one & _HASH | (one + offset) % _NUMBERS for one in run))

    def _add_run(self, run: list[int]) -> None:
        """Each run is at least twice as long as the next, or as long as may be: an id is moved a few times at most."""
        assert self.runs is not None
        runs = self.runs
        runs.append(array("Q", run))
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]) and len(runs[-2]) + len(runs[-1]) <= RUN_IDS_MAX:
            last = runs.pop()
            runs[-1] = array("Q", sorted(runs[-1] + last))  # two sorted halves: this merges them

    def settle(self) -> None:
        """Join all arrays, where nobody waits for it."""
        self.runs = [array("Q", sorted(chain.from_iterable(self.runs or ())))]

    def lists(self, intent_id: str) -> bool:
        """Whether an id is among these, which are not put away."""
        assert self.runs is not None
        key = hash(intent_id) & _HASH
        for run in self.runs:
            at = bisect_left(run, key)
            if at < len(run) and run[at] < key + _NUMBERS:
                return True
        return False

    def places_of(self, intent_id: str) -> Iterator[str]:
        """The checkpoints that may list an id, the newest first: all of them where the minute is put away."""
        if self.runs is None:
            yield from reversed(self.places)
            return
        key = hash(intent_id) & _HASH
        for run in self.runs:
            at = bisect_left(run, key)
            while at < len(run) and run[at] < key + _NUMBERS:
                yield from self.places[run[at] - key :: _NUMBERS][::-1]
                at += 1

    def weigh(self) -> int:
        """Bytes that this takes more than when it was weighed last."""
        before, ids = self.memory, sum(map(getsizeof, self.runs or ()))
        self.memory = MINUTE_BYTES + getsizeof(self.places) + self.names_bytes + ids
        return self.memory - before


class IdsAhead:
    """The ids ahead of one table. `read` says which ids a checkpoint lists, and raises what reading it raises."""

    def __init__(self, *, bytes_max: int, read: Callable[[str], Iterable[TimedId]]) -> None:
        self._bytes_max = bytes_max
        self._read = read
        self._minutes: OrderedDict[int, Minute] = OrderedDict()
        """By their number since 1970; those last that were used last."""
        self._end: int | None = None
        """The minute from which on nothing is known: there was no room even for the names of checkpoints."""
        self.memory = 0
        """Bytes that these take."""

    def __len__(self) -> int:
        """How many ids are in memory."""
        return sum(len(run) for minute in self._minutes.values() for run in minute.runs or ())

    def covers(self, made_ms: int) -> bool:
        """Whether all ids ahead of that time are known, be it by reading checkpoints that are known."""
        return self._end is None or made_ms < self._end * MINUTE_MS

    def is_new(self, intent_id: str, made_ms: int) -> bool:
        """Whether memory alone tells that an id, made then, is not among these."""
        number = made_ms // MINUTE_MS
        minute = self._minutes.get(number)
        if minute is None:
            return self.covers(made_ms)
        if minute.runs is None:
            return False
        self._minutes.move_to_end(number)
        return not minute.lists(intent_id)

    def places_of(self, intent_id: str, made_ms: int) -> Iterator[str]:
        """The checkpoints that may list an id, made then. May read some: call it off the event loop."""
        number = made_ms // MINUTE_MS
        minute = self._minutes.get(number)
        if minute is None:
            return
        self._minutes.move_to_end(number)
        if minute.runs is None:
            minute = self._read_again(number, minute)
        yield from minute.places_of(intent_id)

    def _read_again(self, number: int, away: Minute) -> Minute:
        """A minute that was put away, with its ids; as it is where there is no room for them."""
        if away.count * ID_BYTES > self._bytes_max:
            return away
        minute = Minute()
        minute.names_bytes = away.names_bytes
        for location in away.places:
            minute.add(location, [one for made_ms, one in self._read(location) if made_ms // MINUTE_MS == number])
        minute.settle()
        self._drop(number)
        self._minutes[number] = minute
        self._weigh(minute)
        self._make_room(self._bytes_max)
        return minute

    def add(self, location: str, timed: Iterable[TimedId]) -> None:
        """Take over ids that a checkpoint lists."""
        by_minute: dict[int, list[str]] = {}
        for made_ms, intent_id in timed:
            number = made_ms // MINUTE_MS
            if self._end is None or number < self._end:
                by_minute.setdefault(number, []).append(intent_id)
        last = max(by_minute, default=None)
        for number, of_minute in sorted(by_minute.items()):
            minute = self._minutes.setdefault(number, Minute())
            self._minutes.move_to_end(number)
            minute.add(location, of_minute)
            minute.names_bytes += getsizeof(location) if number == last else 0
            self._weigh(minute)
        self._make_room(self._bytes_max)

    def absorb(self, other: IdsAhead) -> None:
        """Take over what another knows of ids that are not among these."""
        if other._end is not None:
            self._cut(other._end)
        for number, minute in other._minutes.items():
            if self._end is None or number < self._end:
                known = self._minutes.setdefault(number, Minute())
                known.absorb(minute)
                self._weigh(known)
        self._make_room(self._bytes_max)

    def let_go(self, until_ms: int) -> None:
        """The time has come of all ids up to then."""
        for number in [number for number in self._minutes if (number + 1) * MINUTE_MS <= until_ms + 1]:
            self._drop(number)

    def make_small(self) -> None:
        """Put away what is not in use: it can be read again."""
        self._make_room(self._bytes_max // SMALL_SHARE)

    def _make_room(self, bytes_max: int) -> None:
        """Put minutes away, the one used last at last. Their checkpoints' names may have half of all room: where they
        have more, the latest minutes go altogether.
        """
        if self.memory <= bytes_max:
            return
        for number in list(self._minutes):
            self._minutes[number].runs = None
            self._weigh(self._minutes[number])
            if self.memory <= bytes_max:
                break
        away = sum(minute.memory for minute in self._minutes.values() if minute.runs is None)
        while away > self._bytes_max // 2:
            latest = max(self._minutes)
            away -= self._minutes[latest].memory if self._minutes[latest].runs is None else 0
            self._cut(latest)

    def _cut(self, end: int) -> None:
        """Know nothing from this minute on."""
        self._end = end if self._end is None else min(end, self._end)
        for number in [number for number in self._minutes if number >= self._end]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self.memory -= self._minutes.pop(number).memory

    def _weigh(self, minute: Minute) -> None:
        """Count what a minute takes, which has changed."""
        self.memory += minute.weigh()
