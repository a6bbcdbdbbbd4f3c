"""Row deltas: rows go by vectors, positions and equality, and never come back."""

from __future__ import annotations

import msgspec
import pytest

from firn.model.intent import RowDelta
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.storage.puffin import PuffinFile
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows, field_is, ref
from tests.unit.coordinator.workbench import Workbench, new_id

TEN = tuple((id, "eu") for id in range(10))


async def test_deletes_in_two_vectors_that_meet_are_merged() -> None:
    """Case 2: a data file with two deletion vectors is unreadable."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, table.vector(file, 0, 1)))
        await table.commit(table.delta(base, table.vector(file, 1, 5)))
        (vector,) = await table.delete_files()
    assert await table.ids() == [2, 3, 4, 6, 7, 8, 9]
    assert vector.record_count == 3
    stored = PuffinFile.parse(bench.files.read(vector.file_path, bytes_max=10_000), location=vector.file_path)
    assert [list(found) for found in stored.deletion_vectors().values()] == [[0, 1, 5]]


async def test_vectors_that_meet_within_a_batch_are_merged_too() -> None:
    """The second merge reads what the first one has only drafted."""
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        deltas = [table.delta(base, table.vector(file, position), isolation="snapshot") for position in range(4)]
        outcomes = await bench.gathered(daemon, *deltas)
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        (vector,) = await table.delete_files()
    assert vector.record_count == 4


async def test_updates_of_other_rows_of_one_file_are_both_made() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        both = {"conflict_filter": field_is("region", "nowhere")}
        await table.commit(table.delta(base, table.vector(file, 0), added=[table.data((100, "eu"))], **both))
        await table.commit(table.delta(base, table.vector(file, 1), added=[table.data((101, "eu"))], **both))
    assert await table.ids() == [2, 3, 4, 5, 6, 7, 8, 9, 100, 101]


@pytest.mark.parametrize("other_updates", [False, True])
async def test_an_update_of_a_row_that_was_taken_meanwhile_names_its_position(other_updates: bool) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        added = [table.data((100, "us"))] if other_updates else []
        won = table.delta(base, table.vector(file, 3, 4), added=added, writer="first")
        first = await table.commit(won)
        reads_eu = {"conflict_filter": field_is("region", "eu")}
        lost = await table.refused(
            table.delta(base, table.vector(file, 4, 5), added=[table.data((200, "eu"))], **reads_eu)
        )
    assert (lost.rule, lost.hint) == ("row-conflict", "replan")
    assert lost.files == (file.file_path,)
    assert "at position 4" in lost.message
    assert (lost.conflicting_snapshot_id, lost.conflicting_writer) == (first, "first")
    assert lost.conflicting_intent_id == won.intent_id
    assert lost.base_snapshot_id == base
    assert lost.head_snapshot_id == first


async def test_a_delete_of_a_row_that_was_changed_meanwhile_is_refused_other_rows_are_deleted() -> None:
    """Deleting the old version of a row would leave the new one, which no order of the two explains."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        won = await table.commit(
            table.delta(base, table.vector(file, 3), added=[table.data((30, "eu"))], isolation="snapshot")
        )
        await table.commit(table.delta(base, table.vector(file, 2), isolation="snapshot"))
        lost = await table.refused(table.delta(base, table.vector(file, 3), isolation="snapshot"))
    assert (lost.rule, lost.conflicting_snapshot_id) == ("row-conflict", won)
    assert "at position 3" in lost.message
    assert await table.ids() == [0, 1, 4, 5, 6, 7, 8, 9, 30]


