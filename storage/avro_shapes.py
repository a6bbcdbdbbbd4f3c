"""Walking over records that look alike: how some looked makes one expression for each of the next.

Most entries of a table have metrics of the same columns, in as many bytes, and locations of the same length. Once some
hundred have been walked over, a few are looked at more closely: how many items arrays have, the field ids that are
their keys, how long texts and bounds are. An expression of just that has next to no choices to make, and passes over
an entry in a quarter of the time. It is a shortcut like the others (`firn.storage.avro_walk`): every number in it that
decides about what follows is written out, so that it fits nothing that would be read in another way; and what it does
not fit is walked over.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from firn.storage.avro_steps import FIXED_WIDTHS, LONG, SHORT_BYTES_MAX, Match, exactly, long_at, short_bytes
from firn.storage.avro_walk import Found, Piece, Segment, Walk, check_end, segments_of

LEARN_AFTER: Final = 500
"""Records that nothing learned fits before some are looked at, which takes as long as walking over so many; then twice
as many each time."""

LOOKS: Final = 16
"""Records that are looked at each time."""

LESSONS_MAX: Final = 8

HITS_MIN: Final = 1 / 8
"""Part of the records that is to look like others: of fewer, trying costs more than it saves."""

FORMS_MAX: Final = 4
"""Forms of one field, as arrays of so many lengths; one with more is walked over as it always is."""

LOOKS_MAX: Final = 8
"""Looks of one number or text in one place, as so many lengths of a bound; one with more is not expected to be one of
them."""

ITEMS_MAX: Final = 256
"""Items of an array that is looked at."""

PARTS_MAX: Final = 4 * ITEMS_MAX
"""Parts of a value that is looked at: arrays of arrays multiply."""

LOCATION_BYTES_MAX: Final = 255
"""Longest location that is expected where there have been locations of many lengths."""


class ShapedWalk:
    """A walk that learns what records look like, for those of one table. Several threads may use it."""

    def __init__(self, walk: Walk, *, learn_after: int = LEARN_AFTER) -> None:
        self._walk = walk
        self._learn_after = learn_after
        self._shapes = [_Shape(piece) for piece in walk.pieces]
        self._segments: tuple[Segment, ...] = ()
        """Of what has been learned; none before, nor when that was nothing."""
        self._whole: Match | None = None
        """The only one of them, where it finds what is wanted in that order."""
        self._walked = 0
        self._missed = 0
        self._lessons = 0
        self._learning = threading.Lock()

    def records(self, content: bytes, count: int) -> Iterator[tuple[int, Found]]:
        """As `Walk.records`."""
        at, ordered = 0, self._walk.ordered
        self._walked += count
        for _ in range(count):
            whole = self._whole
            match = None if whole is None else whole(content, at)
            if match is not None:
                at = match.end()
                yield at, match.groups()
                continue
            known = self._by_segments(content, at) if whole is None else None
            at, found = known or self._walked_over(content, at)
            yield at, ordered(found)
        check_end(content, at)

    def _by_segments(self, content: bytes, at: int) -> tuple[int, Found] | None:
        """The record that begins there, None when nothing learned fits it."""
        found: list[bytes | None] = []
        for run, pieces, skip in self._segments:
            if run is not None:
                match = run.match(content, at)
                if match is None:
                    return None
                found += match.groups()
                at = match.end()
            elif skip is not None:
                at = skip(content, at)
            else:
                at = pieces[0].take(content, at, found)
        return (at, found) if self._segments else None

    def _walked_over(self, content: bytes, at: int) -> tuple[int, Found]:
        walked = self._walk.record(content, at)
        self._learn_of(content, at)
        return walked

    def _learn_of(self, content: bytes, at: int) -> None:
        """A record that has been walked over without error, since nothing learned fits it."""
        self._missed += 1
        due = self._learn_after << self._lessons
        if self._missed < due or self._lessons > LESSONS_MAX or not self._learning.acquire(blocking=False):
            return
        try:
            for piece, shape in zip(self._walk.pieces, self._shapes, strict=True):
                shape.look(content, at)
                at = piece.take(content, at, [])
            if self._missed >= due + LOOKS:
                self._end_lesson()
        finally:
            self._learning.release()

    def _end_lesson(self) -> None:
        is_rare = self._walked - self._missed < self._walked * HITS_MIN
        gives_up = is_rare and self._lessons == LESSONS_MAX
        self._segments = () if gives_up else tuple(segments_of(shape.piece() for shape in self._shapes))
        is_whole = self._walk.is_ordered and len(self._segments) == 1
        self._whole = self._segments[0].run.match if is_whole and self._segments[0].run is not None else None
        self._walked, self._missed = 0, 0
        self._lessons += 1


class _Part(NamedTuple):
    """A part of a value as an expression: of how it looks, and of how whatever may stand there can look."""

    look: bytes
    any_look: bytes
    """The same as `look` where it decides about what follows."""


class _Shape:
    """What the values of one field looked like."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._is_kept = piece.skip is None
        self._is_known = piece.layout is not None
        self._forms: dict[tuple[bytes, ...], list[dict[bytes, None]]] = {}
        """How each part has looked, by how anything could in its place."""

    def look(self, content: bytes, at: int) -> None:
        """At the value that begins there, which has been walked over without error."""
        if not self._is_known:
            return
        look = _Look(content, at, text_bytes_max=LOCATION_BYTES_MAX if self._is_kept else SHORT_BYTES_MAX)
        look.value(self._piece.layout)
        places = self._forms.setdefault(tuple(part.any_look for part in look.parts), [{} for _ in look.parts])
        for looks, part in zip(places, look.parts, strict=True):
            looks[part.look] = None
        self._is_known = len(self._forms) <= FORMS_MAX and look.is_clear

    def piece(self) -> Piece:
        """The field with an expression of how it looked, if that was not too different."""
        if not self._is_known or not self._forms:
            return self._piece
        forms = [b"".join(map(_any_of, places, any_looks)) for any_looks, places in self._forms.items()]
        expression = _one_of(forms)
        return self._piece._replace(expression=b"(" + expression + b")" if self._is_kept else expression)


