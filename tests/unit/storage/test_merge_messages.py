"""A merged manifest has the same bytes whoever lays it out, and nothing goes over that these do not depend on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firn.model.errors import InvalidInput
from firn.storage.merge_messages import ingredients, room_for, spelled
from firn.storage.merged_manifests import Ingredients, gathered, laid_out
from firn.storage.packed_entries import PackedEntries
from tests.strategies.manifests import EXAMPLE_PARTITION, SPEC, added, entries
from tests.unit.storage.test_merged_manifests import Stored

EXAMPLE = added(spec_id=SPEC.spec_id, partition=EXAMPLE_PARTITION)


def handed_over(made_of: Ingredients) -> Ingredients:
    """As the process gets it, in memory that is its own no longer."""
    parts = spelled(made_of)
    memory = bytearray(b"".join([*parts, bytes(100)]))
    got = ingredients(memoryview(memory), len(parts[0]))
    memory[:] = bytes(len(memory))
    return got


def never(part: Any) -> Any:
    pytest.fail(f"{part} is decoded")


@pytest.mark.parametrize(
    ("version", "content"), [(1, "data"), (2, "data"), (3, "data"), (2, "deletes"), (3, "deletes")]
)
@given(data=st.data())
def test_a_merged_manifest_is_the_same_byte_for_byte_whoever_lays_it_out(version: int, content: str, data: Any) -> None:
    stored = Stored(version, content)
    kind = "data" if content == "data" else "position-deletes"
    for _ in range(data.draw(st.integers(1, 4))):
        listed = data.draw(st.lists(entries(content=kind, format_version=version), min_size=1, max_size=3))
        stored.add(listed, kept=data.draw(st.booleans()))
    made_of = gathered(stored.manifests, stored.metadata, stored.source)
    here = laid_out(made_of, decode=lambda part: stored.entries(stored.metadata, part))
    got = handed_over(made_of)
    assert [type(one) for _, one in got.parts] == [type(one) for _, one in made_of.parts]
    there = laid_out(got, decode=lambda part: stored.entries(stored.metadata, part))
    assert there.data == here.data
    assert got.files == made_of.files
    assert len(there.data) <= room_for(spelled(made_of))


@given(data=st.data())
def test_a_row_goes_over_without_keys_and_summaries(data: Any) -> None:
    stored = Stored(2)
    stored.add(data.draw(st.lists(entries(format_version=2), min_size=1, max_size=3)), kept=True)
    row = replace(stored.manifests[0], key_metadata=b"the key", extra={"another": "value"})
    made_of = gathered([row], stored.metadata, stored.source)
    ((got, one),) = handed_over(made_of).parts
    assert isinstance(one, PackedEntries)
    assert got == replace(row, key_metadata=None, extra={}, partitions=None)
    assert b"the key" not in b"".join(spelled(made_of))


def test_after_each_step_somebody_may_look_for_other_work() -> None:
    stored = Stored(2)
    for number in range(3):
        stored.add([EXAMPLE] * 150, kept=number > 0)
    looks: list[None] = []
    made_of = handed_over(gathered(stored.manifests, stored.metadata, stored.source))
    laid_out(made_of, decode=never, after_each=lambda: looks.append(None))
    assert len(looks) == 3 + 5  # parts, and blocks of 100 entries


def test_what_is_no_partition_type_is_refused() -> None:
    stored = Stored(2)
    stored.add([EXAMPLE], kept=True)
    made_of = gathered(stored.manifests, stored.metadata, stored.source)
    layout = replace(made_of.layout, partition_type=made_of.layout.partition_type.fields[0].type)
    parts = spelled(replace(made_of, layout=layout))
    with pytest.raises(InvalidInput, match="partition type"):
        ingredients(memoryview(b"".join(parts)), len(parts[0]))