async def test_rows_that_were_gone_at_the_base_are_no_conflict() -> None:
    """A new vector has the old positions too; only those that came after the base count."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        await table.commit(table.append(file))
        old = table.vector(file, 0)
        base = await table.commit(table.delta((await table.snapshot()).snapshot_id, old))  # type: ignore[union-attr]
        await table.commit(table.delta(base, table.vector(file, 0, 1), removed_delete_files=(ref(old),)))
        update = table.delta(
            base, table.vector(file, 0, 2), added=[table.data((20, "eu"))], removed_delete_files=(ref(old),),
        )  # fmt: skip
        await table.commit(update)
        assert len(await table.delete_files()) == 1
    assert await table.ids() == [3, 4, 5, 6, 7, 8, 9, 20]


async def test_several_vectors_for_one_file_in_one_intent_become_one() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, table.vector(file, 0, 1), table.vector(file, 2), table.vector(file, 9)))
        assert len(await table.delete_files()) == 1
    assert await table.ids() == [3, 4, 5, 6, 7, 8]


async def test_a_vector_that_the_writer_did_not_mention_is_absorbed() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        base = await table.commit(table.delta(base, table.vector(file, 0)))
        await table.commit(table.delta(base, table.vector(file, 9)))
        assert len(await table.delete_files()) == 1
        summary = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
    assert await table.ids() == list(range(1, 9))
    assert (summary["added-dvs"], summary["removed-dvs"]) == ("1", "1")


async def test_a_vector_for_a_file_that_was_compacted_meanwhile_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        won = await table.commit(table.replace(base, [file], [table.data(*TEN)], writer="compactor"))
        lost = await table.refused(table.delta(base, table.vector(file, 3)))
    assert lost.rule == "missing-file"
    assert lost.files == (file.file_path,)
    assert (lost.conflicting_snapshot_id, lost.conflicting_writer) == (won, "compactor")


async def test_a_vector_for_a_file_that_was_deleted_meanwhile_is_refused_unless_the_intent_allows_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file, other = table.data(*TEN), table.data((20, "eu"), (21, "eu"))
        base = await table.commit(table.append(file, other))
        await table.commit(table.delete(file))
        deletes = table.vector(file, 3), table.vector(other, 0)
        assert (await table.refused(table.delta(base, *deletes))).rule == "missing-file"
        await table.commit(table.delta(base, *deletes, referenced_may_be_deleted=True))
        (vector,) = await table.delete_files()
    assert vector.referenced_data_file == other.file_path
    assert await table.ids() == [21]


async def test_rows_that_come_meanwhile_conflict_with_a_serializable_delta_that_would_read_them() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        us = await table.commit(table.append(table.data((50, "us")), writer="loader"))
        everything = await table.refused(table.delta(base, table.vector(file, 0)))
        await table.commit(table.delta(base, table.vector(file, 0), conflict_filter=field_is("region", "eu")))
        await table.commit(table.delta(base, table.vector(file, 1), isolation="snapshot"))
    assert (everything.rule, everything.conflicting_snapshot_id) == ("new-data", us)
    assert everything.conflicting_writer == "loader"
    assert await table.ids() == [2, 3, 4, 5, 6, 7, 8, 9, 50]


async def test_a_compaction_is_not_new_data() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        one, two, three = table.data(*TEN), table.data((20, "eu")), table.data((21, "eu"))
        base = await table.commit(table.append(one, two, three))
        await table.commit(table.replace(base, [two, three], [table.data((20, "eu"), (21, "eu"))]))
        await table.commit(table.delta(base, table.vector(one, 0)))
    assert await table.ids() == [*range(1, 10), 20, 21]


async def test_equality_deletes_always_apply_and_reach_only_older_rows() -> None:
    """Case 5: each delta keeps a snapshot of its own, also within a batch."""
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench, version=2)
        upserts = [
            RowDelta(
                intent_id=new_id(),
                table="db.events",
                data_files=(table.data((1, f"v{n}")),),
                delete_files=(table.equality(1),),
            )
            for n in range(3)
        ]
        first, *others = upserts
        await table.commit(first)
        outcomes = await bench.gathered(daemon, *others, blocker="b")
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert len({outcome.snapshot_id for outcome in outcomes if isinstance(outcome, Committed)}) == 2
        numbers = [outcome.sequence_number for outcome in outcomes if isinstance(outcome, Committed)]
        assert numbers[0] != numbers[1]
        live = [entry for entry in await table.entries() if not entry.data_file.file_path.endswith("b.parquet")]
        ages = sorted((entry.sequence_number, entry.data_file.content) for entry in live)
    assert ages == [(number, content) for number in (1, *numbers) for content in ("data", "equality-deletes")]


async def test_rows_of_upserts_are_those_of_the_last_one() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data((1, "v0"), (2, "v0"))))
        for n in (1, 2, 3):
            delta = RowDelta(
                intent_id=new_id(),
                table="db.events",
                data_files=(table.data((1, f"v{n}")),),
                delete_files=(table.equality(1),),
            )
            await table.commit(delta)
    assert await table.rows() == [(1, "v3"), (2, "v0")]


async def test_an_update_of_rows_that_equality_deletes_may_have_taken_meanwhile_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        won = await table.commit(table.delta(base, table.equality(3)))
        update = table.delta(base, table.vector(file, 3), added=[table.data((30, "eu"))], isolation="snapshot")
        lost = await table.refused(update)
        await table.commit(table.delta(base, table.vector(file, 3)))
    assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", won)


async def test_equality_deletes_of_other_keys_do_not_stand_in_the_way_of_an_update() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file, table.data((50, "eu"))))
        await table.commit(table.delta(base, table.equality(50)))
        await table.commit(
            table.delta(base, table.vector(file, 3), added=[table.data((30, "eu"))], isolation="snapshot")
        )
    assert await table.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 30]


@pytest.mark.parametrize(("version", "form"), [(3, "positions"), (2, "vector"), (1, "equality")])
async def test_deletes_are_in_the_form_that_the_format_version_has(version: int, form: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        made = {
            "positions": lambda: table.positions({file.file_path: [0]}, like=file),
            "vector": lambda: table.vector(file, 0),
            "equality": lambda: table.equality(1),
        }
        lost = await table.refused(table.delta(base, made[form]()))
    assert (lost.rule, lost.hint) == ("delete-format", "replan")


async def test_a_vector_of_another_partition_than_its_data_file_is_refused() -> None:
    """Readers refuse the data file of such a vector."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        lost = await table.refused(table.delta(base, table.vector(file, 0, partition=("us",))))
    assert lost.rule == "invalid-partition"