def _any_of(looks: dict[bytes, None], any_look: bytes) -> bytes:
    """Whatever has stood in a place; of too many looks these first, and then any."""
    return _one_of(list(looks) if len(looks) <= LOOKS_MAX else [*list(looks)[:LOOKS_MAX], any_look])


def _one_of(expressions: list[bytes]) -> bytes:
    return expressions[0] if len(expressions) == 1 else b"(?>" + b"|".join(expressions) + b")"


class _Look:
    """A value taken apart, which is known to be whole. What is written out of it is as it is stored."""

    def __init__(self, content: bytes, at: int, *, text_bytes_max: int) -> None:
        self.parts: list[_Part] = []
        self.is_clear = True
        """Whether `parts` are all of it: an array may be too long, or in several blocks. Nothing behind that is looked
        at."""
        self._content = content
        self._at = at
        self._any_text = short_bytes(text_bytes_max)

    def value(self, layout: Any, *, is_item: bool = False) -> None:
        """Go on with a value of this type."""
        if isinstance(layout, list):
            branch = self._decisive()
            self.value(layout[branch], is_item=is_item)
            return
        kind = layout if isinstance(layout, str) else layout["type"]
        if kind == "record":
            for member in layout["fields"]:
                self.value(member["type"], is_item=is_item)
                if not self.is_clear:
                    return
        elif kind in {"array", "map"}:
            self._items(layout, kind)
        elif kind in {"bytes", "string"}:
            size, stored = self._number()
            self._at += size
            self.parts.append(_Part(stored + exactly(size), self._any_text))
        elif kind in {"int", "long"}:
            _, stored = self._number()
            is_key = kind == "int" and is_item
            self.parts.append(_Part(stored if is_key else LONG, LONG))
        else:
            size = layout["size"] if kind == "fixed" else FIXED_WIDTHS[kind]
            self._at += size
            self.parts.append(_Part(exactly(size), exactly(size)))

    def _items(self, layout: Any, kind: str) -> None:
        count = self._decisive()
        if count == 0:
            return
        if not 0 < count <= ITEMS_MAX:
            self.is_clear = False
            return
        for _ in range(count):
            if kind == "map":
                self.value("string")
            self.value(layout["values" if kind == "map" else "items"], is_item=True)
            self.is_clear = self.is_clear and len(self.parts) <= PARTS_MAX
            if not self.is_clear:
                return
        self.is_clear = self._decisive() == 0

    def _number(self) -> tuple[int, bytes]:
        """A number, and an expression of its bytes: another writer's may be more than it needs."""
        start = self._at
        number, self._at = long_at(self._content, start)
        return number, re.escape(self._content[start : self._at])

    def _decisive(self) -> int:
        """A number that decides about what follows."""
        number, stored = self._number()
        self.parts.append(_Part(stored, stored))
        return number
