"""Whoever misspells a name in the middle of the night is told what there is, and never that all is well."""

from __future__ import annotations

import pytest

from firn.coordinator.cli.main import run
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import TABLE, append, create


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["tabel"], "No such command 'tabel': did you mean 'table' or 'tables'?"),
        (["schema", "add"], "No such command 'add': did you mean 'add-column'?"),
        (["dead-letters", "shwo"], "No such command 'shwo': did you mean 'show'?"),
        (["snapshot", "zzz"], "No such command 'zzz': there are cherry-pick, publish, rollback, set-current."),
    ],
)
def test_a_command_is_answered_with_the_nearest_or_with_all(
    command: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["table", "show", "{}"], ["branch", "list", "{}"], ["journal", "{}"], ["fsck", "{}"], ["lock", "show", "{}"],
        ["lock", "break", "{}", "--yes"],
    ],
    ids=lambda command: " ".join(command[:2]),
)  # fmt: skip
async def test_a_table_is_answered_with_the_nearest(command: list[str]) -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
    name = TABLE[:-1]
    said = await bench.firn(*(part.format(name) for part in command))
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"firn: there is no table {name!r}: did you mean {TABLE!r}?")


async def test_a_branch_or_snapshot_is_answered_with_those_there_are() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        empty = await bench.firn("table", "files", TABLE, "--ref", "main")
        assert "there is no branch or tag 'main': the table has no snapshot yet" in empty.err
        await bench.commit(append("a"))
    for command in (["table", "files", TABLE, "--ref", "mian"], ["branch", "create", TABLE, "x", "--at", "mian"]):
        said = await bench.firn(*command)
        assert (said.code, said.err) == (1, "firn: there is no branch or tag 'mian' (there are: main)\n")
    said = await bench.firn("table", "files", TABLE, "--snapshot", "3")
    assert f"firn table history {TABLE}" in said.err


@pytest.mark.parametrize("command", ["conflicts", "dead-letters", "dead-letters retry", "dead-letters drop"])
async def test_no_refusal_by_a_misspelt_rule_is_no_good_news(command: str) -> None:
    bench = CliBench()
    async with bench.daemon():
        said = await bench.firn(*command.split(), "--rule", "unknown-tabel")
        right = await bench.firn(*command.split(), "--rule", "unknown-table")
    assert "no rule is called 'unknown-tabel': did you mean 'unknown-table'" in said.err
    assert (right.out, right.err) == (said.out, "")


async def test_events_of_a_table_are_found_behind_those_of_others() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        other = create(table="db.busy")
        await bench.commit(other)
        for name in "abc":
            await bench.commit(append(name, table="db.busy"))
        found = await bench.firn("events", "--table", TABLE, "--limit", "1")
        none = await bench.firn("events", "--table", "db.nope")
    assert [line.split()[3] for line in found.out.splitlines()] == [TABLE]
    assert (none.code, none.out) == (0, "no events of db.nope\n")


async def test_an_overwrite_of_nothing_by_nothing_is_a_slip_and_nothing_is_sent() -> None:
    bench = CliBench()
    said = await bench.firn("file", "overwrite", TABLE)
    assert said.code == 2
    assert "give --where or --remove" in said.err
    assert bench.redis.streams == {}


async def test_a_journal_of_which_nothing_is_shown_is_not_said_to_be_missing() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        said = await bench.firn("journal", TABLE, "--limit", "0")
    assert (said.code, said.out) == (0, "")
