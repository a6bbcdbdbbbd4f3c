"""Walking over Avro records without decoding them: where each ends, and the bytes of the few fields that are wanted.

A manifest entry with metrics of twenty columns is three hundred values, of which the index of live files wants six. So
a schema is compiled once to steps. A step is a regular expression wherever what it passes over has no length of its
own to count to: numbers, flags, short texts, the items of an array once their number is read. That leaves a handful
of calls for an entry. Whatever an expression does not match is walked value by value, which is the rule that the
expressions are shortcuts of: an answer never depends on which was taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from firn.storage.avro_schema import AvroSchema
from firn.storage.avro_steps import EXPRESSION_BYTES_MAX, Skip, compiled, long_mark, step_of

FieldPath = tuple[int, ...]
"""Field ids that lead from a record to a field in it."""

Found = Sequence[bytes | None]
"""What is kept of a record: the bytes of each field as they are stored, without the mark of an optional one."""


class LongNumberError(Exception):
    """A number takes more bytes than the one that it needs, where something is found by counting bytes."""


class Walk:
    """The steps over one record of a schema, keeping the fields `wanted`: each the field ids that lead to it.

    What is kept of a field are the bytes of its value as they are stored, without the mark of an optional one; None
    where it is null or the schema does not have it.
    """

    def __init__(
        self,
        schema: AvroSchema,
        wanted: Sequence[FieldPath],
        *,
        long: Collection[FieldPath] = (),
        short_marks: bool = False,
    ) -> None:
        """`long` are texts among `wanted` that are mostly longer than what expressions are for.

        With `short_marks` a mark of an optional field that is kept takes one byte, or LongNumberError is raised: for
        who tells from what is kept of fields where they begin.
        """
        self._wanted = tuple(wanted)
        self._long = frozenset(long)
        self._short_marks = short_marks
        order: list[int] = []
        self.pieces = tuple(self._fields(schema.layout, (), order))
        self._segments = tuple(segments_of(self.pieces))
        places = [order.index(n) if n in order else None for n in range(len(self._wanted))]
        self._places = None if places == list(range(len(places))) else places
        """Where in the order of the schema each wanted field stands; None when that is the same order."""

    def records(self, content: bytes, count: int) -> Iterator[tuple[int, Found]]:
        """Of each of the `count` records that `content` must be: where it ends, and what is wanted, in that order.

        Raises ValueError or IndexError, after the records before, when the bytes are not what the schema says.
        """
        at = 0
        for _ in range(count):
            at, found = self.record(content, at)
            yield at, self.ordered(found)
        check_end(content, at)

    def record(self, content: bytes, at: int) -> tuple[int, Found]:
        """Where the record that begins there ends, and what is wanted, in the order of the schema."""
        found: list[bytes | None] = []
        for run, pieces, skip in self._segments:
            if skip is not None:
                at = skip(content, at)
                continue
            match = None if run is None else run.match(content, at)
            if match is not None:
                found += match.groups()
                at = match.end()
                continue
            for piece in pieces:
                at = piece.take(content, at, found)
        return at, found

    @property
    def is_ordered(self) -> bool:
        """Whether all that is wanted is in the schema, in the order in which it was wanted."""
        return self._places is None

    def ordered(self, found: Found) -> Found:
        """What is wanted in the order in which it was wanted."""
        places = self._places
        return found if places is None else [None if place is None else found[place] for place in places]

    def _fields(self, layout: Any, path: FieldPath, order: list[int]) -> Iterator[Piece]:
        """The fields of a record; records on the way to something wanted are taken apart. `order` gets what is kept."""
        for member in layout["fields"]:
            name, type_ = member["name"], member["type"]
            here = (*path, int(name[1:])) if name.startswith("f") else None
            inner = required(type_)
            if here in self._wanted:
                order.append(self._wanted.index(here))
                yield _kept(type_, is_long=here in self._long, short_marks=self._short_marks)
            elif here is not None and _is_record(inner) and any(one[: len(here)] == here for one in self._wanted):
                if isinstance(type_, list):
                    yield _marked(type_)
                yield from self._fields(inner, here, order)
            else:
                yield _passed(type_)


_Take = Callable[[bytes, int, list[bytes | None]], int]


class Piece(NamedTuple):
    """One field: `take` passes over it, adding what is kept of it; the expression has a group for that."""

    take: _Take
    expression: bytes | None
    skip: Skip | None = None
    """Where nothing is kept of it."""
    layout: Any = None
    """Of what may be looked at more closely (`firn.storage.avro_shapes`): what is passed over, and long texts."""


class Segment(NamedTuple):
    """Some fields: an expression for all of them, where there is one, and what passes over the only one without."""

    run: re.Pattern[bytes] | None
    pieces: tuple[Piece, ...]
    skip: Skip | None


def segments_of(pieces: Iterable[Piece]) -> Iterator[Segment]:
    """Neighbours that have expressions become one; others are steps of their own."""
    run: list[Piece] = []
    size = 0
    for piece in pieces:
        if piece.expression is None or size + len(piece.expression) > EXPRESSION_BYTES_MAX:
            yield from _run(run)
            run, size = [], 0
        if piece.expression is None:
            yield Segment(None, (piece,), piece.skip)
        else:
            run.append(piece)
            size += len(piece.expression)
    yield from _run(run)


def _run(pieces: Sequence[Piece]) -> Iterator[Segment]:
    if pieces:
        yield Segment(compiled(b"".join(piece.expression or b"" for piece in pieces)), tuple(pieces), None)


def _passed(layout: Any) -> Piece:
    step = step_of(layout)

    def take(content: bytes, at: int, _: list[bytes | None]) -> int:
        return step.skip(content, at)

    return Piece(take, step.expression, step.skip, layout)


def _kept(layout: Any, *, is_long: bool, short_marks: bool) -> Piece:
    """A field whose bytes are kept: of an optional one those of its value, None when there is none."""
    null = layout.index("null") if isinstance(layout, list) and "null" in layout else None
    marked = isinstance(layout, list)
    value = step_of(required(layout))
    some = None if not marked else (2 if null == 0 else 0)

    def take(content: bytes, at: int, found: list[bytes | None]) -> int:
        if some is not None:
            mark, at = content[at], at + 1
            if mark >= 0x80:
                mark, at = long_mark(content, at - 1)
                if short_marks:
                    raise LongNumberError("a mark of more than one byte")
            if null is not None and mark == 2 * null:
                found.append(None)
                return at
            if mark != some:
                raise ValueError(f"no branch {mark} in a union")
        end = value.skip(content, at)
        found.append(content[at:end])
        return end

    if value.expression is None or is_long:
        return Piece(take, None, layout=None if marked else layout)
    group = b"(" + value.expression + b")"
    if some is None:
        return Piece(take, group)
    with_mark = re.escape(bytes((some,))) + group
    if null is not None:
        with_mark = b"(?:%s|%s)" % (re.escape(bytes((2 * null,))), with_mark)
    return Piece(take, with_mark)


def _marked(layout: list[Any]) -> Piece:
    """The mark of an optional record that has to be there."""
    some = 2 * next(n for n, branch in enumerate(layout) if branch != "null")

    def take(content: bytes, at: int, _: list[bytes | None]) -> int:
        mark, at = content[at], at + 1
        if mark >= 0x80:
            mark, at = long_mark(content, at - 1)
        if mark != some:
            raise ValueError("a record is missing that is required")
        return at

    return Piece(take, re.escape(bytes((some,))))


def _is_record(layout: Any) -> bool:
    return isinstance(layout, dict) and layout["type"] == "record"


def required(layout: Any) -> Any:
    """The type itself of an optional one."""
    return next(branch for branch in layout if branch != "null") if isinstance(layout, list) else layout


def check_end(content: bytes, at: int) -> None:
    """Raises ValueError when the last record ends before the content does."""
    if at != len(content):
        raise ValueError(f"{len(content) - at} bytes are left over behind the last record")
