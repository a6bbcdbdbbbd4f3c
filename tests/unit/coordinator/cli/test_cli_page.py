"""docs/cli.md lists every command and option; ``python -m tests.unit.coordinator.cli.test_cli_page`` writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from firn.coordinator.cli.lazy_group import LazyGroup
from firn.coordinator.cli.main import firn
from tests.documents import ROOT, page, pages

PAGE: Final = ROOT / "docs" / "cli.md"
COMMON: Final = {"--json", "--data", "--config", "--help"}
"""Options that mean the same nearly wherever they are: told once."""

HELP: Final = ("-h, --help", "Show this message and exit.")
WIDTH: Final = 120
HEAD: Final = """\
# Commands

`firn COMMAND --help` says the same. Generated from the code, compared by a test.

Exit codes: 0 done; 1 the answer is no (rejected, a breach, no such table); 2 wrong usage or settings; 3 a server does
not answer, or an outcome could not be learnt; 4 `firn serve` was told to end, and
[left calls behind in which a store hangs](runbooks/daemons.md#a-daemon-does-not-end). Results go to standard output,
complaints to standard error. `firn --debug COMMAND …` shows where in firn an error comes from.

On a terminal, `firn fsck`, `firn recover`, `firn maintain` and `firn doctor` show how far they are, in a line on
standard error that is gone at the end. Where standard error is a pipe or a file, and with `--json`, there is no such
line.

Options that most commands have:

| option | what |
|---|---|
"""


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and those below it, each with its whole name."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from leaves(found, f"{name} {below}")


def options(command: click.Command) -> Iterator[tuple[str, str]]:
    """Of each option how it is written, and what it does."""
    context = click.Context(command, max_content_width=WIDTH, help_option_names=["-h", "--help"])
    for parameter in command.get_params(context):
        # A command that was run before has made its own help option, by the names that it was called with.
        record = HELP if "--help" in parameter.opts else parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            yield record


def common() -> list[tuple[str, str]]:
    """The options that are told once."""
    status = firn.get_command(click.Context(firn), "status")
    assert status is not None
    return [(how, what) for how, what in options(status) if COMMON & set(how.replace(",", " ").split())]


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


def row(how: str, what: str) -> str:
    return f"| `{' '.join(how.split()).replace('|', chr(92) + '|')}` | {cell(what)} |"


def section(name: str, command: click.Command) -> str:
    """What the page has of one command."""
    usage = command.collect_usage_pieces(click.Context(command, info_name=name))
    pieces = " ".join(piece for piece in usage if piece != "[OPTIONS]")
    title = f"{'##' if name.count(' ') == 1 else '###'} {name}"
    about = inspect.cleandoc(command.help or "")
    lines = [title, "", about]
    if not isinstance(command, click.Group):
        lines += ["", f"`{name} {pieces}".rstrip() + "`"]
    own = [row(*option) for option in options(command) if option not in common()]
    if own:
        lines += ["", "| option | what |", "|---|---|", *own]
    if command.epilog:
        prose, named, examples = re.split(r"(Examples?:|$)", " ".join(command.epilog.split()), maxsplit=1)
        spans = [f"`{example}`" for example in re.split(r"\s+(?=firn )", examples.strip()) if example]
        lines += ["", " ".join([prose + named, *spans])]
    return "\n".join(lines) + "\n"


def written() -> str:
    """What docs/cli.md has to say."""
    assert isinstance(firn, LazyGroup)
    lines = [HEAD + "\n".join(row(*option) for option in common()), "", "| command | |", "|---|---|"]
    lines += [f"| [`firn {name}`](#firn-{name}) | {lazy.help} |" for name, lazy in firn.lazy.items()]
    lines += ["", *(section(name, command) for name, command in leaves(firn, "firn") if name != "firn")]
    return "\n".join(lines)


def test_the_page_lists_every_command() -> None:
    assert PAGE.read_text() == written(), "run: python -m tests.unit.coordinator.cli.test_cli_page"


@pytest.mark.parametrize(("name", "command"), [*leaves(firn, "firn")], ids=str)
def test_every_command_and_option_says_what_it_is(name: str, command: click.Command) -> None:
    assert command.help, name
    assert all(what for _, what in options(command)), name


@pytest.mark.parametrize(("name", "command"), [*leaves(firn, "firn")], ids=str)
def test_no_list_of_commands_cuts_a_sentence_off(name: str, command: click.Command) -> None:
    _, _, listed = command.get_help(click.Context(command, info_name=name)).partition("\nCommands:\n")
    assert "..." not in listed


COMMAND_IN_TEXT: Final = re.compile(r"`(firn [a-z][^`]*)`")


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_named_in_the_text_exist(path: Path) -> None:
    """With the options that the text gives them; what is not run because it is no block is at least no invention."""
    known = dict(leaves(firn, "firn"))
    texts = [*COMMAND_IN_TEXT.findall(" ".join(path.read_text().split()))]
    texts += [line for block in page(path).blocks if block.not_run for line in block.text.splitlines()]
    for text in texts:
        if not text.startswith("firn "):
            continue
        words = re.split(r"\s+", text.replace("|", " "))
        name = max((one for one in known if text == one or text.startswith(f"{one} ")), key=len, default="")
        assert name != "firn", f"{path.name}: `{text}`: there is no such command"
        if name:
            has = {
                option for parameter in known[name].params for option in (*parameter.opts, *parameter.secondary_opts)
            }
            named = {word.partition("=")[0].rstrip(",;:.)]") for word in words if word.startswith("--")}
            assert named <= has | {"--help"}, f"{path.name}: `{text}`: {name} has no {named - has}"


if __name__ == "__main__":
    PAGE.write_text(written())
