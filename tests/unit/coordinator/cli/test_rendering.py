"""What is printed is safe and can be worked with, whatever the names in it are."""

import io
import json

import pytest
from rich.cells import cell_len
from rich.console import Console

from firn.coordinator.cli.output import Column, Output, aligned, json_text
from firn.coordinator.cli.terminal import Terminal
from firn.coordinator.cli.text import cut, one_line, shown, time_of

HOSTILE = [
    ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
    ("a\nb\r\tc\x00", "a\\x0ab\\x0d\\x09c\\x00"),
    ("\x9b31m", "\\x9b31m"),
    ("pay\u202egpj.exe", "pay\\u202egpj.exe"),
    ("\ud800half", "\\ud800half"),
    ("line\u2028break", "line\\u2028break"),
    ("\U000e0041tag", "\\U000e0041tag"),
]
COLUMNS = (Column("NAME"), Column("COUNT", right=True), Column("WHY", long=True))


def terminal(out: io.StringIO, *, width: int) -> Terminal:
    return Terminal(Console(file=out, force_terminal=True, width=width, color_system=None))


@pytest.mark.parametrize(("text", "safe"), HOSTILE)
def test_no_character_reaches_the_terminal_that_could_move_its_cursor(text, safe):
    assert shown(text) == safe
    out = io.StringIO()
    output = Output(as_json=False, terminal=terminal(out, width=200))
    output.grid(COLUMNS, [(text, 1, text)], empty="")
    output.say(shown(text))
    output.pairs([("name", text)])
    assert text not in out.getvalue()
    assert out.getvalue().count(safe) == 4
    printed = json_text({text: text})
    assert printed.isascii()
    assert printed.isprintable()
    assert json.loads(printed) == {text: text}


@pytest.mark.parametrize("text", ["plain", "日本語", "naïve", "👩‍👩‍👧", "שלום", "a b"])
def test_readable_text_stays_as_it_is(text):
    assert shown(text) == text


@pytest.mark.parametrize("text", ["[bold red]x[/]", "[/nothing]", ":smile:", "[link=http://x]y[/link]", "\\[x]"])
def test_markup_in_values_means_nothing(text):
    for is_terminal in (True, False):
        out = io.StringIO()
        output = Output(as_json=False, file=out, terminal=terminal(out, width=200) if is_terminal else None)
        output.grid((Column(text),), [(text,)], empty="")
        output.say(text)
        assert [line.rstrip() for line in out.getvalue().splitlines()] == [text, text, text]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
def test_a_terminal_of_any_width_shows_every_id_number_and_reason_whole(width):
    columns = (Column("INTENT"), Column("SNAPSHOT", right=True), Column("RULE"), Column("WHY", long=True))
    rows = [
        ("01a20e6a-1392-7696-a620-0ef1c0c54902", 4272960738548795433, "missing-file", "it was removed by a compaction"),
        ("01a20e6a-1e05-70f9-ad0d-fe0c6ad57ee6", 1159, "duplicate-file", None),
    ]
    out = io.StringIO()
    output = Output(as_json=False, terminal=terminal(out, width=width))
    output.grid(columns, rows, empty="")
    printed = out.getvalue()
    for row in rows:
        for cell in row[:3]:
            assert str(cell) in printed
    assert "itwasremovedbyacompaction" in "".join(printed.split())
    assert (printed.count("INTENT") == 2) is (width < 100), "below the titles, or a record for each row"


def test_a_grid_in_a_pipe_is_one_line_a_row_and_aligned():
    rows = [("a", "1", "w" * 500), ("日本", "1000", ""), ("long name", "20", "why")]
    lines = aligned(COLUMNS, rows)
    assert len(lines) == 4
    assert lines[0] == "NAME       COUNT  WHY"
    assert lines[2] == "日本        1000"
    assert {cell_len(line[: line.index(word)]) for line, word in zip(lines, ("WHY", "w" * 500), strict=False)} == {18}


def test_a_grid_on_a_narrow_terminal_folds_long_cells_and_keeps_the_others():
    out = io.StringIO()
    output = Output(as_json=False, terminal=terminal(out, width=40))
    output.grid(COLUMNS, [("a-name", 7, "word " * 30)], empty="")
    assert all(cell_len(line) <= 40 for line in out.getvalue().splitlines())
    assert "a-name" in out.getvalue()
    assert out.getvalue().count("word") == 30


def test_with_json_nothing_is_printed_for_people():
    out = io.StringIO()
    output = Output(as_json=True, terminal=terminal(out, width=80))
    output.grid(COLUMNS, [("a", 1, "b")], empty="")
    output.say("x")
    output.pairs([("a", "b")])
    assert out.getvalue() == ""


def test_small_things_read_well():
    assert one_line("first\n  second \n\nthird\x1b") == "first / second / third\\x1b"
    assert time_of(1_700_000_000_123) == "2023-11-14 22:13:20.123Z"
    assert (time_of(None), time_of(10**18)) == ("-", "1000000000000000000 ms")
    assert (cut("abcdef", 4), cut("abc", 4)) == ("abc…", "abc")
