"""A streaming writer's epoch is committed once; each intent for it has one answer for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from firn.coordinator.commits import batch_record
from firn.model.epoch import CONTENT_CHARS_MAX, epoch_content
from firn.model.intent import Append, Intent
from firn.model.limits import Limits
from firn.model.operations.files import WrittenManifest
from firn.model.operations.refs import CreateBranch
from firn.model.operations.transaction import Transaction
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.commits.test_renames import require_whole
from tests.unit.coordinator.workbench import (
    TABLE,
    Workbench,
    append,
    content_file,
    create,
    decision,
    delete,
    new_id,
    replace,
)

OTHER = "db.others"


def epoch(number: int, *names: str, **changes: Any) -> Append:
    return append(*names, **{"writer": "etl", "writer_sequence": number, **changes})


def together(*members: Append, **changes: Any) -> Transaction:
    intent_id = new_id()
    own = tuple(msgspec.structs.replace(member, intent_id=intent_id) for member in members)
    return Transaction(**{"intent_id": intent_id, "table": TABLE, "members": own, **changes})


async def stored_answer(bench: Workbench, intent: Intent) -> Committed | Rejected:
    """The answer to an intent that only the journal can give."""
    bench.redis.keys.pop(bench.names.outcome(intent.intent_id), None)
    (outcome,) = await bench.settle(intent)
    return outcome


@pytest.mark.parametrize("takeover", [False, True])
async def test_a_repeat_under_another_id_has_the_outcome_of_the_first_for_ever(*, takeover: bool) -> None:
    bench = Workbench()
    intents = [epoch(1, "a"), epoch(1, "b"), epoch(1, "c", rows=5, data_files=())]
    intents[2] = msgspec.structs.replace(intents[2], data_files=(content_file("c", rows=4), content_file("d", rows=6)))
    async with bench.daemon("a") as daemon:
        await bench.commit(create())
        first, *repeats = [await bench.commit(intent) for intent in intents]
        assert daemon.metrics.repeats._value.get() == 2
        assert daemon.metrics.intents.labels("append", "committed")._value.get() == 1
        for repeat in repeats:
            assert (repeat.repeats, repeat.snapshot_id) == (intents[0].intent_id, first.snapshot_id)
            assert (repeat.batch, repeat.sequence_number) == (first.batch, first.sequence_number)
        later = await bench.commit(epoch(2, "e"))
        assert later.repeats is None
        events = [event["data"] for event in await bench.events() if event["type"] == "firn.table.committed"]
        assert [event["intents"] for event in events[1:]] == [[first.intent_id], [later.intent_id]]
        if not takeover:
            answers = [await stored_answer(bench, intent) for intent in intents]
    if takeover:
        bench.redis.flush_all()
        async with bench.daemon("b"):
            answers = [await stored_answer(bench, intent) for intent in intents]
    assert list(map(decision, answers)) == list(map(decision, [first, *repeats]))
    assert await bench.live() == ["a", "e"]
    await require_whole(bench, TABLE)


async def test_repeats_that_come_together_are_one_commit() -> None:
    bench = Workbench()
    intents = [epoch(1, name) for name in "abc"]
    async with bench.daemon():
        await bench.commit(create())
        outcomes = await bench.settle(*intents)
        assert {o.snapshot_id for o in outcomes if isinstance(o, Committed)} == {outcomes[0].snapshot_id}  # type: ignore[union-attr]
    assert await bench.live() == ["a"]
    await require_whole(bench, TABLE)


OTHER_CONTENT: dict[str, Callable[[int], Intent]] = {
    "more rows": lambda base: epoch(2, "x", rows=11),
    "another branch": lambda base: epoch(2, "x", branch="audit"),
    "staged": lambda base: epoch(2, "x", stage=True),
    "another operation": lambda base: replace(["a"], ["x"], base=base, writer="etl", writer_sequence=2),
    "a delete": lambda base: delete("a", writer="etl", writer_sequence=2),
    "a transaction": lambda base: together(append("x"), writer="etl", writer_sequence=2),
}


@pytest.mark.parametrize("other", OTHER_CONTENT.values(), ids=OTHER_CONTENT)
@pytest.mark.parametrize("at_once", [False, True])
async def test_other_content_under_the_number_of_an_epoch_is_refused(
    other: Callable[[int], Intent], *, at_once: bool
) -> None:
    bench = Workbench()
    first = epoch(2, "a")
    async with bench.daemon():
        await bench.commit(create())
        start = await bench.commit(append("start"))
        assert start.snapshot_id is not None
        await bench.commit(
            CreateBranch(intent_id=new_id(), table=TABLE, ref_name="audit", snapshot_id=start.snapshot_id)
        )
        base = start.snapshot_id if at_once else (await bench.commit(first)).snapshot_id
        assert base is not None
        intent = other(base)
        refused = (await bench.settle(first, intent))[1] if at_once else await bench.refuse(intent)
        assert isinstance(refused, Rejected)
        assert (refused.rule, refused.hint) == ("writer-sequence-reuse", "fix")
        assert (refused.conflicting_intent_id, refused.conflicting_writer) == (first.intent_id, "etl")
        assert "append of 10 rows on 'main'" in refused.message
        await bench.commit(epoch(3, "b"))
        assert decision(await stored_answer(bench, intent)) == decision(refused)
    assert await bench.live() == ["a", "b", "start"]


@pytest.mark.parametrize(
    ("first", "second", "is_repeat"),
    [
        ("one", "one", True),
        ("one", "two", False),
        ("one", None, False),
        (None, None, True),
        (None, "one", True),  # the first is of a program that gave no labels yet
    ],
)
@pytest.mark.parametrize("takeover", [False, True])
async def test_an_epoch_with_another_label_is_another_epoch(
    first: str | None, second: str | None, *, is_repeat: bool, takeover: bool
) -> None:
    bench = Workbench()
    written = epoch(1, "a", epoch_label=first)
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(written)
        if not takeover:
            (answer,) = await bench.settle(epoch(1, "b", epoch_label=second))
    if takeover:
        async with bench.daemon("b"):
            (answer,) = await bench.settle(epoch(1, "b", epoch_label=second))
    assert await bench.live() == ["a"]
    if is_repeat:
        assert isinstance(answer, Committed)
        assert answer.repeats == written.intent_id
    else:
        assert isinstance(answer, Rejected)
        assert (answer.rule, answer.conflicting_intent_id) == ("writer-sequence-reuse", written.intent_id)
        assert "labelled 'one'" in answer.message


async def test_a_repeat_is_announced_counted_and_told_from_the_commit_that_it_repeats() -> None:
    bench = Workbench()
    intents = [epoch(1, "a"), epoch(1, "b"), epoch(2, "c")]
    async with bench.daemon() as daemon:
        await bench.commit(create())
        outcomes = [await bench.commit(intent) for intent in intents]
        again = await bench.commit(intents[1])
        assert [outcome.is_repeat for outcome in (*outcomes, again)] == [False, True, False, True]
        assert daemon.metrics.repeated_epochs._value.get() == 1
        (event,) = [event for event in await bench.events() if event["type"] == "firn.intent.repeated"]
    assert (event["id"], event["subject"]) == (intents[1].intent_id, TABLE)
    said = {name: event["data"][name] for name in ("repeats", "operation", "writer", "writer-sequence", "snapshot-id")}
    assert said == {
        "repeats": intents[0].intent_id,
        "operation": "append",
        "writer": "etl",
        "writer-sequence": 1,
        "snapshot-id": outcomes[0].snapshot_id,
    }


async def test_a_number_that_a_writer_has_passed_is_refused_and_is_to_be_mended() -> None:
    bench = Workbench()
    intents = [epoch(1, "a"), epoch(1, "x", rows=3)]
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(epoch(2, "b"))
        refused = [await bench.refuse(intent) for intent in intents]
    assert {(one.rule, one.hint) for one in refused} == {("writer-sequence-passed", "fix")}
    assert await bench.live() == ["b"]


@pytest.mark.parametrize(("other", "rule"), [({}, None), ({"branch": "audit"}, "writer-sequence-reuse")])
async def test_of_an_epoch_that_an_older_version_committed_operation_and_branch_are_compared(
    other: dict[str, Any], rule: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        with monkeypatch.context() as older:
            older.setattr(batch_record, "epoch_content", lambda intent: None)
            await bench.commit(epoch(1, "a"))
        (outcome,) = await bench.settle(epoch(1, "b", rows=11, **other))
    assert (outcome.rule if isinstance(outcome, Rejected) else None) == rule
    assert await bench.live() == ["a"]


@pytest.mark.parametrize("takeover", [False, True])
async def test_no_writer_is_forgotten_and_one_too_many_is_refused(*, takeover: bool) -> None:
    bench = Workbench(limits=Limits(writers_max=2))
    async with bench.daemon("a"):
        await bench.commit(create())
        for name in ("v", "w"):
            await bench.commit(epoch(1, name, writer=name))
        if not takeover:
            await _check_full(bench)
    if takeover:
        async with bench.daemon("b"):
            await _check_full(bench)


async def _check_full(bench: Workbench) -> None:
    new = epoch(1, "x", writer="new")
    refused = await bench.refuse(new)
    assert (refused.rule, refused.hint) == ("too-many-writers", "fix")
    assert "limits.writers-max" in refused.message
    assert (await bench.commit(epoch(1, "y", writer="v"))).repeats is not None
    await bench.commit(epoch(2, "z", writer="v"))
    assert await bench.live() == ["v", "w", "z"]


async def test_writers_that_come_together_are_no_more_than_there_may_be() -> None:
    bench = Workbench(limits=Limits(writers_max=2))
    async with bench.daemon():
        await bench.commit(create())
        outcomes = await bench.settle(*(epoch(1, name, writer=name) for name in "abcd"))
    assert [isinstance(outcome, Committed) for outcome in outcomes] == [True, True, False, False]


async def test_an_epoch_of_a_transaction_is_known_by_all_of_its_members() -> None:
    bench = Workbench()

    def both(name: str, *, rows: int) -> Transaction:
        return together(append(name), append(name, table=OTHER, rows=rows), writer="etl", writer_sequence=1)

    async with bench.daemon():
        for table in (TABLE, OTHER):
            await bench.commit(create(table))
        first, repeat = both("a", rows=10), both("b", rows=10)
        committed = await bench.commit(first)
        repeated = await bench.commit(repeat)
        assert (repeated.repeats, repeated.details) == (first.intent_id, committed.details)
        assert (await bench.refuse(both("c", rows=11))).rule == "writer-sequence-reuse"
        assert decision(await stored_answer(bench, repeat)) == decision(repeated)
    for table in (TABLE, OTHER):
        assert await bench.live(table) == ["a"]
        await require_whole(bench, table)


def test_the_content_of_an_epoch_does_not_depend_on_its_files() -> None:
    manifest = WrittenManifest(
        manifest_path="m.avro", manifest_length=1, partition_spec_id=0, files_count=2, rows_count=20
    )
    listed, written = append("a", "b"), append(manifests=(manifest,))
    assert epoch_content(listed) == epoch_content(written) == "append of 20 rows on 'main'"
    many = Transaction(intent_id=new_id(), table=TABLE, members=(append("a"),) * 50)
    assert len(epoch_content(many)) <= CONTENT_CHARS_MAX
    assert epoch_content(many) != epoch_content(msgspec.structs.replace(many, members=(append("a", rows=9),) * 50))
