"""`firn view`: a view from its making to its end, as a user types it."""

from __future__ import annotations

from tests.unit.coordinator.cli.cli_bench import CliBench

VIEW = "db.daily"
COLUMNS = ("--column", "day date", "--column", "events long")


async def test_a_view_lives_from_create_to_drop() -> None:
    bench = CliBench()
    async with bench.daemon():
        made = await bench.firn(
            "view", "create", VIEW, *COLUMNS, "--sql", "SELECT 1 AS day", "--query", "trino=SELECT 2",
            "--property", "comment=daily", "--default-namespace", "raw.web",
        )  # fmt: skip
        assert (made.code, made.err) == (0, "")
        assert made.out.startswith(f"created {VIEW}\n")
        again = await bench.firn("view", "create", VIEW, *COLUMNS, "--sql", "SELECT 1")
        assert again.code == 1
        assert again.err.startswith(f"firn: rejected: table-exists: '{VIEW}' exists already, as a view [fix]\n")
        lost = await bench.firn("view", "replace", VIEW, "--sql", "SELECT 3")
        assert lost.code == 1
        assert "lost-dialect" in lost.err
        replaced = await bench.firn("view", "replace", VIEW, "--sql", "SELECT 3", "--query", "trino=SELECT 4", "--json")
        assert replaced.json["details"]["version-id"] == 2
        assert (await bench.firn("view", "rollback", VIEW, "1")).code == 0
        assert (await bench.firn("view", "properties", VIEW, "--set", "owner=me", "--remove", "comment")).code == 0
        shown = (await bench.firn("view", "show", VIEW)).out
        told = (await bench.firn("view", "show", VIEW, "--json")).json
        history = (await bench.firn("view", "history", VIEW, "--json")).json
        assert "SELECT 1 AS day" in (await bench.firn("view", "history", VIEW, "--limit", "1")).out
        listed = (await bench.firn("view", "list", "--json")).json
        checked = await bench.firn("fsck", "--all", "--json")
        assert checked.json["ok"], checked.out
        assert checked.json["tables"][0]["checked"]["versions"] == 4
        assert (await bench.firn("view", "rename", VIEW, "db.other")).code == 0
        assert (await bench.firn("view", "rename", "db.other", VIEW)).code == 0
        assert (await bench.firn("view", "drop", VIEW)).code == 0
        gone = await bench.firn("view", "show", VIEW)
        nothing = await bench.firn("view", "show", "db.none")
    assert "SELECT 1 AS day" in shown
    assert "raw.web" in shown
    assert told["properties"] == {"owner": "me"}
    assert told["current-version"]["version-id"] == 1
    assert [entry["version-id"] for entry in history] == [1, 2, 1]
    assert [one["view"] for one in listed] == [VIEW]
    assert gone.err == f"firn: view '{VIEW}' was dropped (firn journal {VIEW} still tells its history)\n"
    assert nothing.err == "firn: there is no view 'db.none' (firn view list shows those there are)\n"


async def test_a_dropped_view_is_taken_over_again() -> None:
    bench = CliBench()
    async with bench.daemon():
        made = await bench.firn("view", "create", VIEW, *COLUMNS, "--sql", "SELECT 1", "--json")
        await bench.firn("view", "drop", VIEW)
        again = await bench.firn(
            "view", "register", VIEW, "--metadata-location", made.json["metadata-location"], "--json"
        )
        told = (await bench.firn("view", "show", VIEW, "--json")).json
        checked = await bench.firn("fsck", VIEW)
    assert again.json["details"] == made.json["details"]
    assert told["metadata-location"] == made.json["metadata-location"]
    assert checked.code == 0, checked.out


async def test_commands_for_tables_and_views_are_told_apart() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.firn("view", "create", VIEW, *COLUMNS, "--sql", "SELECT 1")
        await bench.firn("table", "create", "db.events", "--column", "id long required")
        as_table = await bench.firn("table", "show", VIEW)
        as_view = await bench.firn("view", "replace", "db.events", "--sql", "SELECT 1")
        dropped = await bench.firn("table", "drop", VIEW)
    assert as_table.err == f"firn: '{VIEW}' is a view, not a table (firn view show {VIEW})\n"
    assert as_view.err == "firn: 'db.events' is a table, not a view (firn table show db.events)\n"
    assert (dropped.code, "wrong-kind" in dropped.err) == (1, True)


async def test_a_definition_that_lacks_something_is_wrong_usage() -> None:
    bench = CliBench()
    for arguments in (
        ("create", VIEW, "--sql", "SELECT 1"),
        ("create", VIEW, *COLUMNS),
        ("create", VIEW, *COLUMNS, "--schema", "{}", "--sql", "SELECT 1"),
        ("create", VIEW, *COLUMNS, "--query", "SELECT 1"),
        ("create", VIEW, *COLUMNS, "--sql", "SELECT 1", "--query", "spark=SELECT 2"),
        ("create", VIEW, *COLUMNS, "--sql", "SELECT 1", "--property", "comment"),
    ):
        said = await bench.firn("view", *arguments)
        assert (said.code, said.out) == (2, ""), arguments
