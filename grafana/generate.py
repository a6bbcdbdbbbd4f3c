"""Make the dashboards in ``grafana/dashboards/`` from the modules beside this one: ``make dashboards``.

Four of them, each for one question: *Fleet* (is it healthy?), *Table* (why is my commit slow or refused?), *Conflicts*
(who fights whom?), *Capacity* (what grows?).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from grafana.capacity import capacity
from grafana.conflicts import conflicts
from grafana.dashboard import built
from grafana.fleet import fleet
from grafana.table import table

FOLDER: Final = Path(__file__).parent / "dashboards"

DASHBOARDS: Final = (fleet, table, conflicts, capacity)


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for described in DASHBOARDS:
        (FOLDER / f"{described.__name__}.json").write_text(built(described()), encoding="utf-8")


if __name__ == "__main__":
    main()
