"""Files are for the table, and an epoch for the content, that they were made for; nothing takes their place by a name.

Each case ends with fsck, the first outcomes asked for again after a restart and after Redis was emptied, and the rows.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from firn import data_files_from_parquet
from firn.coordinator.client import Client, TableView
from firn.model.file_origins import without_origins
from firn.model.intent import ContentFile, Intent, encode_intent
from firn.model.outcome import Committed, Rejected
from tests.acceptance.outside_wire import Wire
from tests.acceptance.stack import SCHEMA, Stack
from tests.acceptance.test_disasters import (
    MAKE,
    ROWS,
    TIMEOUT_S,
    Told,
    ask,
    check,
    check_answers,
    data_file,
    lose,
    recover,
    rows_of,
    stop,
)

NAME, OTHER = "db.events", "db.renamed"
OTHER_COLUMNS: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "writer", "type": "string", "required": False},
        {"id": 2, "name": "id", "type": "string", "required": False},
    ],
}
"""The replacement keeps the column `writer`; its `id` is another one, because its values are."""

pytestmark = pytest.mark.timeout(120)


def done(told: list[Told], client: Client, intent: Intent) -> Committed:
    """Ask for a commit, and remember what was said."""
    asked = ask(client, intent)
    told.append(asked)
    assert isinstance(asked[1], Committed), asked[1]
    return asked[1]


def refused(told: list[Told], client: Client, intent: Intent) -> Rejected:
    """Ask for what is to be refused, and remember what was said."""
    asked = ask(client, intent)
    told.append(asked)
    assert isinstance(asked[1], Rejected), asked[1]
    return asked[1]


def described_by(view: TableView, file: ContentFile) -> ContentFile:
    """Describe a file by what a program knows of a table, which may be another by now."""
    (anew,) = data_files_from_parquet([file.file_path], view)
    return anew


def said_by_each_file(view: TableView, file: ContentFile) -> dict[str, Any]:
    """An append by a program without firn's client: the uuid is a member of each file, and of nothing else."""
    said: dict[str, Any] = msgspec.json.decode(encode_intent(MAKE.append(NAME, without_origins([file]))))
    assert "table-uuid" not in said
    del said["intent-id"]
    said["data-files"] = [{**one, "table-uuid": view.uuid} for one in said["data-files"]]
    return said


def foreign(stack: Stack, *said: dict[str, Any]) -> list[dict[str, Any]]:
    """The outcomes of intents that are added to their stream as the documentation describes it."""
    wire, ends = Wire(stack.redis_url, random.Random(1)), threading.Event()
    stopper = threading.Timer(TIMEOUT_S, ends.set)
    stopper.start()
    try:
        wishes = [wire.wish(one) for one in said]
        wire.commit(wishes, ends=ends)
        assert all(wish.answers for wish in wishes), "not answered"
        return [wish.outcome for wish in wishes]
    finally:
        stopper.cancel()
        wire.close()


def check_end(stack: Stack, told: list[Told], rows: dict[str, list[int]]) -> None:
    """All is whole, and every first answer stands: after another daemon took over, and after Redis was emptied."""
    assert {table: rows_of(stack, table) for table in rows} == rows
    stop(stack)
    stack.daemon("b")
    with stack.client() as client:
        check_answers(client, told)
    stop(stack)
    lose(stack, redis=True, zookeeper=False)
    assert recover(stack, "--missing-only", "--yes")["restored"] == []
    stack.daemon("c")
    with stack.client() as client:
        check_answers(client, told)
    assert {table: rows_of(stack, table) for table in rows} == rows
    check(stack)
    stack.wait_settled()


def test_files_of_a_table_do_not_get_into_another_that_has_its_name(stack: Stack) -> None:
    stack.daemon("a")
    told: list[Told] = []
    with stack.client() as client:
        done(told, client, MAKE.create_table(NAME, SCHEMA))
        old = client.table(NAME)
        first, late, later = (data_file(old, at) for at in (0, 100, 200))
        done(told, client, MAKE.append(NAME, [first]))

        # A rename keeps the table, and what was described for it.
        done(told, client, MAKE.rename_table(NAME, OTHER))
        done(told, client, MAKE.append(OTHER, [late]))

        # Another table under the name: dropped and made anew, or in place of one that was renamed.
        done(told, client, MAKE.create_table(NAME, SCHEMA, location=f"{stack.warehouse}/second"))
        second = client.table(NAME)
        done(told, client, MAKE.append(NAME, [data_file(second, 300)]))
        done(told, client, MAKE.drop_table(NAME))
        done(told, client, MAKE.create_table(NAME, SCHEMA, location=f"{stack.warehouse}/third"))
        third = client.table(NAME)
        gone = described_by(second, data_file(third, 400))
        for file, uuid in ((later, old.uuid), (gone, second.uuid)):
            for make in _WRITES.values():
                no = refused(told, client, make(file))
                assert (no.rule, no.hint) == ("table-uuid-mismatch", "replan"), no
                assert uuid in no.message
                assert third.uuid in no.message
        kept = data_file(third, 500)
        strange, right = foreign(stack, said_by_each_file(second, gone), said_by_each_file(third, kept))
        assert (strange["status"], strange["rule"]) == ("rejected", "table-uuid-mismatch")
        assert strange["files"] == [gone.file_path]
        assert right["status"] == "committed", right
        done(told, client, MAKE.append(NAME, [described_by(third, gone)]))  # described anew, they are this table's
        assert rows_of(stack, NAME) == [*range(400, 400 + ROWS), *range(500, 500 + ROWS)]

        # Replaced, it keeps its uuid: the columns tell.
        waiting = data_file(third, 600)
        done(told, client, MAKE.create_or_replace_table(NAME, OTHER_COLUMNS, seen=client.table(NAME)))
        replacement = MAKE.overwrite(NAME, base_snapshot_id=None, row_filter=True, added=[waiting])
        for intent in (MAKE.append(NAME, [waiting]), replacement):
            no = refused(told, client, intent)
            assert (no.rule, no.hint) == ("columns-replaced", "replan"), no
            assert "describe them anew" in no.message
    check_end(
        stack,
        told,
        {OTHER: [*range(ROWS), *range(100, 100 + ROWS)], NAME: []},
    )