@pytest.mark.parametrize("missing", ["referenced_data_file", "content_offset", "content_size_in_bytes"])
async def test_a_vector_that_readers_could_not_find_is_refused(missing: str) -> None:

    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        vector = msgspec.structs.replace(table.vector(file, 0), **{missing: None})
        lost = await table.refused(table.delta(base, vector))
    assert lost.rule == "invalid-delete-file"


async def test_a_base_that_is_needed_is_not_made_up() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        await table.commit(table.append(file))
        delta = RowDelta(intent_id=new_id(), table="db.events", delete_files=(table.vector(file, 0),))
        without = await table.refused(delta)
        unknown = await table.refused(table.delta(4711, table.vector(file, 0)))
    assert (without.rule, unknown.rule) == ("missing-field", "unknown-base")


async def test_vectors_for_own_files_need_no_base() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data((50, "eu"))))
        file = table.data(*TEN)
        delta = RowDelta(
            intent_id=new_id(), table="db.events", data_files=(file,), delete_files=(table.vector(file, 0, 1),)
        )
        await table.commit(delta)
    assert await table.ids() == [*range(2, 10), 50]


async def test_without_validation_there_is_still_one_vector_and_the_snapshot_says_so() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, table.vector(file, 0)))
        update = table.delta(None, table.vector(file, 0), added=[table.data((70, "eu"))], validate="none")
        await table.commit(update)
        summary = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
        assert len(await table.delete_files()) == 1
    assert summary["firn.validation"] == "none"
    assert await table.ids() == [*range(1, 10), 70]


async def test_a_vector_that_is_too_large_to_merge_is_refused() -> None:
    bench = Workbench(limits=Limits(deletion_vector_bytes_max=10))
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, table.vector(file, 0)))
        lost = await table.refused(table.delta(base, table.vector(file, 1)))
    assert lost.rule == "merge-too-large"


async def test_a_vector_that_is_not_there_to_be_merged_is_its_writers_mistake() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, table.vector(file, 0)))
        vector = table.vector(file, 1)
        bench.files.delete(vector.file_path)
        lost = await table.refused(table.delta(base, vector))
        await table.commit(table.append(table.data((40, "eu"))))
    assert lost.rule == "invalid-delete-file"


async def test_deletes_do_not_go_without_others_in_their_place() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        vector = table.vector(file, 0)
        base = await table.commit(table.delta(base, vector))
        lost = await table.refused(table.delta(base, removed_delete_files=(ref(vector),)))
        gone = await table.refused(table.delta(base, removed_delete_files=(ref(table.vector(file, 1)),)))
    assert (lost.rule, gone.rule) == ("lost-deletes", "missing-file")


async def test_a_delete_file_is_added_once() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        vector = table.vector(file, 0)
        await table.commit(table.delta(base, vector))
        assert (await table.refused(table.delta(base, vector))).rule == "duplicate-file"


async def test_a_data_file_is_not_removed_over_deletes_that_came_meanwhile() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        one, two = table.data(*TEN), table.data((20, "eu"))
        base = await table.commit(table.append(one, two))
        won = await table.commit(table.delta(base, table.vector(two, 0)))
        lost = await table.refused(
            table.delta(
                base,
                table.vector(one, 0),
                added=[table.data((20, "eu"))],
                removed_data_files=(two.file_path,),
            )
        )
    assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", won)
