"""Walking over Avro records without decoding them: where each ends, and the bytes of the few fields that are wanted.

A manifest entry with metrics of twenty columns is three hundred values, of which the index of live files wants six. So
a schema is compiled once to steps. A step is a regular expression wherever what it passes over has no length of its
own to count to: numbers, flags, short texts, the items of an array once their number is read. That leaves a handful
of calls for an entry. Whatever an expression does not match is walked value by value, which is the rule that the
expressions are shortcuts of: an answer never depends on which was taken.

Nothing here trusts the bytes. Each step ends at or before the end of the block, an array has at most as many items as
there are bytes, and every item takes at least one: so walking ends, and in linear time, since no expression can go
back over what it has passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from firn.model.amounts import plural
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import AvroSchema

SHORT_BYTES_MAX: Final = 127
"""Longest text or bytes that an expression passes over: a truncated bound has 16 characters, of 4 bytes at most."""

CHUNK_ITEMS: Final = 64
"""Items of an array that one expression passes over."""

_EXPRESSION_BYTES_MAX: Final = 32 * 1024
"""Longest expression; a schema that needs a longer one is walked in more steps."""

_ITEM_BYTES_MAX: Final = 64
"""Longest expression of an item for which that of its array has a branch for each number of items: numbers' are."""

_LONG: Final = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
_LONG_BYTES_MAX: Final = 10
_COMMON_SIZES: Final = (8, 4, 16, 0, 1, 7)
"""Lengths that are tried first: those of bounds of numbers, and of ``PARQUET``."""

_FIXED_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}

FieldPath = tuple[int, ...]
"""Field ids that lead from a record to a field in it."""

Skip = Callable[[bytes, int], int]
"""From the first byte of a value to the position behind it. Raises ValueError or IndexError for bytes that are none."""


Match = Callable[[bytes, int], "re.Match[bytes] | None"]


class Step(NamedTuple):
    """One type: how to pass over a value, and an expression for short ones where there can be one."""

    skip: Skip
    expression: bytes | None


class Walk:
    """The steps over one record of a schema, keeping the fields `wanted`: each the field ids that lead to it.

    What is kept of a field are the bytes of its value as they are stored, without the mark of an optional one; None
    where it is null or the schema does not have it.
    """

    def __init__(self, schema: AvroSchema, wanted: Sequence[FieldPath], *, long: Collection[FieldPath] = ()) -> None:
        """`long` are texts among `wanted` that are mostly longer than what expressions are for."""
        self._wanted = tuple(wanted)
        self._long = frozenset(long)
        order: list[int] = []
        self._segments = tuple(_segments(list(self._fields(schema.layout, (), order))))
        places = [order.index(n) if n in order else None for n in range(len(self._wanted))]
        self._places = None if places == list(range(len(places))) else places
        """Where in the order of the schema each wanted field stands; None when that is the same order."""

    def records(self, content: bytes, count: int) -> Iterator[tuple[int, list[bytes | None]]]:
        """Of each of the `count` records that `content` must be: where it ends, and what is wanted, in that order.

        Raises ValueError or IndexError, after the records before, when the bytes are not what the schema says.
        """
        segments, places, at = self._segments, self._places, 0
        for _ in range(count):
            found: list[bytes | None] = []
            for run, pieces, skip in segments:
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
            yield at, found if places is None else [None if place is None else found[place] for place in places]
        if at != len(content):
            raise ValueError(f"{len(content) - at} bytes are left over behind the last record")

    def _fields(self, layout: Any, path: FieldPath, order: list[int]) -> Iterator[_Piece]:
        """The fields of a record; records on the way to something wanted are taken apart. `order` gets what is kept."""
        for member in layout["fields"]:
            name, type_ = member["name"], member["type"]
            here = (*path, int(name[1:])) if name.startswith("f") else None
            inner = _required(type_)
            if here in self._wanted:
                order.append(self._wanted.index(here))
                yield _kept(type_, is_long=here in self._long)
            elif here is not None and _is_record(inner) and any(one[: len(here)] == here for one in self._wanted):
                if isinstance(type_, list):
                    yield _marked(type_)
                yield from self._fields(inner, here, order)
            else:
                yield _passed(type_)


_Take = Callable[[bytes, int, list[bytes | None]], int]


class _Piece(NamedTuple):
    """One field: `take` passes over it, adding what is kept of it; the expression has a group for that."""

    take: _Take
    expression: bytes | None
    skip: Skip | None
    """Where nothing is kept of it."""


_Segment = tuple["re.Pattern[bytes] | None", tuple[_Piece, ...], Skip | None]


