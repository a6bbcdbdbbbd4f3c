"""`firn completion`: what makes a shell complete commands, options and their choices."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from firn.model.errors import Unavailable

COMPLETE_VARIABLE: Final = "_FIRN_COMPLETE"
"""Set by the script when it asks what could come next."""

SHELLS: Final = ("bash", "zsh", "fish")


@click.command(
    epilog="Examples: firn completion bash > ~/.local/share/bash-completion/completions/firn   "
    'firn completion zsh > "${fpath[1]}/_firn"   firn completion fish > ~/.config/fish/completions/firn.fish'
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the script that completes firn's commands in SHELL: put it where that looks for such."""
    found = get_completion_class(shell)
    assert found is not None, "click knows all of them"
    try:
        script = found(ctx.find_root().command, {}, "firn", COMPLETE_VARIABLE).source()
    except RuntimeError as error:  # of a bash that is too old
        raise Unavailable(str(error)) from error
    click.echo(script)
