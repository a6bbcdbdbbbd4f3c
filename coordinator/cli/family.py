"""Groups of commands: they tell who misspelt one what there is, and list each with the whole sentence about it."""

from __future__ import annotations

from typing import Final

import click

from firn.model.spelling import did_you_mean

_SENTENCE_MAX: Final = 200
"""Longer than any first sentence of a command's help."""


class GuidingGroup(click.Group):
    """A group that is asked for a command that it does not have, and says which one was most likely meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first. Raises UsageError with the nearest, or with all."""
        name, names = args[0], self.list_commands(ctx)
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        advice = did_you_mean(name, names) or f"there are {', '.join(names)}."
        raise click.UsageError(f"No such command {name!r}: {advice}", ctx)


class Family(GuidingGroup):
    """A group whose list of commands cuts no sentence off, as click does at the end of a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by name, over as many lines as their sentences need."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_SENTENCE_MAX)) for name, command in found if command is not None]
            )