def _segments(pieces: Sequence[_Piece]) -> Iterator[_Segment]:
    """Neighbours that have expressions become one; others are steps of their own."""
    run: list[_Piece] = []
    size = 0
    for piece in pieces:
        if piece.expression is None or size + len(piece.expression) > _EXPRESSION_BYTES_MAX:
            yield from _run(run)
            run, size = [], 0
        if piece.expression is None:
            yield None, (piece,), piece.skip
        else:
            run.append(piece)
            size += len(piece.expression)
    yield from _run(run)


def _run(pieces: Sequence[_Piece]) -> Iterator[_Segment]:
    if pieces:
        yield _compiled(b"".join(piece.expression or b"" for piece in pieces)), tuple(pieces), None


def _passed(layout: Any) -> _Piece:
    step = _step(layout)

    def take(content: bytes, at: int, _: list[bytes | None]) -> int:
        return step.skip(content, at)

    return _Piece(take, step.expression, step.skip)


def _kept(layout: Any, *, is_long: bool) -> _Piece:
    """A field whose bytes are kept: of an optional one those of its value, None when there is none."""
    null = layout.index("null") if isinstance(layout, list) and "null" in layout else None
    marked = isinstance(layout, list)
    value = _step(_required(layout))
    some = None if not marked else (2 if null == 0 else 0)

    def take(content: bytes, at: int, found: list[bytes | None]) -> int:
        if some is not None:
            mark = content[at]
            at += 1
            if null is not None and mark == 2 * null:
                found.append(None)
                return at
            if mark != some:
                raise ValueError(f"no branch {mark} in a union")
        end = value.skip(content, at)
        found.append(content[at:end])
        return end

    if value.expression is None or is_long:
        return _Piece(take, None, None)
    group = b"(" + value.expression + b")"
    if some is None:
        return _Piece(take, group, None)
    with_mark = re.escape(bytes((some,))) + group
    if null is not None:
        with_mark = b"(?:%s|%s)" % (re.escape(bytes((2 * null,))), with_mark)
    return _Piece(take, with_mark, None)


def _marked(layout: list[Any]) -> _Piece:
    """The mark of an optional record that has to be there."""
    some = 2 * next(n for n, branch in enumerate(layout) if branch != "null")

    def take(content: bytes, at: int, _: list[bytes | None]) -> int:
        if content[at] != some:
            raise ValueError("a record is missing that is required")
        return at + 1

    return _Piece(take, re.escape(bytes((some,))), None)


def _is_record(layout: Any) -> bool:
    return isinstance(layout, dict) and layout["type"] == "record"


def _required(layout: Any) -> Any:
    """The type itself of an optional one."""
    return next(branch for branch in layout if branch != "null") if isinstance(layout, list) else layout


# ---------------------------------------------------------------------------------------------------------------------
# Types


def _step(layout: Any) -> Step:
    """How to pass over a value of a type, given as `firn.storage.avro_schema` lays it out."""
    if isinstance(layout, list):
        return _union(layout)
    kind = layout if isinstance(layout, str) else layout["type"]
    if kind in {"int", "long"}:
        return Step(_skip_long, _LONG)
    if kind in {"bytes", "string"}:
        return Step(_skip_bytes, short_bytes())
    if kind in _FIXED_WIDTHS:
        return _fixed(_FIXED_WIDTHS[kind])
    if kind == "fixed":
        return _fixed(layout["size"])
    if kind == "record":
        return _record([_step(member["type"]) for member in layout["fields"]])
    item = _step(layout["items"]) if kind == "array" else _record([_step("string"), _step(layout["values"])])
    return array(item)


def _fixed(width: int) -> Step:
    def skip(content: bytes, at: int) -> int:
        if at + width > len(content):
            raise ValueError("cut inside a value")
        return at + width

    return Step(skip, b".{%d}" % width if width else b"")


def _record(steps: Sequence[Step]) -> Step:
    skips = tuple(step.skip for step in steps)

    def skip(content: bytes, at: int) -> int:
        for one in skips:
            at = one(content, at)
        return at

    return Step(skip, _joined([step.expression for step in steps]))


def _union(branches: list[Any]) -> Step:
    steps = [_step(branch) for branch in branches]
    skips = {2 * n: step.skip for n, step in enumerate(steps)}

    def skip(content: bytes, at: int) -> int:
        branch = skips.get(content[at])
        if branch is None:
            raise ValueError(f"no branch {content[at]} in a union")
        return branch(content, at + 1)

    whole = [_joined([re.escape(bytes((2 * n,))), step.expression]) for n, step in enumerate(steps)]
    known = [expression for expression in whole if expression is not None]
    return Step(skip, b"(?>" + b"|".join(known) + b")" if len(known) == len(whole) else None)


