"""A command group that imports a command when it is run: `firn --help` must not wait for Arrow, Redis and ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from firn.coordinator.cli.family import GuidingGroup
from firn.coordinator.cli.table_names import completing_tables
from firn.model.extras import import_with_extra


class LazyCommand(msgspec.Struct, frozen=True):
    """Where a command is (`module` and `name` in it), and the line that help lists it with.

    `extra` is what has to be installed for it beside the server: ``spark`` is ``firn[spark]``.
    """

    module: str
    name: str
    help: str
    extra: str | None = None

    def load(self) -> click.Command:
        """The command itself. Raises Misconfigured when a package that it needs is not installed."""
        module = import_with_extra(self.module, what="this command", extra=self.extra or "server")
        command: click.Command = getattr(module, self.name)
        return completing_tables(command)


class LazyGroup(GuidingGroup):
    """A group of `LazyCommand`, listed in the order in which they are given."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in order."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        lazy = self.lazy.get(cmd_name)
        return super().get_command(ctx, cmd_name) if lazy is None else lazy.load()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and options that begin like this, without importing any."""
        found = [
            CompletionItem(name, help=lazy.help) for name, lazy in self.lazy.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy.items()])
