"""A verdict is the same whether the table still has the snapshots since the base or has dropped any of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from firn.coordinator.replay import ancestry, window
from firn.model.intent import ContentFile, DeleteFileRef, Intent, RowDelta
from firn.model.operations.refs import CherryPick, CreateBranch, Publish, Rollback
from firn.model.operations.upkeep import ExpireSnapshots, UpgradeFormat
from firn.model.outcome import Committed, Outcome, Rejected
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id


class Story:
    """What happened to a table: snapshots in order, the intent that is tried then, and what must become of it."""

    def __init__(self, table: RealRows) -> None:
        self.table = table
        self.ids: list[int] = []
        self.kept: set[int] = set()

    async def do(self, intent: Any) -> int:
        snapshot_id = await self.table.commit(intent)
        self.ids.append(snapshot_id)
        return snapshot_id

    async def appends(self, count: int = 3, *, id: int = 1_000, region: str = "us") -> None:
        for number in range(count):
            await self.do(self.table.append(self.table.data((id + number, region))))


Told = tuple[Callable[[], Any], str]
"""The intent, made when all has happened, and its rule, or ``committed``."""

Case = Callable[[Story], Awaitable[Told]]


def delta(table: RealRows, base: int, *deletes: ContentFile, **members: Any) -> RowDelta:
    """Changes of rows that read no others."""
    return table.delta(base, *deletes, **{"isolation": "snapshot", **members})


def ref_of(file: Any) -> DeleteFileRef:
    return DeleteFileRef(file_path=file.file_path, content_offset=file.content_offset)


def case(version: int = 3, *, partitioned: bool = False) -> Callable[[Case], Case]:
    def keep(made: Case) -> Case:
        CASES[made.__name__] = (made, version, partitioned)
        return made

    return keep


CASES: dict[str, tuple[Case, int, bool]] = {}


@case()
async def replace_after_appends(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"))
    base = await story.do(table.append(file))
    await story.appends(5)
    return lambda: table.replace(base, [file], [table.data((1, "eu"), (2, "eu"))]), "committed"


@case()
async def replace_of_what_another_rewrote(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"))
    base = await story.do(table.append(file))
    await story.appends(2)
    await story.do(table.replace(base, [file], [table.data((1, "eu"))], writer="first"))
    await story.appends(2)
    return lambda: table.replace(base, [file], [table.data((1, "eu"))]), "missing-file"


@case()
async def replace_of_rows_that_were_deleted(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"))
    base = await story.do(table.append(file))
    await story.appends(2)
    await story.do(delta(table, base, table.vector(file, 0)))
    await story.appends(2)
    return lambda: table.replace(base, [file], [table.data((1, "eu"), (2, "eu"))]), "new-deletes"


@case()
async def replace_of_rows_whose_deletes_were_rewritten(story: Story) -> Told:
    """The vector is newer than the base and says what the base's said: nothing was deleted meanwhile."""
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"))
    await story.do(table.append(file))
    vector = table.vector(file, 0)
    base = await story.do(delta(table, story.ids[0], vector))
    await story.appends(2)
    again = table.vector(file, 0)
    await story.do(table.replace(base, [], delete_files=(again,), removed_delete_files=(ref_of(vector),)))
    await story.appends(2)
    return lambda: table.replace(base, [file], [table.data((2, "eu"))]), "committed"


