"""Tables on the command line: made, looked at, taken over and dropped."""

import json
import re

import pytest

from firn.coordinator.cli.text import time_of
from firn.coordinator.client.intents import new_intent_id
from firn.model.intent import Append, ContentFile
from firn.model.operations.refs import CreateBranch
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import SCHEMA, TABLE, append, create, delete, path_of, replace

COLUMNS = ("--column", "id long required", "--column", "ts timestamptz", "--column", "name string")


async def test_a_table_is_created_from_short_text_and_shown():
    bench = CliBench()
    async with bench.daemon():
        made = await bench.firn(
            "table", "create", TABLE, *COLUMNS, "--partition", "day(ts)", "--partition", "bucket(16, id) as b",
            "--sort", "ts desc", "--property", "owner=me", "--format-version", "3",
        )  # fmt: skip
        shown = await bench.firn("table", "show", TABLE)
        document = (await bench.firn("table", "show", TABLE, "--json")).json
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith(f"created {TABLE}\n")
    assert [f["name"] for f in document["schema"]["fields"]] == ["id", "ts", "name"]
    assert [f["required"] for f in document["schema"]["fields"]] == [True, False, False]
    assert [(f["name"], f["transform"]) for f in document["partition-spec"]["fields"]] == [
        ("ts_day", "day"),
        ("b", "bucket[16]"),
    ]
    assert document["sort-order"]["fields"][0]["null-order"] == "nulls-last"
    assert document["properties"]["owner"] == "me"
    assert document["format-version"] == 3
    assert "day(ts) as ts_day" in shown.out
    assert "bucket(16, id) as b" in shown.out
    assert "ts desc nulls last" in shown.out


async def test_a_table_is_created_from_a_schema_file_or_text(tmp_path):
    bench = CliBench()
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    async with bench.daemon():
        from_file = await bench.firn("table", "create", "db.a", "--schema", str(tmp_path / "schema.json"))
        from_text = await bench.firn("table", "create", "db.b", "--schema", json.dumps(SCHEMA), "--json")
        listed = await bench.firn("table", "list", "--json")
    assert from_file.code == 0
    assert from_text.json["status"] == "committed"
    assert [table["table"] for table in listed.json] == ["db.a", "db.b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give --schema, or one --column for each column"),
        (("--schema", "{}", *COLUMNS), "give --schema, or one --column for each column"),
        (("--schema", "nowhere.json"), "nowhere.json: No such file"),
        (("--schema", '{"type":'), "--schema"),
        (("--column", "id lung"), "unknown type 'lung' (did you mean 'long'?)"),
        (("--column", "id bigint"), "unknown type 'bigint' (did you mean 'long'?)"),
        (("--column", "id varchar(20)"), "unknown type 'varchar(20)' (did you mean 'string'?)"),
        (("--column", "id zzz"), "unknown type 'zzz' (there are boolean, int, long,"),
        (("--column", "id"), "a type is missing"),
        (("--column", "l list<long"), "list<…> is not closed"),
        (("--column", "id long required really"), "does not understand 'really'"),
        ((*COLUMNS, "--partition", "day(nope)"), "there is no column 'nope' (there are id, "),
        ((*COLUMNS, "--partition", "bucket(id)"), "bucket needs a width"),
        ((*COLUMNS, "--partition", "month(12, ts)"), "month takes the column only"),
        ((*COLUMNS, "--partition", "zorder(ts)"), "there is no transform 'zorder'"),
        ((*COLUMNS, "--sort", "idd desc"), "there is no column 'idd' (did you mean 'id'?)"),
        ((*COLUMNS, "--property", "novalue"), "--property: 'novalue' is not KEY=VALUE"),
        ((*COLUMNS, "--format-version", "4"), "4 is not in the range"),
    ],
)
async def test_what_cannot_be_a_table_is_wrong_usage_and_nothing_is_sent(options, said):
    bench = CliBench()
    answer = await bench.firn("table", "create", TABLE, *options)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert bench.redis.streams == {}


