"""The `firn` command, also as `python -m firn`. It is part of the extra `server`, and says so where that is missing."""

from __future__ import annotations

import sys

from firn.model.errors import Misconfigured
from firn.model.extras import import_with_extra

EXIT_USAGE = 2


def main() -> None:
    """Run the command line and exit."""
    try:
        command_line = import_with_extra("firn.coordinator.cli.main", what="the firn command", extra="server")
    except Misconfigured as error:
        sys.stderr.write(f"firn: {error}\n")
        sys.exit(EXIT_USAGE)
    command_line.main()


if __name__ == "__main__":
    main()
