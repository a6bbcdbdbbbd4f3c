"""JSON from outside, read without guessing: what two parsers could read differently is refused.

The standard parsers take the last of two equal keys, turn ``1e999`` into infinity, accept ``NaN`` and pass on halves of
surrogate pairs that cannot be encoded again. In a commit each of these is a different commit than the sender meant.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from firn.model.errors import InvalidInput, TooLarge

JSON_DEPTH_MAX: Final = 64
"""Levels of arrays and objects accepted by default."""

JSON_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of encoded JSON accepted by default."""

JSON_VALUES_MAX: Final = 1_500_000
"""Values in one JSON text accepted by default, of which decoding takes less than a second and some 300 MB, however they
are arranged."""

LONG_DIGITS_MAX: Final = 10_000
"""Runs of nineteen digits that are looked at one by one. With more of them each number is checked as it is parsed."""

TOKENS_PER_VALUE: Final = 4
"""A name, a string, a comma or opening bracket, and a closing bracket."""

_TOKENS: Final = re.compile(rb'"[^"]*+"?|[\[\]{},]')
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_CLOSING: Final = frozenset(b"]}")

_INTEGER_MAX: Final = 2**64 - 1
_INTEGER_MIN: Final = -(2**63)
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_DIGITS: Final = re.compile(rb"0+")
_NINETEEN_DIGITS: Final = b"0" * 19
_BEFORE_NUMBERS: Final = frozenset(b"[:, \t\n\r")
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class _Refused(ValueError):
    """Why a value is refused, raised from inside the standard parser's hooks."""


def loads(
    data: bytes | str,
    *,
    where: str,
    bytes_max: int = JSON_BYTES_MAX,
    values_max: int = JSON_VALUES_MAX,
    depth_max: int = JSON_DEPTH_MAX,
) -> Any:
    """The value of a UTF-8 JSON text; objects become dicts in the text's order.

    Refuses duplicate keys, NaN, infinities (``1e999`` too), integers beyond 64 bits, lone surrogates, a byte order
    mark, control characters in strings and anything after the value. Raises InvalidInput naming `where` and the
    position, and TooLarge for more than `bytes_max` bytes, `values_max` values or `depth_max` levels.
    """
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(encoded) > bytes_max:
        raise TooLarge(f"{len(encoded)} bytes of JSON, the limit is {bytes_max} bytes", where=where)
    check_values(encoded, where=where, values_max=values_max)
    try:
        text = encoded.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"not UTF-8 at byte {exc.start}", where=where) from None
    # The hook for integers is slow, so it is used only where some number, and not just a string of hexadecimal digits,
    # may be too long for 64 bits.
    parse_int = _integer if _has_long_integer(encoded) else None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=parse_int
        )
    except json.JSONDecodeError as exc:
        raise InvalidInput(f"not JSON at line {exc.lineno}, column {exc.colno}: {exc.msg}", where=where) from None
    except _Refused as exc:
        raise InvalidInput(str(exc), where=where) from None
    except RecursionError:
        raise TooLarge(f"more than {depth_max} levels of arrays and objects", where=where) from None
    if encoded.count(b"[") + encoded.count(b"{") > depth_max:  # else there are too few brackets to nest that deep
        _check_depth(value, depth_max, where)
    if _SURROGATE_ESCAPE.search(encoded):
        _check_surrogates(value, where)
    return value


def check_values(encoded: bytes, *, where: str, values_max: int) -> None:
    """Raise TooLarge for a JSON text with more than `values_max` values, naming the member, before anything is decoded.

    A decoder builds all of a text in few calls, during which no other thread runs. Commas and opening brackets bound
    the number of values; only where that bound is passed, those in strings are left out.
    """
    if len(encoded) <= values_max:  # each value takes a byte at least
        return
    if encoded.count(b",") + encoded.count(b"[") + encoded.count(b"{") < values_max:
        return
    member = _member_beyond(encoded, values_max)
    if member is not None:
        where = f"{where}.{member}" if where and member else where or member
        raise TooLarge(f"more than {values_max} JSON values", where=where)


def _member_beyond(encoded: bytes, values_max: int) -> str | None:
    """The member of the whole in which its values become more than `values_max`, None where there are fewer."""
    plain = encoded.replace(b"\\\\", b"").replace(b'\\"', b"")  # a quote now begins or ends a string
    values, depth, name, is_name = 1, 0, b"", False
    for number, token in enumerate(_TOKENS.finditer(plain)):
        first = plain[token.start()]
        if first == _QUOTE:
            if is_name:
                name, is_name = token[0], False
        elif first in _CLOSING:
            depth -= 1
        else:
            values += 1
            depth += first != _COMMA
            is_name = depth == 1
        if values > values_max or number > TOKENS_PER_VALUE * values_max:  # with more tokens than that it is no JSON
            return _cut(name[1:-1].decode("utf-8", "replace"))
    return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"duplicate key {key!r}")
            seen.add(key)
    return members


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"number {_cut(text)} is too large")
    return number


def _has_long_integer(encoded: bytes) -> bool:
    """Whether a number may have more than 64 bits: twenty digits, or nineteen after a minus sign.

    Strings do not count (bounds in hexadecimal are full of digits) unless they look like an array of numbers.
    """
    zeros = encoded.translate(_DIGITS_TO_ZERO)
    start = zeros.find(_NINETEEN_DIGITS)
    for _ in range(LONG_DIGITS_MAX):
        if start < 0:
            return False
        run = _DIGITS.match(zeros, start)
        assert run is not None
        before = zeros[start - 1] if start else ord(",")
        if before == ord("-") or (run.end() - start >= 20 and before in _BEFORE_NUMBERS):
            return True
        start = zeros.find(_NINETEEN_DIGITS, run.end())
    return True


def _integer(text: str) -> int:
    if len(text) <= 20:
        number = int(text)
        if _INTEGER_MIN <= number <= _INTEGER_MAX:
            return number
    raise _Refused(f"integer {_cut(text)} does not fit in 64 bits")


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}… ({len(text)} characters)"


def _check_depth(value: Any, depth_max: int, where: str) -> None:
    """Level by level, so that neither stack nor time depends on how the nesting is arranged."""
    level = [value] if isinstance(value, (dict, list)) else []
    depth = 0
    while level:
        depth += 1
        if depth > depth_max:
            raise TooLarge(f"more than {depth_max} levels of arrays and objects", where=where)
        level = [
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
            if isinstance(member, (dict, list))
        ]


def _check_surrogates(value: Any, where: str) -> None:
    """Find a string that UTF-8 cannot hold; the escape alone may be half of a valid pair."""
    open_values = [(where, value)]
    while open_values:
        path, item = open_values.pop()
        if isinstance(item, str):
            _check_encodable(item, path)
        elif isinstance(item, list):
            open_values.extend((f"{path}[{i}]", member) for i, member in enumerate(item))
        elif isinstance(item, dict):
            for key, member in item.items():
                _check_encodable(key, path)
                open_values.append((f"{path}.{key}", member))


def _check_encodable(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInput(
            f"lone surrogate U+{ord(text[exc.start]):04X} at character {exc.start} of a string", where=where
        ) from None
