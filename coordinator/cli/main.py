"""The `firn` command: its groups, its common options, and how errors end.

Exit codes: 0 done; 1 the answer is no (a rejected intent, a breach found, a daemon that failed); 2 wrong usage or
settings; 3 a server does not answer, or an outcome could not be learnt.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from firn.coordinator.cli.serve import serve
from firn.coordinator.version import VERSION
from firn.model.errors import FirnError, InvalidInput, Misconfigured, Unavailable

EXIT_NO: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNAVAILABLE: Final = 3


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(VERSION, prog_name="firn")
def firn() -> None:
    """Commit coordinator for Apache Iceberg tables: many writers, one table, no retry storms."""


firn.add_command(serve)


def main() -> None:
    """Run the command line; every error that firn raises on purpose is one line on standard error."""
    try:
        firn.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except click.Abort:
        sys.exit(130)
    except FirnError as error:
        click.echo(f"firn: {error}", err=True)
        sys.exit(_exit_code(error))


def _exit_code(error: FirnError) -> int:
    if isinstance(error, Misconfigured | InvalidInput):
        return EXIT_USAGE
    return EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_NO
