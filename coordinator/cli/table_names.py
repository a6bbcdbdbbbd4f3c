"""Parameters of commands that name tables: a shell completes what ZooKeeper has."""

from __future__ import annotations

import importlib
import re
from typing import Final

import click
from click.shell_completion import CompletionItem

NAMES_MAX: Final = 1_000

_PLAIN: Final = re.compile(r"[\w.-]+")
"""Names that mean themselves in every shell. Completion puts no others on a command line, where they could do harm."""

_PARAMETERS: Final = frozenset({"table", "tables"})
_OF_TABLES: Final = frozenset({"table", "tables", "view"})
"""Commands whose ``name`` is that of a table or view; a branch or column has one, too."""


class TableName(click.types.StringParamType):
    """A text that names a table or view."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin like this."""
        names: list[str] = importlib.import_module("firn.coordinator.cli.name_lookup").table_names(ctx)
        found = (name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name))
        return [CompletionItem(name) for name in sorted(found)[:NAMES_MAX]]


def completing_tables(command: click.Command, *, parameters: frozenset[str] = _PARAMETERS) -> click.Command:
    """Return the command; its parameters, and those of its commands, that name tables complete their names."""
    if command.name in _OF_TABLES:
        parameters |= {"name", "names"}
    for parameter in command.params:
        if parameter.name in parameters and type(parameter.type) is click.types.StringParamType:
            parameter.type = TableName()
    for below in getattr(command, "commands", {}).values():
        completing_tables(below, parameters=parameters)
    return command
