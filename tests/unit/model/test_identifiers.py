"""Intent ids and the times that they say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firn.model.identifiers import intent_id_ms, intent_ids_ms, is_intent_id, uuid7

TIMES = st.integers(0, 2**48 - 1)
IDS = st.builds(lambda ms, entropy: (ms, uuid7(now_ms=ms, entropy=entropy)), TIMES, st.binary(min_size=10, max_size=10))


@given(st.lists(IDS))
def test_ids_say_when_they_were_made_one_by_one_and_many_at_once(made: list[tuple[int, str]]) -> None:
    times, ids = [ms for ms, _ in made], [intent_id for _, intent_id in made]
    assert all(map(is_intent_id, ids))
    assert list(map(intent_id_ms, ids)) == intent_ids_ms(ids) == times


def test_ids_of_another_form_are_read_one_by_one() -> None:
    made = uuid7(now_ms=1_700_000_000_000, entropy=bytes(10))
    assert intent_ids_ms([made[:23], made, f"{made}-0"]) == [1_700_000_000_000] * 3