def array(item: Step) -> Step:
    """Blocks of items, each with their number before them, up to a block of none.

    Nearly every writer makes one block. A negative number is followed by the size of its items in bytes.
    """
    expression = item.expression
    if expression is not None and len(expression) <= _ITEM_BYTES_MAX:
        return Step(_blocks(item), b"(?>" + b"|".join(_one_block(expression, n) for n in range(CHUNK_ITEMS)) + b")")
    return Step(_blocks(item), None)


def _one_block(expression: bytes, count: int) -> bytes:
    """All of an array of so many items in one block."""
    if count == 0:
        return rb"\x00"
    return b"%s(?:%s){%d}+\\x00" % (re.escape(encode_long(count)), expression, count)


def _blocks(item: Step) -> Skip:
    expression = item.expression
    whole: list[Match | None] = [None] * 0x80
    """By the first byte, which is an even one for one block of less than `CHUNK_ITEMS`: all of the array."""

    def skip(content: bytes, at: int) -> int:
        first = content[at]
        if expression is not None and not first & 1 and first < 0x80:
            match_whole = whole[first]
            if match_whole is None:
                match_whole = whole[first] = _compiled(_one_block(expression, first >> 1)).match
            match = match_whole(content, at)
            if match is not None:
                return match.end()
        while True:
            count, at = _long(content, at)
            if count == 0:
                return at
            end = None
            if count < 0:
                size, at = _long(content, at)
                count, end = -count, at + size
            if count > len(content) - at:
                raise ValueError(f"{plural(count, 'item')} in {len(content) - at} bytes")
            at = some(content, at, count)
            if end is not None and at != end:
                raise ValueError("items of another size than is said before them")

    chunk = None if expression is None else _chunk(expression)

    def some(content: bytes, at: int, count: int) -> int:
        while chunk is not None and count >= CHUNK_ITEMS:
            match = chunk.match(content, at)
            if match is None:
                break
            at = match.end()
            count -= CHUNK_ITEMS
        for _ in range(count):
            at = item.skip(content, at)
        return at

    return skip


@lru_cache(maxsize=64)
def _chunk(expression: bytes) -> re.Pattern[bytes]:
    return _compiled(b"(?:%s){%d}+" % (expression, CHUNK_ITEMS))


@lru_cache(maxsize=1)
def short_bytes() -> bytes:
    """Texts and bytes of up to `SHORT_BYTES_MAX`: a branch for each length."""
    sizes = dict.fromkeys((*_COMMON_SIZES, *range(SHORT_BYTES_MAX + 1)))
    return b"(?>" + b"|".join(re.escape(encode_long(n)) + (b".{%d}" % n if n else b"") for n in sizes) + b")"


def _joined(expressions: Sequence[bytes | None]) -> bytes | None:
    known = [expression for expression in expressions if expression is not None]
    whole = b"".join(known)
    return whole if len(known) == len(expressions) and len(whole) <= _EXPRESSION_BYTES_MAX else None


def _compiled(expression: bytes) -> re.Pattern[bytes]:
    return re.compile(expression, re.DOTALL)


def _skip_long(content: bytes, at: int) -> int:
    start = at
    while content[at] >= 0x80:
        at += 1
        if at - start == _LONG_BYTES_MAX:
            raise ValueError("a number of more than ten bytes")
    return at + 1


def _skip_bytes(content: bytes, at: int) -> int:
    first, second = content[at], content[at + 1] if at + 1 < len(content) else 0
    if first >= 0x80 > second and not first & 1:  # as the length of a location is
        size, at = second << 6 | (first & 0x7F) >> 1, at + 2
    else:
        size, at = _long(content, at)
    if size < 0 or at + size > len(content):
        raise ValueError("cut inside a value")
    return at + size


def _long(content: bytes, at: int) -> tuple[int, int]:
    end = _skip_long(content, at)
    return long_of(content[at:end]), end


def long_of(stored: bytes) -> int:
    """The number that these bytes are."""
    if len(stored) == 1:
        rest = stored[0]
    elif len(stored) == 2:
        rest = stored[0] & 0x7F | stored[1] << 7
    else:
        rest = 0
        for byte in reversed(stored):
            rest = rest << 7 | byte & 0x7F
    return (rest >> 1) ^ -(rest & 1)


def content_of(stored: bytes) -> bytes:
    """What a text or bytes say, without their length."""
    return stored[1:] if stored[0] < 0x80 else stored[2:] if stored[1] < 0x80 else stored[_skip_long(stored, 0) :]
