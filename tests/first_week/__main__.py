"""The first week in half an hour: ``make first-week``. See "A first week, recorded" in ``docs/operators.md``.

firn is installed from its wheel into an empty environment and deployed on this machine. Writers commit to three tables
at twenty commits a second while the daemons are upgraded from an older version, maintenance runs, columns are added,
wishes are refused, and two compactions commit on a base that is most of the run old. What that left is a table.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.first_week.report import markdown
from tests.first_week.week import Week, Wishes


def main() -> int:
    """Live the week and print the table; 1 when something in it is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.first_week", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of load (%(default)g)")
    parser.add_argument("--rate", type=float, default=20.0, help="commits a second (%(default)g)")
    parser.add_argument("--older", default=Wishes().older, help="commit to upgrade from, or 'none' (%(default).7s)")
    parser.add_argument(
        "--linked", action="store_true", help="packages of this environment, instead of the package index's"
    )
    parser.add_argument("--snapshots-max", type=int, metavar="N", help="that a table keeps (default: firn's)")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="a folder that does not exist yet, and stays")
    chosen = parser.parse_args()
    if chosen.minutes < 1 or chosen.rate <= 0:
        parser.error("--minutes must be 1 or more, --rate more than nothing")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    wishes = Wishes(
        minutes=chosen.minutes, rate=chosen.rate, older="" if chosen.older == "none" else chosen.older,
        index=not chosen.linked, snapshots_max=chosen.snapshots_max,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="firn-first-week-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / "week"
        if chosen.keep is not None:
            folder = chosen.keep.resolve()
        folder.mkdir(parents=True)
        record = Week(folder, wishes, say=say).live()
    print(markdown(record))
    wrong = record.wrong
    for one in wrong:
        say(f"not as it must be: {one}")
    return int(bool(wrong))


def say(line: str) -> None:
    """Tell how far it is."""
    print(time.strftime("%H:%M:%S"), line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        sys.exit(f"{error}")
