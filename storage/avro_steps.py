"""How to pass over a value of each Avro type: position by position, and by a regular expression for the short ones.

Nothing here trusts the bytes. Each step ends at or before the end of the block, an array has at most as many items as
there are bytes, and every item takes at least one: so walking ends, and in linear time, since no expression can go
back over what it has passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from firn.model.amounts import plural
from firn.storage.avro_numbers import encode_long

SHORT_BYTES_MAX: Final = 127
"""Longest text or bytes that an expression passes over: a truncated bound has 16 characters, of 4 bytes at most."""

CHUNK_ITEMS: Final = 64
"""Items of an array that one expression passes over."""

EXPRESSION_BYTES_MAX: Final = 32 * 1024
"""Longest expression; a schema that needs a longer one is walked in more steps."""

_ITEM_BYTES_MAX: Final = 64
"""Longest expression of an item for which that of its array has a branch for each number of items: numbers' are."""

LONG: Final = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
"""Any number."""

_LONG_BYTES_MAX: Final = 10
_LONG_MASK: Final = 2**64 - 1
_COMMON_SIZES: Final = (8, 4, 16, 0, 1, 7)
"""Lengths that are tried first: those of bounds of numbers, and of ``PARQUET``."""

FIXED_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}

Skip = Callable[[bytes, int], int]
"""From the first byte of a value to the position behind it. Raises ValueError or IndexError for bytes that are none."""

Match = Callable[[bytes, int], "re.Match[bytes] | None"]


class Step(NamedTuple):
    """One type: how to pass over a value, and an expression for short ones where there can be one."""

    skip: Skip
    expression: bytes | None


def step_of(layout: Any) -> Step:
    """How to pass over a value of a type, given as `firn.storage.avro_schema` lays it out."""
    if isinstance(layout, list):
        return _union(layout)
    kind = layout if isinstance(layout, str) else layout["type"]
    if kind in {"int", "long"}:
        return Step(skip_long, LONG)
    if kind in {"bytes", "string"}:
        return Step(_skip_bytes, short_bytes())
    if kind in FIXED_WIDTHS:
        return _fixed(FIXED_WIDTHS[kind])
    if kind == "fixed":
        return _fixed(layout["size"])
    if kind == "record":
        return _record([step_of(member["type"]) for member in layout["fields"]])
    item = step_of(layout["items"]) if kind == "array" else _record([step_of("string"), step_of(layout["values"])])
    return array(item)


def _fixed(width: int) -> Step:
    def skip(content: bytes, at: int) -> int:
        if at + width > len(content):
            raise ValueError("cut inside a value")
        return at + width

    return Step(skip, exactly(width))


def _record(steps: Sequence[Step]) -> Step:
    skips = tuple(step.skip for step in steps)

    def skip(content: bytes, at: int) -> int:
        for one in skips:
            at = one(content, at)
        return at

    return Step(skip, joined([step.expression for step in steps]))


def _union(branches: list[Any]) -> Step:
    steps = [step_of(branch) for branch in branches]
    skips = {2 * n: step.skip for n, step in enumerate(steps)}

    def skip(content: bytes, at: int) -> int:
        mark, at = content[at], at + 1
        if mark >= 0x80:
            mark, at = long_mark(content, at - 1)
        branch = skips.get(mark)
        if branch is None:
            raise ValueError(f"no branch {mark} in a union")
        return branch(content, at)

    whole = [joined([re.escape(bytes((2 * n,))), step.expression]) for n, step in enumerate(steps)]
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
                match_whole = whole[first] = compiled(_one_block(expression, first >> 1)).match
            match = match_whole(content, at)
            if match is not None:
                return match.end()
        while True:
            count, at = long_at(content, at)
            if count == 0:
                return at
            end = None
            if count < 0:
                size, at = long_at(content, at)
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
    return compiled(b"(?:%s){%d}+" % (expression, CHUNK_ITEMS))


@lru_cache(maxsize=4)
def short_bytes(size_max: int = SHORT_BYTES_MAX) -> bytes:
    """Texts and bytes of up to so many bytes: a branch for each length."""
    sizes = dict.fromkeys((*_COMMON_SIZES, *range(size_max + 1)))
    return b"(?>" + b"|".join(re.escape(encode_long(n)) + exactly(n) for n in sizes) + b")"


def exactly(size: int) -> bytes:
    """So many bytes."""
    return b".{%d}+" % size if size else b""


def joined(expressions: Sequence[bytes | None]) -> bytes | None:
    """One after the other; None where one of them has no expression, or all together are too long."""
    known = [expression for expression in expressions if expression is not None]
    whole = b"".join(known)
    return whole if len(known) == len(expressions) and len(whole) <= EXPRESSION_BYTES_MAX else None


def compiled(expression: bytes) -> re.Pattern[bytes]:
    """The expression for any bytes."""
    return re.compile(expression, re.DOTALL)


def skip_long(content: bytes, at: int) -> int:
    """Where the number ends that begins there. Raises as `Skip` does."""
    start = at
    while content[at] >= 0x80:
        at += 1
        if at - start == _LONG_BYTES_MAX:
            raise ValueError("a number of more than ten bytes")
    return at + 1


def long_mark(content: bytes, at: int) -> tuple[int, int]:
    """The mark of a union's branch that takes more bytes than it needs, as in one byte, and where it ends."""
    number, at = long_at(content, at)
    return number * 2, at


def _skip_bytes(content: bytes, at: int) -> int:
    first, second = content[at], content[at + 1] if at + 1 < len(content) else 0
    if first >= 0x80 > second and not first & 1:  # as the length of a location is
        size, at = second << 6 | (first & 0x7F) >> 1, at + 2
    else:
        size, at = long_at(content, at)
    if size < 0 or at + size > len(content):
        raise ValueError("cut inside a value")
    return at + size


def long_at(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where it ends. Raises as `Skip` does."""
    end = skip_long(content, at)
    return long_of(content[at:end]), end


def long_of(stored: bytes) -> int:
    """The number that these bytes are, of whose tenth the lowest bit only is part of it: Avro's decoders shift out the
    others.
    """
    if len(stored) == 1:
        rest = stored[0]
    elif len(stored) == 2:
        rest = stored[0] & 0x7F | stored[1] << 7
    elif len(stored) == 3:
        rest = stored[0] & 0x7F | (stored[1] & 0x7F) << 7 | stored[2] << 14
    else:
        rest = 0
        for byte in reversed(stored):
            rest = rest << 7 | byte & 0x7F
        rest &= _LONG_MASK
    return (rest >> 1) ^ -(rest & 1)


def content_of(stored: bytes) -> bytes:
    """What a text or bytes say, without their length."""
    return stored[1:] if stored[0] < 0x80 else stored[2:] if stored[1] < 0x80 else stored[skip_long(stored, 0) :]