@case(version=2)
async def replace_as_old_as_its_base(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"))
    base = await story.do(table.append(file))
    await story.do(delta(table, base, table.equality(2)))
    await story.appends(2)
    return lambda: table.replace(base, [file], [table.data((1, "eu"), (2, "eu"))], data_sequence_number=1), "committed"


@case(version=2)
async def replace_older_than_its_base_allows(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"))
    base = await story.do(table.append(file))
    await story.appends(4)
    return lambda: table.replace(
        base, [file], [table.data((1, "eu"), (2, "eu"))], data_sequence_number=3
    ), "wrong-sequence-number"


@case()
async def rewrite_of_a_vector_that_came_meanwhile(story: Story) -> Told:
    table, file, other = story.table, story.table.data((1, "eu"), (2, "eu")), story.table.data((3, "eu"), (4, "eu"))
    first = await story.do(table.append(file, other))
    vector = table.vector(other, 0)
    base = await story.do(delta(table, first, vector))
    await story.do(delta(table, base, table.vector(file, 1)))
    await story.appends(2)
    again = (table.vector(file, 1), table.vector(other, 0))
    return lambda: table.replace(base, [], delete_files=again, removed_delete_files=(ref_of(vector),)), "new-deletes"


@case()
async def delta_of_other_rows_of_a_file(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"), (3, "eu"))
    base = await story.do(table.append(file))
    await story.do(delta(table, base, table.vector(file, 0), added=[table.data((10, "eu"))]))
    await story.appends(3)
    return lambda: delta(table, base, table.vector(file, 2), added=[table.data((30, "eu"))]), "committed"


@case()
async def delta_of_a_row_that_was_changed(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"), (3, "eu"))
    base = await story.do(table.append(file))
    await story.appends(1)
    await story.do(delta(table, base, table.vector(file, 0), added=[table.data((10, "eu"))], writer="first"))
    await story.appends(2)
    return lambda: delta(table, base, table.vector(file, 0), added=[table.data((11, "eu"))]), "row-conflict"


@case()
async def delta_of_a_row_that_was_deleted_before_the_base(story: Story) -> Told:
    """A vector that came since has the row because the base's had it."""
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"), (3, "eu"))
    await story.do(table.append(file))
    base = await story.do(delta(table, story.ids[0], table.vector(file, 0)))
    await story.do(delta(table, base, table.vector(file, 1), added=[table.data((20, "eu"))]))
    await story.appends(2)
    return lambda: delta(table, base, table.vector(file, 0, 2), added=[table.data((30, "eu"))]), "committed"


@case()
async def delta_that_read_what_came(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"))
    base = await story.do(table.append(file))
    await story.appends(4, id=1)
    return lambda: table.delta(
        base, table.vector(file, 0), added=[table.data((1, "us"))], isolation="serializable"
    ), "new-data"


@case()
async def delta_of_a_file_that_a_delete_took(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"), (2, "eu"))
    base = await story.do(table.append(file, table.data((7, "eu"))))
    await story.do(table.delete(file))
    await story.appends(2)
    return lambda: delta(table, base, table.vector(file, 0), referenced_may_be_deleted=True), "committed"


@case(partitioned=True)
async def overwrite_of_a_filter_that_rows_came_to(story: Story) -> Told:
    table = story.table
    base = await story.do(table.append(table.data((1, "eu"))))
    await story.appends(2)
    await story.do(table.append(table.data((2, "eu")), writer="first"))
    await story.appends(2)
    mine = {"type": "eq", "term": "region", "value": "eu"}
    return lambda: table.overwrite(base, [table.data((3, "eu"))], row_filter=mine), "new-data"


@case(partitioned=True)
async def overwrite_of_a_filter_that_files_left(story: Story) -> Told:
    table, file = story.table, story.table.data((1, "eu"))
    base = await story.do(table.append(file))
    await story.appends(1)
    await story.do(table.delete(file))
    await story.appends(2)
    mine = {"type": "eq", "term": "region", "value": "eu"}
    return lambda: table.overwrite(base, [table.data((3, "eu"))], row_filter=mine, isolation="snapshot"), "removed-data"


@case(partitioned=True)
async def overwrite_beside_what_came(story: Story) -> Told:
    table = story.table
    base = await story.do(table.append(table.data((1, "eu"))))
    await story.appends(4)
    mine = {"type": "eq", "term": "region", "value": "eu"}
    return lambda: table.overwrite(base, [table.data((3, "eu"))], row_filter=mine), "committed"


@case(partitioned=True)
async def partitions_that_changed(story: Story) -> Told:
    table = story.table
    base = await story.do(table.append(table.data((1, "eu"))))
    await story.appends(2)
    await story.do(table.append(table.data((2, "eu"))))
    await story.appends(2)
    return lambda: table.replace_partitions(base, table.data((3, "eu"))), "new-data"


@case(partitioned=True)
async def partitions_beside_those_that_changed(story: Story) -> Told:
    table = story.table
    base = await story.do(table.append(table.data((1, "eu"))))
    await story.appends(4)
    return lambda: table.replace_partitions(base, table.data((3, "eu"))), "committed"


@case(version=2)
async def rows_that_were_given_ids_by_an_append(story: Story) -> Told:
    """The append that gave them is the oldest with ids, and no rule of a rewrite asks for an append otherwise."""
    table, file = story.table, story.table.data((1, "eu"))
    base = await story.do(table.append(file))
    await story.appends(1)
    await table.bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
    await story.appends(3)
    return lambda: table.replace(base, [file], [table.data((1, "eu"))]), "lost-row-ids"


@case()
async def pick_of_what_was_staged_before(story: Story) -> Told:
    table = story.table
    await story.appends(2)
    staged = await table.commit(table.append(table.data((5, "eu")), stage=True))
    await story.appends(3)
    return lambda: CherryPick(intent_id=new_id(), table=TABLE, snapshot_id=staged), "committed"


@case()
async def pick_of_what_was_picked_and_rewritten(story: Story) -> Told:
    table, file = story.table, story.table.data((5, "eu"))
    await story.appends(2)
    staged = await table.commit(table.append(file, stage=True, wap_id="w"))
    picked = await table.bench.commit(Publish(intent_id=new_id(), table=TABLE, wap_id="w"))
    assert picked.snapshot_id is not None
    if picked.snapshot_id != staged:
        story.ids.append(picked.snapshot_id)
    await story.do(table.replace(picked.snapshot_id, [file], [table.data((5, "eu"))]))
    await table.bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="keeps", snapshot_id=staged))
    await story.appends(2)
    return lambda: CherryPick(intent_id=new_id(), table=TABLE, snapshot_id=staged), "already-picked"


@case()
async def rollback_over_a_gap(story: Story) -> Told:
    await story.appends(1)
    story.kept.add(story.ids[0])
    await story.appends(4)
    return lambda: Rollback(intent_id=new_id(), table=TABLE, snapshot_id=story.ids[0]), "committed"


Dropping = Callable[[Sequence[int]], Sequence[Sequence[int]]]
DROPPINGS: dict[str, Dropping] = {
    "at once": lambda ids: [ids],
    "one by one": lambda ids: [[one] for one in ids],
    "newest first": lambda ids: [[one] for one in ids[::-1]],
    "every other, then the rest": lambda ids: [ids[1::2], ids[::2]],
    "the middle": lambda ids: [ids[1:-1]],
}


async def told(name: str, dropping: Dropping | None) -> tuple[Any, ...]:
    """What became of a case's intent: all that names neither this very table nor an id of it."""
    made, version, partitioned = CASES[name]
    bench = Workbench()
    async with bench.daemon():
        story = Story(await RealRows.create(bench, version=version, partitioned=partitioned))
        intent, expected = await made(story)
        for dropped in [] if dropping is None else dropping(story.ids[:-1]):
            numbers = tuple(one for one in dropped if one not in story.kept)
            await bench.commit(
                ExpireSnapshots(
                    intent_id=new_id(), table=TABLE, snapshot_ids=numbers, older_than_ms=0, retain_last=1_000
                )
            )
        if dropping is not None:
            left = {one.snapshot_id for one in (await bench.metadata()).snapshots}
            assert len(left) < len(story.ids)
        (outcome,) = await bench.settle(intent())
        rows = await story.table.rows()
    assert rule_of(outcome) == expected, outcome
    return (*seen(outcome, story.ids), rows)


def rule_of(outcome: Outcome) -> str:
    return outcome.rule if isinstance(outcome, Rejected) else "committed"


def seen(outcome: Outcome, ids: Sequence[int]) -> tuple[Any, ...]:
    if isinstance(outcome, Committed):
        return ("committed",)
    assert isinstance(outcome, Rejected)
    winner = outcome.conflicting_snapshot_id
    return (
        outcome.rule,
        outcome.hint,
        None if winner is None else ids.index(winner),
        outcome.conflicting_writer,
        outcome.conflicting_operation,
        outcome.files,
        outcome.partitions,
    )


@pytest.mark.parametrize("name", CASES)
async def test_every_rule_decides_as_with_the_whole_history(name: str) -> None:
    whole = await told(name, None)
    for dropping in DROPPINGS.values():
        assert await told(name, dropping) == whole
    if whole[0] not in {"committed", "wrong-sequence-number", "already-picked"}:
        assert whole[2] is not None, "the winner is named"


@pytest.mark.parametrize("name", ["delta_of_a_row_that_was_changed", "replace_of_what_another_rewrote"])
async def test_the_winner_is_named_with_its_writer_after_it_was_dropped(name: str) -> None:
    _, _, _, writer, operation, *_ = await told(name, DROPPINGS["at once"])
    assert (writer, operation) == ("first", "row-delta" if "delta" in name else "replace")


@settings(max_examples=6)
@given(
    steps=st.lists(st.sampled_from(["append", "eu", "compact", "delete"]), min_size=4, max_size=8),
    dropped=st.lists(st.integers(0, 2**8 - 1), min_size=1, max_size=3),
    tried=st.sampled_from(["replace", "delta", "overwrite", "partitions"]),
)
async def test_whatever_happened_and_whatever_was_dropped_in_whatever_order(
    steps: list[str], dropped: list[int], tried: str
) -> None:
    async def outcome(droppings: Sequence[int]) -> tuple[Any, ...]:
        bench = Workbench()
        async with bench.daemon():
            table = await RealRows.create(bench, partitioned=True)
            story = Story(table)
            file, other = table.data((1, "eu"), (2, "eu"), (3, "eu")), table.data((4, "eu"))
            base = await story.do(table.append(file, other))
            for number, step in enumerate(steps):
                match step:
                    case "append":
                        await story.appends(1, id=100 + number)
                    case "eu":
                        await story.appends(1, id=100 + number, region="eu")
                    case "compact":
                        await bench.settle(table.replace(base, [other], [table.data((4, "eu"))]))
                    case "delete":
                        await bench.settle(delta(table, base, table.vector(file, number % 3)))
            story.ids = [one.snapshot_id for one in (await bench.metadata()).snapshots]
            for mask in droppings:
                numbers = tuple(one for at, one in enumerate(story.ids[:-1]) if mask >> at & 1)
                expiry = ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=numbers, older_than_ms=0)
                await bench.commit(msgspec.structs.replace(expiry, retain_last=1_000))
            mine = {"type": "eq", "term": "region", "value": "eu"}
            intents: dict[str, Callable[[], Intent]] = {
                "replace": lambda: table.replace(base, [file], [table.data((1, "eu"), (2, "eu"), (3, "eu"))]),
                "delta": lambda: delta(table, base, table.vector(file, 1), added=[table.data((20, "eu"))]),
                "overwrite": lambda: table.overwrite(base, [table.data((9, "eu"))], row_filter=mine),
                "partitions": lambda: table.replace_partitions(base, table.data((9, "eu"))),
            }
            (found,) = await bench.settle(intents[tried]())
            return (*seen(found, story.ids), await table.rows())

    assert await outcome(dropped) == await outcome([])


async def test_files_of_dropped_snapshots_that_are_gone_refuse_the_intent_and_hold_up_nothing_else() -> None:
    """An engine of others removes what expired snapshots named; firn's own maintenance keeps it for a day."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data((1, "eu"), (2, "eu"))
        base = await table.commit(table.append(file))
        first = await table.commit(delta(table, base, table.vector(file, 1)))
        await table.commit(table.append(table.data((5, "eu"))))
        snapshot = (await bench.metadata()).snapshot_by_id(first)
        await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=(base, first)))
        assert snapshot is not None
        assert snapshot.manifest_list is not None
        bench.files.delete(snapshot.manifest_list)
    async with bench.daemon("b"):
        refused = await table.refused(table.replace(base, [file], [table.data((1, "eu"))]))
        assert (refused.rule, refused.hint) == ("unknown-base", "replan")
        assert snapshot.manifest_list in refused.message
        await table.commit(table.append(table.data((6, "eu"))))


async def test_history_has_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench()
    async with bench.daemon():
        story = Story(await RealRows.create(bench, partitioned=True))
        table = story.table
        file = table.data((1, "eu"))
        base = await story.do(table.append(file))
        await story.appends(5)
        numbers = tuple(story.ids[:-1])
        await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=numbers, older_than_ms=0))
        monkeypatch.setattr(window, "DROPPED_LOOKED_AT_MAX", 3)
        many = await table.refused(table.replace_partitions(base, table.data((3, "eu"))))
        await table.commit(table.replace(base, [file], [table.data((1, "eu"))]))  # it asks for no append
        monkeypatch.setattr(window, "DROPPED_LOOKED_AT_MAX", 50)
        monkeypatch.setattr(ancestry, "SIDE_SNAPSHOTS_MAX", 2)
        beside = await table.refused(table.replace_partitions(12345, table.data((3, "eu"))))
    assert many.rule == beside.rule == "unknown-base"
    assert "more than 3 snapshots" in many.message
    assert "more than 2 snapshots of other branches" in beside.message
