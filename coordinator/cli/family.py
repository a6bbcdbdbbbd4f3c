"""A family of commands, such as `firn table`: each is listed with the whole sentence that says what it does."""

from __future__ import annotations

from typing import Final

import click

_SENTENCE_MAX: Final = 200
"""Longer than any first sentence of a command's help."""


class Family(click.Group):
    """A group whose list of commands cuts no sentence off, as click does at the end of a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by name, over as many lines as their sentences need."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_SENTENCE_MAX)) for name, command in found if command is not None]
            )
