"""Members of a decoded JSON object, each checked for its type; an error names the member's path.

Booleans are not integers here although Python thinks so, and ``null`` is the same as absent, as Iceberg's own readers
take it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from firn.model.errors import InvalidMetadata

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


def join(where: str, key: str) -> str:
    """The path of member `key` of the object at path `where`."""
    return f"{where}.{key}" if where else key


def as_object(value: Any, *, where: str) -> dict[str, Any]:
    """`value` itself, when it is a JSON object; raises InvalidMetadata otherwise."""
    if not isinstance(value, dict):
        raise InvalidMetadata(f"must be an object, not {describe(value)}", where=where)
    return value


def describe(value: Any) -> str:
    """A short name of a JSON value's type, for messages."""
    if value is None:
        return "null"
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    return names.get(type(value), "a number" if isinstance(value, float) else type(value).__name__)


def int_or_none(obj: dict[str, Any], key: str, *, where: str, low: int = INT_MIN, high: int = INT_MAX) -> int | None:
    """The integer member `key` within [`low`, `high`], None when absent."""
    value = obj.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidMetadata(f"must be an integer, not {describe(value)}", where=join(where, key))
    if not low <= value <= high:
        raise InvalidMetadata(f"{value} is outside {low} … {high}", where=join(where, key))
    return value


def int_of(obj: dict[str, Any], key: str, *, where: str, low: int = INT_MIN, high: int = INT_MAX) -> int:
    """The integer member `key`; raises when it is missing."""
    value = int_or_none(obj, key, where=where, low=low, high=high)
    if value is None:
        raise missing(key, where=where)
    return value


def long_or_none(obj: dict[str, Any], key: str, *, where: str, low: int = LONG_MIN) -> int | None:
    """The 64-bit member `key`, None when absent."""
    return int_or_none(obj, key, where=where, low=low, high=LONG_MAX)


def long_of(obj: dict[str, Any], key: str, *, where: str, low: int = LONG_MIN) -> int:
    """The 64-bit member `key`; raises when it is missing."""
    return int_of(obj, key, where=where, low=low, high=LONG_MAX)


def str_or_none(obj: dict[str, Any], key: str, *, where: str) -> str | None:
    """The string member `key`, None when absent."""
    value = obj.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidMetadata(f"must be a string, not {describe(value)}", where=join(where, key))
    return value


def str_of(obj: dict[str, Any], key: str, *, where: str) -> str:
    """The string member `key`; raises when it is missing."""
    value = str_or_none(obj, key, where=where)
    if value is None:
        raise missing(key, where=where)
    return value


def list_or_none(obj: dict[str, Any], key: str, *, where: str) -> list[Any] | None:
    """The array member `key`, None when absent."""
    value = obj.get(key)
    if value is not None and not isinstance(value, list):
        raise InvalidMetadata(f"must be an array, not {describe(value)}", where=join(where, key))
    return value


def list_of(obj: dict[str, Any], key: str, *, where: str) -> list[Any]:
    """The array member `key`; raises when it is missing."""
    value = list_or_none(obj, key, where=where)
    if value is None:
        raise missing(key, where=where)
    return value


def longs_of(obj: dict[str, Any], key: str, *, where: str) -> tuple[int, ...]:
    """The member `key` as an array of 64-bit integers."""
    values = list_of(obj, key, where=where)
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int) or not LONG_MIN <= value <= LONG_MAX:
            raise InvalidMetadata(f"must be a 64-bit integer, not {describe(value)}", where=f"{join(where, key)}[{i}]")
    return tuple(values)


def strs_of(obj: dict[str, Any], key: str, *, where: str) -> tuple[str, ...]:
    """The member `key` as an array of strings."""
    values = list_of(obj, key, where=where)
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidMetadata(f"must be a string, not {describe(value)}", where=f"{join(where, key)}[{i}]")
    return tuple(values)


def str_map(value: Any, *, where: str) -> dict[str, str]:
    """`value` as a map of strings to strings; raises InvalidMetadata naming the entry that is not."""
    obj = as_object(value, where=where)
    for key, member in obj.items():
        if not isinstance(member, str):
            raise InvalidMetadata(f"must be a string, not {describe(member)}", where=join(where, key))
    return obj


def extra_of(obj: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """The members of `obj` that are not in `known`: kept, so that a newer writer's fields survive."""
    if obj.keys() <= known:
        return {}
    return {key: value for key, value in obj.items() if key not in known}


def put(out: dict[str, Any], members: Iterable[tuple[str, Any]]) -> None:
    """Add the members that have a value: Iceberg's writers leave null members out."""
    out.update((key, value) for key, value in members if value is not None)


def missing(key: str, *, where: str) -> InvalidMetadata:
    """The error for a required member that is not there."""
    return InvalidMetadata("missing, but required", where=join(where, key))
