"""Which reservations overlap: what is certain, what cannot be told, and what is certainly apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.expressions.disjoint import certainly_disjoint
from firn.model.expressions.filter_text import filter_from_text
from firn.model.reservation import Reservation, ReservedPartition, Scope, overlaps_of


def held(scope: Scope, name: str = "r") -> Reservation:
    return Reservation(reservation_id=name, table="db.t", holder="someone", scope=scope, begun_ms=0, until_ms=1)


def files(*names: str, **members: Any) -> Scope:
    return Scope(files=names, **members)


def partitions(*values: Any, spec_id: int = 0) -> Scope:
    return Scope(partitions=tuple(ReservedPartition(spec_id, (value,)) for value in values))


def rows(column: str, op: str, value: Any) -> Scope:
    return Scope(row_filter={"type": op, "term": column, "value": value})


@pytest.mark.parametrize(
    ("mine", "theirs", "certain"),
    [
        (files("a", "b"), files("b", "c"), True),
        (files("a"), files("b"), None),
        (files("a"), files("a", branch="dev"), None),
        (Scope(), files("a"), True),
        (files("a"), Scope(), True),
        (Scope(branch="dev"), Scope(), None),
        (partitions(1, 2), partitions(2), True),
        (partitions(1), partitions(2), None),
        (partitions(None), partitions(None), True),
        (partitions(1), partitions(1, spec_id=1), False),
        (files("a"), partitions(1), False),
        (rows("day", "eq", 1), partitions(1), False),
        (rows("day", "eq", 1), rows("day", "eq", 1), True),
        (rows("day", "eq", 1), rows("day", "eq", 2), None),
        (rows("day", "eq", 1), rows("id", "eq", 2), False),
        (rows("day", "gt", 1), rows("day", "lt", 5), False),
        (rows("day", "nonsense", 1), rows("day", "eq", 5), False),
        (Scope.of_nothing(), Scope(), None),
        (Scope.of_nothing(), files("a"), None),
        (Scope.of_nothing(), partitions(1), None),
        (Scope.of_nothing(), rows("day", "eq", 1), None),
        (Scope.of_nothing(), Scope.of_nothing(), None),
    ],
)
def test_scopes_overlap_certainly_perhaps_or_not(mine: Scope, theirs: Scope, certain: bool | None) -> None:
    for one, other in ((mine, theirs), (theirs, mine)):
        assert [overlap.certain for overlap in overlaps_of(one, [held(other)], canonical=str)] == (
            [] if certain is None else [certain]
        )


def test_common_files_are_named_and_what_is_certain_comes_first() -> None:
    others = [held(partitions(1), "perhaps"), held(files("b", "a", "z"), "surely")]
    surely, perhaps = overlaps_of(files("a", "b", "c"), others, canonical=str)
    assert (surely.reservation.reservation_id, surely.files) == ("surely", ("a", "b"))
    assert perhaps.reservation.reservation_id == "perhaps"


@pytest.mark.parametrize(
    ("one", "other", "disjoint"),
    [
        ("a = 1", "a = 2", True),
        ("a = 1", "a = 1.0", False),
        ("a in (1, 2)", "a in (3, 4)", True),
        ("a in (1, 2)", "a in (2, 3)", False),
        ("a < 5", "a >= 5", True),
        ("a <= 5", "a >= 5", False),
        ("a < 5", "a > 4", False),
        ("a = 5", "a > 5", True),
        ("a = 5", "a >= 5", False),
        ("a > 5 and b = 1", "b = 2", True),
        ("a = 1 or a = 2", "a = 3", False),
        ("a = 1", "b = 2", False),
        ("not a = 1", "a = 2", False),
        ("a != 1", "a = 1", False),
        ("a = 'x'", "a = 'y'", True),
        ("a = 'x'", "a = 1", False),
        ("a = true", "a = 1", False),
        ("a < '2026-01-02'", "a >= '2026-01-02'", True),
        ("a = '2026-01-02T00:00:00+00:00'", "a = '2026-01-02T01:00:00+01:00'", False),
        ("a is null", "a = 1", False),
        ("a like 'x%'", "a = 'y'", False),
    ],
)
def test_filters_are_disjoint_only_where_their_text_proves_it(one: str, other: str, *, disjoint: bool) -> None:
    left, right = filter_from_text(one), filter_from_text(other)
    assert certainly_disjoint(left, right) is disjoint
    assert certainly_disjoint(right, left) is disjoint


def test_a_reservation_is_of_one_kind() -> None:
    with pytest.raises(ValueError, match="not of several"):
        Scope(files=("a",), row_filter=True)
    text = b'{"files": ["a"], "partitions": [{"spec-id": 0, "partition": [1]}]}'
    with pytest.raises(msgspec.ValidationError, match="not of several"):
        msgspec.json.decode(text, type=Scope)
