"""Metadata that follow on each other share an index of their snapshots; none finds in it what another has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.by_identity import ByIdentity
from firn.model.metadata import TableMetadata
from tests.strategies.examples import examples
from tests.strategies.metadata import appended, table


def found(metadata: TableMetadata, *snapshot_ids: int) -> list[int]:
    return [one for one in snapshot_ids if metadata.snapshot_by_id(one) is not None]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_base_does_not_find_what_came_after_it(version: int) -> None:
    base = appended(table(format_version=version), 1, 2)
    assert found(base, 1, 2, 3) == [1, 2]
    first, second = appended(base, 3), appended(base, 4)
    assert [found(one, 1, 2, 3, 4) for one in (base, first, second)] == [[1, 2], [1, 2, 3], [1, 2, 4]]
    later = appended(first, 5)
    assert [found(one, 1, 2, 3, 4, 5) for one in (base, first, second, later)] == [
        [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 3, 5],
    ]  # fmt: skip


def test_a_second_attempt_at_the_same_snapshot_finds_its_own() -> None:
    base = appended(table(), 1)
    assert found(base, 1) == [1]
    first, second = appended(base, 2), appended(base, 2)
    assert first.snapshot_by_id(2) is first.snapshots[1]
    assert second.snapshot_by_id(2) is second.snapshots[1]


@examples(150)
@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=30))
def test_every_metadata_of_a_tree_finds_exactly_its_own(steps: list[tuple[int, bool]]) -> None:
    made = [appended(table(), 1)]
    for snapshot_id, (at, looks) in enumerate(steps, 2):
        base = made[at % len(made)]
        if looks:
            base.snapshot_by_id(1)
        made.append(appended(base, snapshot_id))
    for metadata in made:
        own = [snapshot.snapshot_id for snapshot in metadata.snapshots]
        assert found(metadata, *range(1, len(made) + 1)) == own


def test_what_is_made_from_the_same_objects_is_made_once_and_from_equal_ones_again() -> None:
    made: list[tuple[int, ...]] = []

    def make(numbers: tuple[int, ...]) -> list[int]:
        made.append(numbers)
        return [2 * number for number in numbers]

    double = ByIdentity(make, kept_max=2)
    some = (1000, 2)
    equal = (*some, 3)[:2]
    assert double(some) is double(some)
    assert double(equal) == double(some)
    assert len(made) == 2
    double((3,))
    double(some)
    assert len(made) == 4, "it keeps no more than it may"