_WRITES: Final[dict[str, Callable[[ContentFile], Intent]]] = {
    "append": lambda file: MAKE.append(NAME, [file]),
    "staged": lambda file: MAKE.append(NAME, [file], stage=True),
    "transaction": lambda file: MAKE.transaction([MAKE.append(NAME, [file])]),
}


def test_an_epoch_that_is_repeated_is_shown_as_a_repeat_and_other_content_is_refused(stack: Stack) -> None:
    daemon = stack.daemon("a")
    told: list[Told] = []
    epoch: dict[str, Any] = {"writer": "etl", "writer_sequence": 7, "epoch_label": "offsets 0-10"}
    with stack.client() as client:
        done(told, client, MAKE.create_table(NAME, SCHEMA))
        view = client.table(NAME)
        files = [data_file(view, at) for at in (0, 0, 100, 200)]
        first_intent = MAKE.append(NAME, [files[0]], **epoch)
        first = done(told, client, first_intent)
        done(told, client, MAKE.create_branch(NAME, "audit"))
        assert not first.is_repeat

        # The same rows under another id, as a program writes them that does not know what became of them.
        repeat_intent = MAKE.append(NAME, [files[1]], **epoch)
        repeat = done(told, client, repeat_intent)
        assert (repeat.is_repeat, repeat.repeats) == (True, first_intent.intent_id)
        assert (repeat.snapshot_id, client.table(NAME).snapshot_id) == (first.snapshot_id, first.snapshot_id)
        _check_repeat_is_shown(stack, repeat_intent, first_intent)
        assert daemon.metric("firn_repeated_epochs_total") == 1

        # Other content under the number: nothing is taken for a repeat, and nothing is committed.
        for other in (
            MAKE.append(NAME, [files[2]], **{**epoch, "epoch_label": "offsets 10-20"}),
            MAKE.append(NAME, [files[2]], branch="audit", **epoch),
            MAKE.append(NAME, files[2:], **epoch),
        ):
            no = refused(told, client, other)
            assert (no.rule, no.hint) == ("writer-sequence-reuse", "fix"), no
            assert (no.conflicting_intent_id, no.conflicting_writer) == (first_intent.intent_id, "etl")
        done(told, client, MAKE.append(NAME, [files[3]], **{**epoch, "writer_sequence": 8}))
        passed = refused(told, client, MAKE.append(NAME, [files[2]], **epoch))
        assert (passed.rule, passed.hint) == ("writer-sequence-passed", "fix")
        assert daemon.metric("firn_repeated_epochs_total") == 1
        assert [branch_rows(client, "audit"), branch_rows(client, "main")] == [ROWS, 2 * ROWS]
    check_end(stack, told, {NAME: [*range(ROWS), *range(200, 200 + ROWS)]})
    assert _outcome_of(stack, repeat_intent)["repeats"] == first_intent.intent_id, "also from what was recovered"


def branch_rows(client: Client, branch: str) -> int:
    """How many rows a branch has, by its summary."""
    metadata = client.table(NAME).metadata
    snapshot = metadata.snapshot_by_id(metadata.refs[branch].snapshot_id)
    assert snapshot is not None
    assert snapshot.summary is not None
    return int(snapshot.summary["total-records"])


def _check_repeat_is_shown(stack: Stack, repeat: Intent, first: Intent) -> None:
    shown = _outcome_of(stack, repeat)
    assert (shown["status"], shown["repeats"]) == ("committed", first.intent_id)
    story = stack.firn("explain", repeat.intent_id)
    assert story.returncode == 0, story.stderr
    assert f"repeats the epoch that {first.intent_id} committed" in story.stdout
    stack.wait_settled()
    (event,) = [event for event in stack.events() if event["type"] == "firn.intent.repeated"]
    assert (event["id"], event["subject"]) == (repeat.intent_id, NAME)
    assert (event["data"]["repeats"], event["data"]["writer-sequence"]) == (first.intent_id, 7)


def _outcome_of(stack: Stack, intent: Intent) -> dict[str, Any]:
    asked = stack.firn("outcome", intent.intent_id, "--json")
    assert asked.returncode == 0, asked.stdout + asked.stderr
    found: dict[str, Any] = json.loads(asked.stdout)
    return found