async def test_a_table_that_exists_is_a_negative_answer():
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        human = await bench.firn("table", "create", TABLE, *COLUMNS)
        machine = await bench.firn("table", "create", TABLE, *COLUMNS, "--json")
    assert (human.code, human.out) == (1, "")
    reason, advice = human.err.splitlines()
    assert reason == f"firn: rejected: table-exists: '{TABLE}' exists already [fix]"
    assert advice.startswith("firn: correct what the message names: ")
    assert re.search(r"\(firn explain [0-9a-f-]{36} tells the whole story\)$", advice)
    assert (machine.code, machine.json["rule"]) == (1, "table-exists")


async def test_without_a_daemon_the_answer_is_unknown():
    bench = CliBench()
    answer = await bench.firn("table", "create", TABLE, *COLUMNS, "--timeout", "0.1")
    assert answer.code == 3
    assert "it may still be committed: firn outcome" in answer.err


async def test_history_names_the_intents_and_writers_of_each_snapshot():
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        first = append("a", "b", writer="etl-1")
        base = await bench.commit(first)
        assert base.snapshot_id is not None
        second = replace(["a", "b"], ["ab"], base=base.snapshot_id, rows=20, writer="compactor")
        replaced = await bench.commit(second)
        assert replaced.snapshot_id is not None
        pointing = CreateBranch(
            intent_id=new_intent_id(), table=TABLE, ref_name="audit", snapshot_id=replaced.snapshot_id
        )
        await bench.commit(pointing)
    document = (await bench.firn("table", "history", TABLE, "--json")).json
    assert [item["operation"] for item in document] == ["replace", "append"]
    made = [[one["intent-id"] for one in item["intents"]] for item in document]
    assert made == [[second.intent_id], [first.intent_id]], "who only points a branch at a snapshot has not made it"
    assert [item["intents"][0].get("writer") for item in document] == ["compactor", "etl-1"]
    assert document[0]["refs"] == ["main", "audit"]
    human = await bench.firn("table", "history", TABLE, "--limit", "1")
    assert "+1/-2" in human.out
    assert "1 older snapshot not shown" in human.out
    oldest = time_of(document[-1]["timestamp-ms"])
    assert f"oldest snapshot: {oldest}" in human.out
    assert f"every snapshot since: {oldest}" in human.out
    shown = (await bench.firn("table", "show", TABLE, "--json")).json["history"]
    made_ms = document[-1]["timestamp-ms"]
    assert shown == {"snapshots": 2, "oldest-ms": made_ms, "whole-since-ms": made_ms, "base-hours": 24}
    assert "bases are valid for: 24 h" in human.out


async def test_files_are_those_of_the_snapshot_asked_for():
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        before = await bench.commit(append("a", "b"))
        await bench.commit(delete("a"))
    now = (await bench.firn("table", "files", TABLE, "--json")).json
    then = (await bench.firn("table", "files", TABLE, "--snapshot", str(before.snapshot_id), "--json")).json
    assert [file["file-path"] for file in now] == [path_of("b")]
    assert [file["file-path"] for file in then] == [path_of("a"), path_of("b")]
    assert (await bench.firn("table", "files", TABLE, "--ref", "main", "--json")).json == now
    for wrong in (("--snapshot", "1"), ("--ref", "nope")):
        answer = await bench.firn("table", "files", TABLE, *wrong)
        assert (answer.code, answer.out) == (1, "")


async def test_files_of_a_partitioned_table_show_their_partition():
    bench = CliBench()
    file = ContentFile(
        file_path="memory://wh/db/events/data/x.parquet", file_format="parquet", spec_id=0, partition=(19000, 3),
        record_count=1, file_size_in_bytes=2048,
    )  # fmt: skip
    async with bench.daemon():
        await bench.firn(
            "table", "create", TABLE, *COLUMNS, "--partition", "day(ts)", "--partition", "bucket(16, id)"
        )  # fmt: skip
        await bench.commit(Append(intent_id=new_intent_id(), table=TABLE, data_files=(file,)))
    assert "ts_day=2022-01-08/id_bucket_16=3" in (await bench.firn("table", "files", TABLE)).out


async def test_a_dropped_table_is_gone_from_lists_and_its_history_is_not():
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        dropped = await bench.firn("table", "drop", TABLE)
        again = await bench.firn("table", "drop", TABLE)
    assert (dropped.code, dropped.out) == (0, f"dropped {TABLE}\n")
    assert again.code == 1
    assert (await bench.firn("table", "list")).out == "there are no tables\n"
    assert "dropped" in (await bench.firn("table", "list", "--dropped")).out
    shown = await bench.firn("table", "show", TABLE)
    assert (shown.code, shown.err) == (
        1, f"firn: table '{TABLE}' was dropped (firn journal {TABLE} still tells its history)\n",
    )  # fmt: skip
    assert len((await bench.firn("journal", TABLE, "--json")).lines) == 3


async def test_a_table_in_storage_is_taken_over_and_a_file_system_table_is_followed():
    bench = CliBench()
    location = "memory://wh/by-path"
    async with bench.daemon():
        await bench.firn("table", "create", "fs.a", *COLUMNS, "--catalog", "file-system", "--location", location)
        await bench.firn("table", "drop", "fs.a")
        taken = await bench.firn("table", "register", "fs.b", "--location", location)
        assert taken.code == 0, taken.err
        both = await bench.firn("table", "register", "fs.c")
        assert both.code == 2
        listed = (await bench.firn("table", "list", "--json")).json
        assert [(table["table"], table["catalog"]) for table in listed] == [("fs.b", "file-system")]
        assert (await bench.firn("fsck", "--all")).code == 0


async def test_a_table_that_is_not_there_is_a_negative_answer_in_one_line():
    bench = CliBench()
    for command in (("table", "show"), ("table", "history"), ("table", "files"), ("journal",), ("fsck",)):
        answer = await bench.firn(*command, "db.nope")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == "firn: there is no table 'db.nope' (firn table list shows those there are)\n"


async def test_a_server_that_does_not_answer_is_said_with_what_to_do_about_it():
    bench = CliBench()
    bench.redis.down = bench.zookeeper_down = True
    for command in (("table", "list"), ("submit", "--no-wait", "-"), ("shard", TABLE), ("events",)):
        answer = await bench.firn(*command) if command[0] != "submit" else await bench.firn("dead-letters")
        assert answer.code == 3
        assert len(answer.err.splitlines()) == 1
        assert "firn serve --embedded" in answer.err


async def test_create_or_replace_puts_a_table_in_the_place_of_what_is_there() -> None:
    bench = CliBench()
    async with bench.daemon():
        first = await bench.firn("table", "create", TABLE, *COLUMNS, "--or-replace", "--format-version", "3")
        second = await bench.firn("table", "create", TABLE, "--column", "other long", "--or-replace", "--json")
        told = (await bench.firn("table", "show", TABLE, "--json")).json
    assert (first.code, first.out.splitlines()[0]) == (0, f"created {TABLE}")
    assert second.json["details"]["replaced"] is True
    assert [field["name"] for field in told["schema"]["fields"]] == ["other"]
    assert told["format-version"] == 3


async def test_a_renamed_table_has_its_history_under_its_new_name() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.firn("table", "create", TABLE, *COLUMNS)
        first = await bench.commit(append("a", "b", writer="etl"))
        renamed = await bench.firn("table", "rename", TABLE, "db.archive")
        gone = await bench.firn("table", "show", TABLE)
        history = (await bench.firn("table", "history", "db.archive", "--json")).json
        listed = (await bench.firn("table", "list", "--json")).json
    assert (renamed.code, renamed.out.splitlines()[0]) == (0, f"renamed {TABLE}")
    assert gone.code == 1
    assert "was renamed to 'db.archive'" in gone.err
    assert [made["intent-id"] for made in history[0]["intents"]] == [first.intent_id]
    assert [one["table"] for one in listed] == ["db.archive"]
